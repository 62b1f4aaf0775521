"""Exercises of notebook 17: chunks, a hardware queue, the order of calls, the null stream, an event."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from wavesim.errors import WavesimError
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.examples import SmallKernels
from wavesim.sim.streams.program import HostCall, RecordEvent, WaitEvent
from wavesim.sim.streams.timeline import StreamTimeline
from wavesim.teaching.exercises import Exercise, WrongAnswer, require, whole
from wavesim.teaching.streams_lab import ONE_QUEUE, US, WITH_COSTS, copy, kernel, run, vector_add_us

MOST_CHUNKS = 32
NEARLY = 1.01  # of the least time
CHAINS = SmallKernels(streams=3, kernels=3, kernel_ns=100 * US)
STEPS = ("a0", "b0", "k0", "c0", "a1", "b1", "k1", "c1")
PRODUCE, EXTRA, CONSUME = kernel("produce", "a"), kernel("extra", "a", us=400), kernel("consume", "b")


@lru_cache
def chunk_times() -> dict[int, float]:
    """Microseconds by the number of chunks."""
    return {count: vector_add_us(count, WITH_COSTS) for count in range(1, MOST_CHUNKS + 1)}


def grade_chunks(answer: Any) -> str:
    """The number of chunks, 1 to 32, that takes least on the textbook machine with costs."""
    chunks = whole(answer, 1, MOST_CHUNKS)
    times = chunk_times()
    best = min(times, key=lambda count: times[count])
    if times[chunks] > NEARLY * times[best]:
        more = "fewer" if chunks > best else "more"
        raise WrongAnswer(
            f"in {chunks} it takes {times[chunks]:,.0f} µs there; try {more}: what does every chunk cost, "
            "and what is left that does not overlap?"
        )
    least = "" if chunks == best else f", within 1 % of the least, {times[best]:,.0f} with {best}"
    return (
        f"{times[chunks]:,.0f} µs{least}: more chunks leave less that does not overlap, and cost more copies."
    )


def grade_one_queue(answer: Any) -> str:
    """Time of three chains of three kernels of 100 us, depth-first on one hardware queue."""
    time_us = whole(answer, 0, 10_000)
    true_us = simulate_streams(CHAINS.program(8), ONE_QUEUE).end_ns // US
    require(time_us != 300, "300 µs would be three queues: with one, who stands at its front at 100 µs?")
    require(time_us != 900, "900 µs would be one stream: may not a chain's last kernel run beside another?")
    require(
        time_us == true_us,
        f"{time_us} µs? A kernel leaves the queue when it starts. Only then is the one behind it looked at; "
        "write down when each of the nine leaves.",
    )
    return "A chain's last kernel and the next chain's first are neighbours in the queue: only these overlap."


def two_chunks(order: Sequence[str]) -> StreamTimeline:
    """The vector addition in two chunks on two streams and one hardware queue, called in this order."""
    made: dict[str, HostCall] = {}
    for chunk in "01":
        stream = f"s{chunk}"
        made |= {f"{array}{chunk}": copy(f"{array}{chunk}", "h2d", stream) for array in "ab"}
        made[f"k{chunk}"] = kernel(f"k{chunk}", stream)
        made[f"c{chunk}"] = copy(f"c{chunk}", "d2h", stream)
    return run(*(made[name] for name in order), machine=ONE_QUEUE)


@lru_cache
def least_us() -> int:
    """The least time of any order that keeps both chunks' steps in theirs."""
    return min(two_chunks(_interleaved(places)).end_ns for places in combinations(range(8), 4)) // US


def _interleaved(places: Sequence[int]) -> list[str]:
    first, second = iter(STEPS[:4]), iter(STEPS[4:])
    return [next(first) if place in places else next(second) for place in range(8)]


def grade_order(answer: Any) -> str:
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
    taken = two_chunks(names).end_ns // US
    require(
        taken == least_us(),
        f"that takes {taken} µs, and {least_us()} are possible. Which call stands at the front of the queue, "
        "waiting, while a copy engine is idle?",
    )
    return f"{taken} µs: nothing that could run stands behind something that waits."


def _names(answer: Any) -> list[str]:
    if isinstance(answer, str):
        return re.findall(r"\w+", answer.casefold())
    require(isinstance(answer, Iterable), 'the answer is a list of names, such as ["a0", "b0", ...].')
    names = list(answer)
    require(all(isinstance(name, str) for name in names), f"{names} are not all names of calls.")
    return [name.strip().casefold() for name in names]


def grade_non_blocking(answer: Any) -> str:
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


def grade_event(answer: Any) -> str:
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


EXERCISES = (
    Exercise("17.1", "Chunks that take least where calls and copies cost something", grade_chunks),
    Exercise("17.2", "µs of three chains of three kernels, depth-first on one queue", grade_one_queue),
    Exercise("17.3", "The calls of two chunks in an order that takes least on one queue", grade_order),
    Exercise("17.4", "The streams to be made non-blocking", grade_non_blocking),
    Exercise("17.5", "Calls that make consume wait for produce alone", grade_event),
)
