"""Interleaved timing: several variants in turns, in one process, all queued before the first has ended.

Example: A B C, C A B, A C B, ...: every variant meets the same clocks, caches and power as the others, so
that their differences mean something where their absolute times drift. The order is drawn anew each round:
behind one that draws little power everything runs at a higher clock. Between them stamps tell each one's own
SM clock, so that it has a number of cycles too.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.run import control

SOURCE = Path(__file__).with_name("clock_stamp.cu")
HEAD_START_NS = 300_000  # the GPU is held this long while the host queues the first round behind it
# Of sustained load: our kernels are power-limited, and the clock needs tens of milliseconds to settle.
WARM_UP_S = 0.15
BLOCKS_PER_SM = 4  # blocks spread breadth-first, so every SM gets one; spare ones make up for busy SMs


class ClockStamps:
    """Room for `count` stamps on the current GPU."""

    def __init__(self, count: int) -> None:
        self._sms = query().sm_count
        self._stamps = require_cupy().zeros((count, self._sms, 2), np.uint64)
        self._function = load_function(SOURCE, "stamp", Build()).function
        self._made = 0

    def make(self, stream: Any) -> None:
        """Puts the next stamp into a stream; about 2 us."""
        where = self._stamps.data.ptr + self._made * self._stamps.strides[0]
        self._function((self._sms * BLOCKS_PER_SM, 1, 1), (32, 1, 1), (np.uint64(where),), 0, stream)
        self._made += 1

    def clocks_ghz(self) -> list[float]:
        """The mean clock between each stamp and the next, median over SMs; NaN where no SM has both."""
        return mean_clocks(self._stamps[: self._made].get())


def mean_clocks(stamps: np.ndarray[Any, Any]) -> list[float]:
    """`stamps` (count, SMs, 2) of cycles and ns, zeros where an SM made none; count - 1 clocks in GHz."""
    clocks = []
    for before, after in pairwise(stamps):
        is_there = (before[:, 1] > 0) & (after[:, 1] > before[:, 1])
        passed = (after[is_there] - before[is_there]).astype(float)
        clocks.append(float(np.median(passed[:, 0] / passed[:, 1])) if is_there.any() else float("nan"))
    return clocks


@dataclass(frozen=True)
class Contender:
    """Something to time: `launch` starts it, in the order of `stream`, `repeats` times, one after the other.

    More than once where it is short: the events around a launch, and a graph's own start, take microseconds.
    """

    launch: Callable[[], None]
    stream: Any
    repeats: int = 1


@dataclass(frozen=True)
class Rounds:
    """One contender's rounds: nanoseconds of a run, and the mean SM clock in GHz while each ran."""

    times_ns: list[int]
    clocks_ghz: list[float]


def interleaved_ns(contenders: Sequence[Contender], rounds: int) -> list[list[int]]:
    """Nanoseconds per contender and round; each round is in an order of its own."""
    return [timed.times_ns for timed in interleaved(contenders, rounds)]


def interleaved(
    contenders: Sequence[Contender],
    rounds: int,
    warm_up_s: float = WARM_UP_S,
    head_start_ns: int = HEAD_START_NS,
) -> list[Rounds]:
    """Times and clocks per contender and round; each round is in an order of its own.

    Give runs that are shorter than their launch from Python, some 40 us, a head start for all of them.
    """
    cupy = require_cupy()
    _warm_up(cupy, contenders, warm_up_s)
    stamps = ClockStamps(rounds * len(contenders) + 1)
    pass_time = load_function(control.SOURCE, "pass_time", Build()).function
    pass_time((1, 1, 1), (1, 1, 1), (head_start_ns,), 0, contenders[0].stream)
    stamps.make(contenders[0].stream)
    last = _mark(cupy, contenders[0].stream)
    marks: list[tuple[int, Any, Any]] = []
    shuffled = Random(0)  # noqa: S311  # an order, no secret
    for _ in range(rounds):
        for index in shuffled.sample(range(len(contenders)), len(contenders)):
            stream = contenders[index].stream
            stream.wait_event(last)
            start = _mark(cupy, stream)
            contenders[index].launch()
            end = _mark(cupy, stream)
            stamps.make(stream)
            last = _mark(cupy, stream)
            marks.append((index, start, end))
    cupy.cuda.Device().synchronize()
    result = [Rounds([], []) for _ in contenders]
    for (index, start, end), clock in zip(marks, stamps.clocks_ghz(), strict=True):
        run_ms = cupy.cuda.get_elapsed_time(start, end) / contenders[index].repeats
        result[index].times_ns.append(round(run_ms * 1e6))
        result[index].clocks_ghz.append(round(clock, 4))
    return result


def run_in_turn(contenders: Iterable[Contender]) -> None:
    """Queues them one after the other, across their streams, without a pause between."""
    cupy = require_cupy()
    last = None
    for contender in contenders:
        if last is not None:
            contender.stream.wait_event(last)
        contender.launch()
        last = _mark(cupy, contender.stream)


def _warm_up(cupy: Any, contenders: Sequence[Contender], duration_s: float) -> None:
    began = time.monotonic()
    while time.monotonic() - began < duration_s:
        for contender in contenders:
            contender.launch()
        cupy.cuda.Device().synchronize()


def _mark(cupy: Any, stream: Any) -> Any:
    event = cupy.cuda.Event()
    event.record(stream)
    return event
