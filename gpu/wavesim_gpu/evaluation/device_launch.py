"""Launches from the device, measured: calls and begins, the pool, nesting, and who launches uneven work.

Example: `python -m wavesim_gpu.evaluation.device_launch --out launches.json` on a GPU with nvcc. The uneven
work is notebook 21's: every item leaves a mark, and a way that loses items is reported with how many it lost
and is not compared by its time.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from wavesim.errors import WavesimError
from wavesim.guard.program import run_program
from wavesim.guard.writing import require_writable, write_text
from wavesim.streams.uneven_work import THREADS, items_of
from wavesim_gpu.runner import current_commit
from wavesim_gpu.runtime.device import architecture, query, require_cupy, versions
from wavesim_gpu.runtime.device_linking import linked_cubin
from wavesim_gpu.runtime.kernel_sources import source_hash
from wavesim_gpu.runtime.timing import Contender, interleaved_ns

SOURCE = Path(__file__).with_suffix(".cu")
STREAMS = ("block", "fire-and-forget", "tail")  # by the number that the kernels know them by
GATHERED = {"nobody": 0, "thread": 1, "warp": 32, "block": THREADS}
THRESHOLDS = (1, 64, 256)
CALLS, OVERFLOWING, MOST_LEVELS = 64, 3_072, 40
PARENT_BLOCKS = 16
ITEM_CYCLES = 170  # 100 ns near 1.7 GHz
ROUNDS = 21


@dataclass(frozen=True)
class UnevenTables:
    """What the parent's kernel reads: running sums over its threads, and a row of items per child block."""

    first_item: Any
    first_task: Any
    tasks: Any


def uneven_tables(items: Sequence[int], threshold: int | None) -> UnevenTables:
    """The tables for a threshold; None where nobody launches.

    `first_item` and `first_task` are (threads + 1,), `tasks` is (child blocks, 2), all int32.
    """
    first_item = [0, *accumulate(items)]
    tasks, first_task = [], [0]
    for begin, end in pairwise(first_item):
        if threshold is not None and end - begin >= threshold:
            tasks += [(at, end) for at in range(begin, end, THREADS)]
        first_task.append(len(tasks))
    rows = np.array(tasks or [(0, 0)], np.int32)
    return UnevenTables(np.array(first_item, np.int32), np.array(first_task, np.int32), rows)


def call_figures(called: Sequence[int], begun: Sequence[int]) -> dict[str, float]:
    """What a call costs its thread, and what passes between begins and from the first call to its begin."""
    begins = sorted(begun)
    return {
        "call_ns": median(after - before for before, after in pairwise(called)),
        "start_ns": median(after - before for before, after in pairwise(begins)),
        "latency_ns": begun[0] - called[0],
    }


class LaunchingKernels:
    """The kernels on the GPU at hand."""

    def __init__(self) -> None:
        self.cupy = require_cupy()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.module = self.cupy.cuda.function.Module()
        self.module.load(linked_cubin(SOURCE, architecture(self.cupy)))

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        """Launches from the host; integers are passed as 32 bits."""
        passed = tuple(np.int32(one) if isinstance(one, int) else one for one in arguments)
        self.module.get_function(name)((blocks,), (threads,), passed, 0, self.stream)

    def run(self, name: str, *arguments: Any) -> None:
        """One block of one thread, and all that it launches, to the end."""
        self.launch(name, 1, 1, *arguments)
        self.stream.synchronize()

    def zeros(self, count: int, kind: Any = np.int32) -> Any:
        """An array that is there before the next launch."""
        made = self.cupy.zeros(count, kind)
        self.cupy.cuda.Device().synchronize()
        return made


def measure_calls(launches: LaunchingKernels, kind: int) -> list[dict[str, float]]:
    """The figures of a stream's calls, run by run, without the first, which loads code."""
    found = []
    for _ in range(ROUNDS + 1):
        called, begun = launches.zeros(CALLS, np.uint64), launches.zeros(CALLS, np.uint64)
        errors = launches.zeros(CALLS)
        launches.run("launch_calls", kind, CALLS, called, begun, errors)
        if errors.any() or not begun.all():
            raise WavesimError(f"{STREAMS[kind]}: launches failed with {set(errors.tolist())}")
        found.append(call_figures(called.tolist(), begun.tolist()))
    return found[1:]


