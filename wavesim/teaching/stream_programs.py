"""Notebook 17: chunks, a hardware queue, the order of calls, the null stream, an event."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any

from wavesim.errors import DescriptionError, WavesimError
from wavesim.labs.streams.examples import WHOLE_SM, SmallKernels, VectorAdd
from wavesim.labs.streams.measured import compared, newest_run
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.machine import StreamMachine, load_machine
from wavesim.sim.streams.program import (
    CudaStream,
    Direction,
    HostCall,
    HostThread,
    LaunchKernel,
    Memcpy,
    RecordEvent,
    StreamProgram,
    WaitEvent,
)
from wavesim.sim.streams.stream_order import LEGACY
from wavesim.sim.streams.timeline import StreamTimeline
from wavesim.teaching.exercises import WrongAnswer, require
from wavesim.teaching.shown import Shown
from wavesim.widgets.stream_explorers import StreamsPicture

US = 1_000
TEXTBOOK = load_machine()
ONE_QUEUE = replace(TEXTBOOK, queues=1)
# Calls and copies that cost something: 5 us of the host each, and 10 us before a copy's first byte.
WITH_COSTS = replace(
    TEXTBOOK, name="textbook with costs", launch_call_ns=5 * US, copy_call_ns=5 * US, copy_ns=10 * US
)


@typed
def kernel(name: str, stream: str = LEGACY, us: int = 200, until: str = "") -> LaunchKernel:
    """A launch of four blocks, which are half of the textbook machine's SMs."""
    return LaunchKernel(name, stream, 4, us * US, WHOLE_SM, until=until)


@typed
def copy(name: str, direction: Direction, stream: str = LEGACY, us: int = 100) -> Memcpy:
    """A copy from or to pinned memory that takes so long on the textbook machine."""
    return Memcpy(name, direction, us * 40_000, stream)


@typed
def run(
    *calls: HostCall, non_blocking: Collection[str] = (), machine: StreamMachine = TEXTBOOK
) -> StreamTimeline:
    """The calls of one host thread; streams are made as they appear, blocking unless they are named.

    Raises `DeadlockError` and `DescriptionError`.
    """
    streams = [CudaStream(name, name not in non_blocking) for name in stream_names(calls)]
    unknown = set(non_blocking) - {one.name for one in streams}
    if unknown:
        raise DescriptionError(f"non_blocking names {shown(min(unknown))}, a stream that no call uses")
    return simulate_streams(StreamProgram("your calls", streams, [HostThread("host", calls)]), machine)


@typed
def stream_names(calls: Iterable[HostCall]) -> list[str]:
    """Of all but the null stream, as they appear."""
    used = [getattr(call, "stream", LEGACY) for call in calls]
    return [name for name in dict.fromkeys(used) if name != LEGACY]


@typed
def picture(timeline: StreamTimeline) -> StreamsPicture:
    """The timeline, to look at and to step through."""
    return StreamsPicture.of(timeline)


@typed
def vector_add_us(chunks: int, machine: StreamMachine = TEXTBOOK, streams: int = 4) -> float:
    """Time of the vector addition in so many chunks, depth-first."""
    add = VectorAdd(streams, chunks).program(machine.device.sm_count)
    return simulate_streams(add, machine).end_ns / US


def measured_table() -> Shown:
    """Simulated beside measured, of the newest run that is shipped."""
    found = newest_run()
    assert found is not None, "a measured run ships with wavesim"
    cells = [
        (row.name, f"{row.simulated_ns / US:,.0f}", f"{row.measured_ns / US:,.0f}", f"{100 * row.error:+.1f}")
        for row in compared(found)
    ]
    return Shown((found.provenance, "simulated, µs", "measured, µs", "error, %"), tuple(cells))


MOST_CHUNKS = 32
NEARLY = 1.01  # of the least time
CHAINS = SmallKernels(streams=3, kernels=3, kernel_ns=100 * US)
STEPS = ("a0", "b0", "k0", "c0", "a1", "b1", "k1", "c1")
PRODUCE, EXTRA, CONSUME = kernel("produce", "a"), kernel("extra", "a", us=400), kernel("consume", "b")


@lru_cache
def _chunk_times() -> dict[int, float]:
    """Microseconds by the number of chunks."""
    return {count: vector_add_us(count, WITH_COSTS) for count in range(1, MOST_CHUNKS + 1)}


def _chunks(chunks: int) -> dict[str, Any]:
    """The number of chunks, 1 to 32, that takes least on the textbook machine with costs."""
    times = _chunk_times()
    best = min(times, key=lambda count: times[count])
    least = "" if chunks == best else f", within 1 % of the least, {times[best]:,.0f} with {best}"
    facts = {"taken": times[chunks], "least": least, "more": "fewer" if chunks > best else "more"}
    return {**facts, "is_near": times[chunks] <= NEARLY * times[best]}


def _one_queue(_: int) -> dict[str, Any]:
    """Time of three chains of three kernels of 100 us, depth-first on one hardware queue."""
    taken = simulate_streams(CHAINS.program(8), ONE_QUEUE).end_ns // US
    return {"three_queues": 300, "one_stream": 900, "taken": taken}


