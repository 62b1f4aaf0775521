"""Exercises of notebook 21: counting launches, a full pool, tail launches, nesting, and who should launch."""

from typing import Any

from wavesim.sim.streams.device_launches import load_launch_machine
from wavesim.sim.streams.uneven_work import LAUNCHERS, Launcher, UnevenWork
from wavesim.teaching.device_launches import US, family, run, uneven
from wavesim.teaching.exercises import Exercise, pair, require, whole, word

CALLS = 3_072
LIMIT_NS = 12_000
GATHERED: tuple[Launcher, ...] = ("thread", "warp", "block", "grid")


def grade_counts(answer: Any) -> str:
    """Launches of 16 blocks of 256 threads by who launches."""
    require(
        isinstance(answer, tuple | list) and len(answer) == len(GATHERED),
        "four numbers are asked for: launches per thread, per warp, per block and per grid.",
    )
    for launcher, count in zip(GATHERED, answer, strict=True):
        launches = len(UnevenWork(launcher).grid().launches)
        require(
            whole(count, 0, 10**6) == launches,
            f"{count} launches where one is called per {launcher}? The grid has 16 blocks of 256 threads, "
            "and a warp has 32.",
        )
    return "Each step gathers what 8 to 32 launchers would have called: same work, same threads, fewer grids."


def grade_pool(answer: Any) -> str:
    """What is pending and what is lost of 3,072 calls when nothing can begin."""
    pending, lost = pair(answer, "launches pending, launches lost")
    pool = load_launch_machine().pool
    require(
        whole(pending, 0, 10**6) == pool,
        f"{pending} pending? No child can begin, so the pool only fills. How many places has it?",
    )
    require(
        whole(lost, 0, 10**6) == CALLS - pool,
        f"{lost} lost? What finds no place in the pool is lost: nothing waits for one.",
    )
    return "cudaGetLastError, called by the thread that launched, is all that tells."


def grade_tail(answer: Any) -> str:
    """When the first tail launch begins, and when the parent is complete."""
    begins, complete = pair(answer, "when the first tail begins, when the parent is complete, in µs")
    found = run(family())
    require(
        whole(begins, 0, 10**6) != 10,
        "at 10 µs the parent's blocks have ended. Has everything that it launched ended too?",
    )
    require(
        begins == found.grid("first tail").start_ns // US,
        f"the first tail begins at {begins} µs? It waits for the parent's block and for every child on "
        "another stream.",
    )
    require(
        whole(complete, 0, 10**6) == found.end_ns // US,
        f"the parent is complete at {complete} µs? Tail launches run one after the other, and belong to it.",
    )
    return (
        "A grid is complete when all that it launched is; the stream that the host waits on sees only that."
    )


def grade_nesting(answer: Any) -> str:
    """The deepest level all of whose launches fit into the pool at once, where each grid launches two."""
    level = whole(answer, 0, 64)
    pool = load_launch_machine().pool
    require(2**level <= pool, f"level {level} has {2**level:,} launches: do they fit into {pool:,} places?")
    require(
        2 ** (level + 1) > pool,
        f"level {level} has {2**level:,} launches, and the pool has more places than the next level needs.",
    )
    return "Long before the limit of levels, breadth is what fills the pool."


def grade_choice(answer: Any) -> str:
    """Who launches, and from how many items on, so that nothing is lost and all takes 12 us at most."""
    who, items = pair(answer, "who launches, from how many items on")
    launcher = next(one for one in LAUNCHERS if one == word(who, LAUNCHERS))
    threshold = whole(items, 1, 4_096)
    found = uneven(launcher, threshold)
    taken = f"{launcher}, from {threshold:,} on: {found.end_ns / US:,.1f} µs"
    require(not found.lost, f"{taken}, and {found.lost:,} launches are lost.")
    require(
        found.end_ns <= LIMIT_NS,
        f"{taken}, where {LIMIT_NS // US} are possible. What takes longest: calls, starts one after the "
        "other, or a thread's own items?",
    )
    return f"{taken}. One launch costs little; threads with few items are through before it begins."


EXERCISES = (
    Exercise("21.1", "Launches per thread, warp, block and grid of 16 blocks of 256 threads", grade_counts),
    Exercise("21.2", "Launches pending and lost of 3,072 while nothing can begin", grade_pool),
    Exercise("21.3", "When a tail launch begins and when its parent is complete", grade_tail),
    Exercise("21.4", "The deepest level of launches by twos that fits into the pool at once", grade_nesting),
    Exercise("21.5", "Who launches, from how many items on, for 12 µs at most", grade_choice),
)