def measure_pool(launches: LaunchingKernels) -> dict[str, int]:
    """How many of more launches than the pool holds were taken, how many ran, and the error of the others."""
    released, ran, errors = launches.zeros(1), launches.zeros(1), launches.zeros(OVERFLOWING)
    launches.run("fill_pool", OVERFLOWING, released, ran, errors)
    failed = [one for one in errors.tolist() if one]
    return {"taken": OVERFLOWING - len(failed), "ran": int(ran[0]), "error": failed[0] if failed else 0}


def measure_levels(launches: LaunchingKernels) -> dict[str, int]:
    """The deepest level that ran, the host's being 0, and the error of the next."""
    deepest, error = launches.zeros(1), launches.zeros(1)
    launches.run("nest", 0, MOST_LEVELS, deepest, error)
    return {"deepest": int(deepest[0]), "error": int(error[0])}


def measure_uneven(launches: LaunchingKernels) -> list[dict[str, Any]]:
    """Notebook 21's uneven work by who launches and from how many items on, in turns."""
    items = items_of(range(PARENT_BLOCKS * THREADS))
    ways = [("nobody", None)]
    ways += [(name, threshold) for name in GATHERED if name != "nobody" for threshold in THRESHOLDS]
    found, contenders = [], []
    for name, threshold in ways:
        tables = uneven_tables(items, threshold)
        arrays = [launches.cupy.asarray(one) for one in (tables.first_item, tables.first_task, tables.tasks)]
        done, lost = launches.zeros(sum(items)), launches.zeros(1)
        arguments = (GATHERED[name], *arrays, done, ITEM_CYCLES, lost)

        def launch(arguments: tuple[Any, ...] = arguments) -> None:
            launches.launch("uneven_parent", PARENT_BLOCKS, THREADS, *arguments)

        launch()
        launches.stream.synchronize()
        marks = done.tolist()
        if max(marks) > 1:
            raise WavesimError(f"{name}: an item was done {max(marks)} times")
        missing = marks.count(0)
        found.append(
            {"launcher": name, "threshold": threshold, "lost": int(lost[0]), "items_missing": missing}
        )
        contenders.append(Contender(launch, launches.stream))
    for one, rounds in zip(found, interleaved_ns(contenders, ROUNDS), strict=True):
        one["rounds_ns"] = rounds
    return found


def text_of(result: dict[str, Any]) -> str:
    """A line for each thing that was measured."""
    lines = [f"measured on {result['device']['name']}"]
    for name, runs in result["calls"].items():
        each = {figure: median(one[figure] for one in runs) for figure in runs[0]}
        lines.append(f"{name}: " + ", ".join(f"{figure} {value:,.0f}" for figure, value in each.items()))
    pool, levels = result["pool"], result["levels"]
    lines.append(
        f"pool: {pool['taken']:,} of {OVERFLOWING:,} taken, {pool['ran']:,} ran, error {pool['error']}"
    )
    lines.append(f"levels: {levels['deepest']}, then error {levels['error']}")
    for one in result["uneven"]:
        since = "" if one["threshold"] is None else f" from {one['threshold']} on"
        missing = f", {one['items_missing']:,} items missing" if one["items_missing"] else ""
        lines.append(f"{one['launcher']}{since}: {median(one['rounds_ns']) / 1000:,.1f} µs{missing}")
    return "\n".join(lines)


def main() -> int:
    """Measures, writes, and prints a line per figure."""
    parser = argparse.ArgumentParser(prog="device_launch", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file that every round is written to")
    parser.add_argument("--commit", default="", help="what the kernels were built from")
    words = parser.parse_args()
    require_writable(words.out)
    launches = LaunchingKernels()
    result: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": versions(),
        "commit": words.commit or current_commit(),
        "kernel_sources": source_hash(SOURCE),
        "calls": {name: measure_calls(launches, kind) for kind, name in enumerate(STREAMS)},
        "pool": measure_pool(launches),
        "levels": measure_levels(launches),
        "uneven": measure_uneven(launches),
    }
    write_text(words.out, json.dumps(result, indent=1, allow_nan=False) + "\n")
    sys.stdout.write(text_of(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_program("python -m wavesim_gpu.evaluation.device_launch", main))
