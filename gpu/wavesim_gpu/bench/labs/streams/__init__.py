"""The streams lab: every example of `sim.streams` on the GPU, a process per number of hardware queues.

CUDA reads how many queues there are when a process starts, so each number has a process of its own, one after
the other. `wavesim.sim.streams.measured` then compares with what is simulated.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from wavesim.errors import DeviceError
from wavesim.safe_io.reading import read_text
from wavesim.sim.streams.examples import EXAMPLES

NAME = "wavesim_gpu.bench.labs.streams.worker"
ROUNDS, LIMIT_S, MOST_BYTES = 20, 300, 1 << 24
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


def document(rounds: int) -> dict[str, Any]:
    """What all processes found, as one result. Raises `DeviceError` where one failed."""
    rounds = rounds or ROUNDS
    result = [_in_process(queues, rounds) for queues in sorted({entry.queues for entry in EXAMPLES})]
    return {
        "format": "wavesim streams 1",
        "device": result[0]["device"],
        "versions": result[0]["versions"],
        "rounds": rounds,
        "figures": {name: value for entry in result for name, value in entry["figures"].items()},
        "programs": [program for entry in result for program in entry["programs"]],
    }


def _in_process(queues: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        command = [sys.executable, "-m", NAME, str(queues), str(rounds), str(path)]
        environment = {**os.environ, CONNECTIONS: str(queues)}
        done = subprocess.run(  # noqa: S603  # our own command
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        if done.returncode:
            told = (done.stderr.strip() or "nothing was said").splitlines()[-1]
            raise DeviceError(
                f"the process with {queues} hardware queues ended with {done.returncode}: {told}"
            )
        result: dict[str, Any] = json.loads(read_text(path, MOST_BYTES))
    for program in result["programs"]:
        middle = sorted(program["rounds_ns"])[len(program["rounds_ns"]) // 2]
        print(f"{program['name']}: {middle / 1e3:,.0f} us", flush=True)  # noqa: T201  # progress
    return result
