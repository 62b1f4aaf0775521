"""Interleaved timing: several variants in turns, in one process, all queued before the first has ended.

Picture: A B C, B C A, C A B, ...: every variant meets the same clocks, caches and power as the others, so
that their differences mean something where their absolute times drift.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from wavesim_gpu.compiler import Build
from wavesim_gpu.device import require_cupy
from wavesim_gpu.kernels import control
from wavesim_gpu.program import load_function

HEAD_START_NS = 300_000  # the GPU is held this long while the host queues the first round behind it
# Of sustained load: our kernels are power-limited, and the clock needs tens of milliseconds to settle.
WARM_UP_S = 0.15


@dataclass(frozen=True)
class Contender:
    """Something to time: `launch` starts it, in the order of `stream`."""

    launch: Callable[[], None]
    stream: Any


def interleaved_ns(contenders: Sequence[Contender], rounds: int) -> list[list[int]]:
    """Nanoseconds per contender and round; each round starts with the next contender."""
    cupy = require_cupy()
    _warm_up(cupy, contenders)
    pass_time = load_function(control.SOURCE, "pass_time", Build()).function
    pass_time((1, 1, 1), (1, 1, 1), (HEAD_START_NS,), 0, contenders[0].stream)
    last = _mark(cupy, contenders[0].stream)
    marks: list[tuple[int, Any, Any]] = []
    for turn in range(rounds):
        for step in range(len(contenders)):
            index = (turn + step) % len(contenders)
            stream = contenders[index].stream
            stream.wait_event(last)
            start = _mark(cupy, stream)
            contenders[index].launch()
            last = _mark(cupy, stream)
            marks.append((index, start, last))
    cupy.cuda.Device().synchronize()
    times: list[list[int]] = [[] for _ in contenders]
    for index, start, end in marks:
        times[index].append(round(cupy.cuda.get_elapsed_time(start, end) * 1e6))
    return times


def run_in_turn(contenders: Iterable[Contender]) -> None:
    """Queues them one after the other, across their streams, without a pause between."""
    cupy = require_cupy()
    last = None
    for contender in contenders:
        if last is not None:
            contender.stream.wait_event(last)
        contender.launch()
        last = _mark(cupy, contender.stream)


def _warm_up(cupy: Any, contenders: Sequence[Contender]) -> None:
    began = time.monotonic()
    while time.monotonic() - began < WARM_UP_S:
        for contender in contenders:
            contender.launch()
        cupy.cuda.Device().synchronize()


def _mark(cupy: Any, stream: Any) -> Any:
    event = cupy.cuda.Event()
    event.record(stream)
    return event
