"""What one process measures: the examples with its number of hardware queues, which CUDA reads at its start.

Example: a process that was started with CUDA_DEVICE_MAX_CONNECTIONS=1 plays the three examples with one queue
in turns, and says whether copies have queues of their own.
"""

import json
import sys
from pathlib import Path
from typing import Any

from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim.sim.streams.examples import EXAMPLES
from wavesim_gpu.bench.labs.streams.calibration import Calibrator
from wavesim_gpu.bench.labs.streams.program_run import ProgramRun
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.run.runner import WrongResultError

WARM_UPS = 2


def measured(queues: int, rounds: int) -> dict[str, Any]:
    """Figures and examples of a process with so many queues. Raises `WrongResultError` for a wrong sum."""
    device = query()
    runs = {
        entry.name: ProgramRun(entry.make(device.sm_count)) for entry in EXAMPLES if entry.queues == queues
    }
    for name, run in runs.items():
        if not run.is_sum_right():
            raise WrongResultError(f"{name}: c is not a + b")
    times: dict[str, list[int]] = {name: [] for name in runs}
    spans: dict[str, list[Any]] = {name: [] for name in runs}
    for number in range(WARM_UPS + rounds):
        for name, run in runs.items():
            total = run.play()[1]
            if number >= WARM_UPS:
                times[name].append(total)
                spans[name].append({**run.kernel_spans(), **run.copy_spans()})
    return {
        "device": device.name,
        "versions": versions(),
        "figures": figures(queues, rounds),
        "programs": [
            {"name": name, "queues": queues, "rounds_ns": times[name], "spans_ns": median_spans(spans[name])}
            for name in runs
        ],
    }


def figures(queues: int, rounds: int) -> dict[str, Any]:
    """What a process with so many queues can tell: with one, how copies queue; with most, all else."""
    calibrator = Calibrator(rounds)
    if queues == 1:
        return {"has_copy_queues": calibrator.has_copy_queues()}
    return calibrator.figures() if queues == most_queues() else {}


def most_queues() -> int:
    """Of the examples: the usual number."""
    return max(entry.queues for entry in EXAMPLES)


def median_spans(rounds: list[dict[str, tuple[int, int]]]) -> dict[str, list[int]]:
    """Of each operation, the middle of its starts and of its ends."""
    return {
        name: [sorted(entry[name][place] for entry in rounds)[len(rounds) // 2] for place in (0, 1)]
        for name in rounds[0]
    }


def main() -> int:
    """Measures with so many queues and writes what was found: queues, rounds and a path."""
    queues, rounds, path = sys.argv[1:]
    write_text(Path(path), json.dumps(measured(int(queues), int(rounds))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("streams", main))
