"""Launches from the device, measured: calls and begins, the pool, nesting, and who launches uneven work.

Example: `python -m wavesim_gpu.bench.labs.device_launch --out launches.json` on a GPU with nvcc. The uneven
work is notebook 21's: every item leaves a mark, and a way that loses launches is reported with how many, and
not timed. On an H200 the GPU hung in four of six processes in which some 500 launches were refused at once,
and in none without a refused one: a process in which the pool was full is ended before anything else is
measured, and all have a time limit besides.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from wavesim.errors import WavesimError
from wavesim.sim.streams.uneven_work import THREADS, items_of
from wavesim_gpu.bench.measuring_process import MeasuringProcess, WorkerError
from wavesim_gpu.driver.device import architecture, require_cupy
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.driver.user_sources import linked_cubin
from wavesim_gpu.run.timing import Contender, interleaved

SOURCE = Path(__file__).with_suffix(".cu")
STREAMS = ("block", "fire-and-forget", "tail")  # by the number that the kernels know them by
GATHERED = {"nobody": 0, "thread": 1, "warp": 32, "block": THREADS}
# Of items; of 2,732 threads that launch from 3 on, some 450 are refused.
THRESHOLDS = {"thread": (3, 64, 256), "warp": (1, 64, 256), "block": (1, 64, 256)}
CALLS, OVERFLOWING, MOST_LEVELS = 64, 2_304, 40
# Blocks, warps of each and lanes of each that call at once, and calls of each: what may be pending, or less.
CALLERS = (
    (1, 1, 1, 64),
    (1, 1, 32, 2),
    (1, 8, 1, 8),
    (16, 1, 1, 8),
    (132, 1, 1, 4),
    (16, 8, 1, 8),
    (16, 8, 8, 1),
)
PARENT_BLOCKS = 16
ITEM_CYCLES = 170  # 100 ns near 1.7 GHz
ROUNDS = 21
LIMIT_S = 10.0  # for one answer, which is there within a second
HEAD_START_NS = 100_000  # the events and the launch of a round are queued meanwhile


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


def caller_figures(called: Sequence[int], begun: Sequence[int]) -> dict[str, int]:
    """From the first call of all to the last, from the first begin to the last, and from call to begin."""
    return {
        "calling_ns": max(called) - min(called),
        "beginning_ns": max(begun) - min(begun),
        "first_ns": min(begun) - min(called),
    }


class LaunchingKernels:
    """The kernels on the GPU at hand, from machine code of `SOURCE` that `linked_cubin` made."""

    def __init__(self, cubin: bytes) -> None:
        self.cupy = require_cupy()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.module = self.cupy.cuda.function.Module()
        self.module.load(cubin)

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        """Launches from the host; integers are passed as 32 bits."""
        passed = tuple(np.int32(entry) if isinstance(entry, int) else entry for entry in arguments)
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

    def calls(self, kind: int) -> list[dict[str, float]]:
        """The figures of a stream's calls, run by run, without the first, which loads code."""
        result = []
        for _ in range(ROUNDS + 1):
            called, begun = self.zeros(CALLS, np.uint64), self.zeros(CALLS, np.uint64)
            errors = self.zeros(CALLS)
            self.run("launch_calls", kind, CALLS, called, begun, errors)
            if errors.any() or not begun.all():
                raise WavesimError(f"{STREAMS[kind]}: launches failed with {set(errors.tolist())}")
            result.append(call_figures(called.tolist(), begun.tolist()))
        return result[1:]

    def callers(self, blocks: int, warps: int, lanes: int, count: int) -> dict[str, Any]:
        """So many at once: figures run by run, without the first."""
        launches = blocks * warps * lanes * count
        rounds = []
        for _ in range(ROUNDS + 1):
            called, begun = self.zeros(launches, np.uint64), self.zeros(launches, np.uint64)
            error = self.zeros(1)
            arguments = lanes, count, called, begun, error
            self.launch("launch_from_many", blocks, warps * 32, *arguments)
            self.stream.synchronize()
            if int(error[0]) or not begun.all():
                raise WavesimError(f"{blocks} blocks of {warps} warps: launches failed with {int(error[0])}")
            rounds.append(caller_figures(called.tolist(), begun.tolist()))
        who = {"blocks": blocks, "warps": warps, "lanes": lanes, "count": count}
        return {**who, "rounds": rounds[1:]}

    def family(self) -> dict[str, list[int]]:
        """A parent of one thread that calls nothing, and one that calls a child: to their ends, in turns."""
        stamps, error = self.zeros(1, np.uint64), self.zeros(1)

        def parent(calls: int) -> Contender:
            arguments = 1, calls, stamps, stamps, error
            return Contender(lambda: self.launch("launch_from_many", 1, 32, *arguments), self.stream)

        none, entry = interleaved([parent(0), parent(1)], ROUNDS, 0, 10 * HEAD_START_NS)
        if int(error[0]) or not int(stamps[0]):
            raise WavesimError(f"family: launches of one child failed with {int(error[0])}")
        return {"none_ns": none.times_ns, "one_ns": entry.times_ns}

    def children(self) -> dict[str, Any]:
        """All blocks of children that launch every item, as one grid of the host's, round by round."""
        tables = uneven_tables(items_of(range(PARENT_BLOCKS * THREADS)), 1)
        tasks, done = self.cupy.asarray(tables.tasks), self.zeros(int(tables.first_item[-1]))
        blocks = len(tables.tasks)

        def launch() -> None:
            self.launch("uneven_child", blocks, THREADS, tasks, done, ITEM_CYCLES)

        rounds = interleaved([Contender(launch, self.stream)], ROUNDS, 0, 10 * HEAD_START_NS)[0].times_ns
        return {"blocks": blocks, "rounds_ns": rounds}

    def pool(self) -> dict[str, int]:
        """How many of more launches than the pool holds were taken, how many ran, the error of the others."""
        released, ran, errors = self.zeros(1), self.zeros(1), self.zeros(OVERFLOWING)
        self.run("fill_pool", OVERFLOWING, released, ran, errors)
        failed = [entry for entry in errors.tolist() if entry]
        return {"taken": OVERFLOWING - len(failed), "ran": int(ran[0]), "error": failed[0] if failed else 0}

    def levels(self) -> dict[str, int]:
        """The deepest level that ran, the host's being 0, and the error of the next."""
        deepest, error = self.zeros(1), self.zeros(1)
        self.run("nest", 0, MOST_LEVELS, deepest, error)
        return {"deepest": int(deepest[0]), "error": int(error[0])}

    def uneven(self, launcher: str, threshold: int | None, rounds: int = ROUNDS) -> dict[str, Any]:
        """Notebook 21's uneven work by who launches and from how many items on, each round to its end.

        It ends with the first round that loses launches, and then has no times. Raises `WavesimError` where
        an item is done twice.
        """
        items = items_of(range(PARENT_BLOCKS * THREADS))
        tables = uneven_tables(items, threshold)
        arrays = [self.cupy.asarray(entry) for entry in (tables.first_item, tables.first_task, tables.tasks)]
        done, lost = self.zeros(sum(items)), self.zeros(1)

        arguments = (GATHERED[launcher], *arrays, done, ITEM_CYCLES, lost)

        def launch() -> None:
            self.launch("uneven_parent", PARENT_BLOCKS, THREADS, *arguments)

        launch()
        self.stream.synchronize()
        marks = done.tolist()
        if max(marks) > 1:
            raise WavesimError(f"{launcher}: an item was done {max(marks)} times")
        alone = [Contender(launch, self.stream)]
        # Each round ends before the next is queued, so that no launch meets the rounds before its own.
        times: list[int] = []
        while not int(lost[0]) and len(times) < rounds:
            times += interleaved(alone, 1, 0, HEAD_START_NS)[0].times_ns
        result = {"launcher": launcher, "threshold": threshold, "lost": int(lost[0])}
        missing = (done < 1 + len(times)).sum()
        return {**result, "items_missing": int(missing), "rounds_ns": [] if result["lost"] else times}