def _two_chunks(order: Sequence[str]) -> StreamTimeline:
    """The vector addition in two chunks on two streams and one hardware queue, called in this order."""
    made: dict[str, HostCall] = {}
    for chunk in "01":
        stream = f"s{chunk}"
        made |= {f"{array}{chunk}": copy(f"{array}{chunk}", "h2d", stream) for array in "ab"}
        made[f"k{chunk}"] = kernel(f"k{chunk}", stream)
        made[f"c{chunk}"] = copy(f"c{chunk}", "d2h", stream)
    return run(*(made[name] for name in order), machine=ONE_QUEUE)


@lru_cache
def _least_us() -> int:
    """The least time of any order that keeps both chunks' steps in theirs."""
    return min(_two_chunks(_interleaved(places)).end_ns for places in combinations(range(8), 4)) // US


def _interleaved(places: Sequence[int]) -> list[str]:
    first, second = iter(STEPS[:4]), iter(STEPS[4:])
    return [next(first) if place in places else next(second) for place in range(8)]


def _grade_order(answer: Any) -> str:
    """An order of the eight calls that takes least on one hardware queue."""
    names = _names(answer)
    require(
        sorted(names) == sorted(STEPS),
        f"each of {', '.join(STEPS)} once, please; you gave {', '.join(names) or 'nothing'}.",
    )
    for chunk in "01":
        own = [name for name in names if name.endswith(chunk)]
        require(
            own.index(f"k{chunk}") == 2 and own[3] == f"c{chunk}",
            f"chunk {chunk} is called {', '.join(own)}: in that order; its kernel needs both copies.",
        )
    taken = _two_chunks(names).end_ns // US
    require(
        taken == _least_us(),
        f"that takes {taken} µs, and {_least_us()} are possible. Which call stands at the front of the "
        "queue, waiting, while a copy engine is idle?",
    )
    return f"{taken} µs: nothing that could run stands behind something that waits."


def _names(answer: Any) -> list[str]:
    if isinstance(answer, str):
        return re.findall(r"\w+", answer.casefold())
    require(isinstance(answer, Iterable), 'the answer is a list of names, such as ["a0", "b0", ...].')
    names = list(answer)
    require(all(isinstance(name, str) for name in names), f"{names} are not all names of calls.")
    return [name.strip().casefold() for name in names]


def _grade_non_blocking(answer: Any) -> str:
    """Which of s1 and s2 are to be non-blocking, so that `log` waits for k1 and k2 for nothing."""
    names = set(_names(answer))
    require(names <= {"s1", "s2"}, f"the streams are s1 and s2; you gave {', '.join(sorted(names))}.")
    found = run(kernel("k1", "s1"), kernel("log"), kernel("k2", "s2"), non_blocking=names)
    log, first, second = (found.operation(name) for name in ("log", "k1", "k2"))
    require(
        log.start_ns >= first.end_ns, "log does not wait for k1 any more, and reads what is not there yet."
    )
    require(
        second.start_ns == 0, f"k2 starts at {second.start_ns // US} µs: it still waits for the null stream."
    )
    return "The null stream waits for blocking streams only, and only they wait for it."


def _grade_event(answer: Any) -> str:
    """Calls that make consume wait for produce and not for extra: a list."""
    require(isinstance(answer, list | tuple), "the answer is a list of calls.")
    calls = list(answer)
    others = [call for call in calls if call not in (PRODUCE, EXTRA, CONSUME)]
    for call in (PRODUCE, EXTRA, CONSUME):
        require(calls.count(call) == 1, f"{call.name} has to be launched once, as it is.")
    wrong = [call for call in others if not isinstance(call, RecordEvent | WaitEvent)]
    require(not wrong, f"{wrong[0] if wrong else ''}: only RecordEvent and WaitEvent may be added.")
    require(
        calls.index(PRODUCE) < calls.index(EXTRA), "produce comes before extra on their stream; leave it so."
    )
    for produce_us in (200, 2_000):  # a promise, and not a matter of time
        _require_handed_over(calls, produce_us)
    return "The event was recorded between produce and extra, so it stands for produce alone."


def _require_handed_over(calls: Sequence[HostCall], produce_us: int) -> None:
    longer = kernel("produce", "a", us=produce_us)
    try:
        found = run(*(longer if call == PRODUCE else call for call in calls), non_blocking=("a", "b"))
    except WavesimError as error:
        raise WrongAnswer(str(error)) from None
    produced, consumed = found.operation("produce"), found.operation("consume")
    late_us = (consumed.start_ns - produced.end_ns) // US
    told = f" {found.notes[0]}." if found.notes else ""
    starts = f"consume starts at {consumed.start_ns // US} µs"
    require(late_us >= 0, f"{starts}, and produce ends at {produced.end_ns // US}.{told}")
    require(
        late_us == 0,
        f"{starts}, {late_us} after the end of produce: it waits for extra too. What does the event stand "
        "for when it is recorded?",
    )


GRADERS = {
    "17.1": _chunks,
    "17.2": _one_queue,
    "17.3": _grade_order,
    "17.4": _grade_non_blocking,
    "17.5": _grade_event,
}
