"""Runs every stream program of the lab on the GPU at hand and writes what it took.

Example: `python -m wavesim_gpu.bench.labs.streams --out wavesim/sim/streams/runs/DATE.json` starts a process
per number of hardware queues, one after the other; `python -m wavesim.evaluation.streams_page` then compares.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, DeviceError, WavesimError
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser, integer
from wavesim.safe_io.program import run_program
from wavesim.safe_io.reading import read_text
from wavesim.safe_io.writing import require_writable, write_text
from wavesim.sim.streams.examples import EXAMPLES
from wavesim_gpu.bench.labs.streams.worker import measured
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.run.runner import current_commit

NAME = "wavesim_gpu.bench.labs.streams"
ROUNDS, MOST_ROUNDS, LIMIT_S, MOST_BYTES = 20, 1000, 300, 1 << 24
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


def measure(rounds: int, commit: str) -> dict[str, Any]:
    """What all processes found, as one result. Raises `DeviceError` where one failed."""
    found = [_in_process(queues, rounds) for queues in sorted({one.queues for one in EXAMPLES})]
    return {
        "format": "wavesim streams 1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": found[0]["device"],
        "commit": commit,
        "versions": found[0]["versions"],
        "rounds": rounds,
        "figures": {name: value for one in found for name, value in one["figures"].items()},
        "programs": [program for one in found for program in one["programs"]],
    }


def _in_process(queues: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        command = [
            sys.executable,
            "-m",
            NAME,
            "--worker",
            str(queues),
            "--rounds",
            str(rounds),
            "--out",
            str(path),
        ]
        environment = {**os.environ, CONNECTIONS: str(queues)}
        done = subprocess.run(  # noqa: S603  # our own command
            command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        if done.returncode:
            told = (done.stderr.strip() or "nothing was said").splitlines()[-1]
            raise DeviceError(
                f"the process with {queues} hardware queues ended with {done.returncode}: {told}"
            )
        found: dict[str, Any] = json.loads(read_text(path, MOST_BYTES))
    for program in found["programs"]:
        middle = sorted(program["rounds_ns"])[len(program["rounds_ns"]) // 2]
        print(f"{program['name']}: {middle / 1e3:,.0f} us", flush=True)  # noqa: T201  # progress
    return found


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(prog=f"python -m {NAME}", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the results' file (JSON)")
    parser.add_argument("--rounds", type=integer, default=ROUNDS, help=f"rounds of all programs ({ROUNDS})")
    parser.add_argument("--commit", help="commit of the programs, where git cannot tell")
    parser.add_argument("--worker", type=integer, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    whole("--rounds", options.rounds, 3, MOST_ROUNDS)
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Measures and writes the file; status 2 for bad input, no GPU or a wrong result."""
    try:
        options = _options(sys.argv[1:] if words is None else words)
        require_writable(options.out)
        if options.worker:
            found = measured(options.worker, options.rounds)
        else:
            require_cupy()
            found = measure(options.rounds, options.commit or current_commit())
        write_text(options.out, json.dumps(found) + "\n")
    except (DescriptionError, DeviceError, WavesimError) as error:
        print(lines(str(error)), file=sys.stderr)  # noqa: T201
        return 2
    if not options.worker:
        print(f"{len(found['programs'])} programs in {options.out}")  # noqa: T201  # what it is for
    return 0


if __name__ == "__main__":
    sys.exit(run_program("streams_lab", main))