def uneven_ways() -> Iterator[tuple[str, int | None]]:
    """Who launches, and from how many items on."""
    yield "nobody", None
    for name in GATHERED:
        if name != "nobody":
            yield from ((name, threshold) for threshold in THRESHOLDS[name])


def measure_uneven(kernels: MeasuringProcess, limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
    """The uneven work in every way, each told as soon as it is known; `failed` says why one has no times."""
    result = []
    for name, threshold in uneven_ways():
        try:
            entry = kernels.ask(limit_s, "uneven", name, threshold)
        except WorkerError as error:
            entry = {"launcher": name, "threshold": threshold, "failed": str(error)}
        if entry.get("lost"):
            kernels.close()
        result.append(entry)
        sys.stderr.write(_uneven_line(entry) + "\n")
    return result


def _uneven_line(entry: dict[str, Any]) -> str:
    since = "" if entry["threshold"] is None else f" from {entry['threshold']} on"
    if "failed" in entry:
        return f"{entry['launcher']}{since}: {entry['failed']}"
    if entry["lost"]:
        missing = f"{entry['items_missing']:,} items missing"
        return f"{entry['launcher']}{since}: {entry['lost']:,} launches lost, {missing}"
    return f"{entry['launcher']}{since}: {median(entry['rounds_ns']) / 1000:,.1f} µs"


def document(_rounds: int) -> dict[str, Any]:
    """All figures; the pool is filled first, in a process that is ended before anything else is measured."""
    kernels = MeasuringProcess(LaunchingKernels, linked_cubin(SOURCE, architecture(require_cupy())))
    try:
        pool = kernels.ask(LIMIT_S, "pool")
        kernels.close()
        return {
            "kernel_sources": source_hash(SOURCE),
            "calls": {name: kernels.ask(LIMIT_S, "calls", kind) for kind, name in enumerate(STREAMS)},
            "callers": [kernels.ask(LIMIT_S, "callers", *entry) for entry in CALLERS],
            "children": kernels.ask(LIMIT_S, "children"),
            "family": kernels.ask(LIMIT_S, "family"),
            "pool": pool,
            "levels": kernels.ask(LIMIT_S, "levels"),
            "uneven": measure_uneven(kernels),
        }
    finally:
        kernels.close()
