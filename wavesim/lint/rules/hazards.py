"""Shared memory that one warp writes and another reads or writes, with no barrier of the block between.

Example: `s[tid] = x; y = s[255 - tid]`: thread 0 writes the word that thread 255 reads, and nothing makes one
wait for the other. Addresses are worked out for each thread of a block, so that accesses to a thread's or a
warp's own words, to another buffer or to the same buffer of another turn are no hazard.

Source: CUDA C++ Programming Guide 13.0, sections 5.4 (memory hierarchy), 10.6 (synchronization functions).
"""

import functools
import itertools
from collections.abc import Iterator, Sequence

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.flow import CodeLoop
from wavesim.lint.instruction import ACCESSES, STRONG, Op
from wavesim.lint.judging import are_apart, counted_threads, is_handed_on, judged, line
from wavesim.lint.rules.clusters import remote_accesses
from wavesim.lint.thread_values import Sum, Thread, ThreadValues, conflict, threads_of

MOST_ACCESSES = 120  # of shared memory in a kernel; one that is unrolled further is not searched
_OF_BLOCK = (Op.BARRIER, Op.BARRIER_ARRIVE, Op.CLUSTER_WAIT, Op.MBARRIER_TEST, Op.CALL)
_OF_CLUSTER = (Op.CLUSTER_ARRIVE, Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT, Op.MBARRIER_TEST, Op.CALL)

_OTHERS = frozenset(Op) - {
    *ACCESSES,
    Op.BARRIER,
    Op.BARRIER_ARRIVE,
    Op.WARP_SYNC,
    Op.BRANCH,
    Op.RETURN,
    Op.EXIT,
}
_OTHERS -= {Op.ADD, Op.COMPARE, Op.MOVE, Op.OTHER, Op.PREFETCH, Op.FENCE}


def judge_hazards(code: Code) -> Iterator[Finding]:
    """The first two accesses that meet: of a block's warps, or of a block and its neighbour's memory."""
    remote = remote_accesses(code)
    own = [i for i in code.having(Op.LOAD, Op.STORE) if code[i].space == "shared"]
    atomics = [i for i in code.having(Op.ATOMIC) if code[i].space == "shared"]
    accesses = {*own, *remote, *atomics}
    if len(accesses) > MOST_ACCESSES or any(_is_flag(code, i) for i in accesses):
        return
    search = _Search(code, sorted({*own, *remote}))
    for others, meets in ((own, _OF_BLOCK), (remote, _OF_CLUSTER)):
        both = itertools.chain(itertools.product(own, others), itertools.product(others, own))
        is_block = meets is _OF_BLOCK
        for first, second in sorted(set(both)) if not (is_block and code.is_one_warp) else ():
            is_write = Op.STORE in (code[first].op, code[second].op)
            way = _way(code, first, second, meets) if is_write else None
            if way and (threads := search.meeting(first, second, way[0], is_block)):
                yield _met(code, first, second, threads, is_block)
                return


def judge_alone(code: Code) -> list[Finding]:
    """That a kernel with nothing else to judge needs no more barriers than it has, where that can be told."""
    own = [i for i in code.having(Op.LOAD, Op.STORE) if code[i].space == "shared"]
    used = [*own, *code.having(Op.ATOMIC, Op.REDUCTION), *sorted(code.shuffles)]
    if not used or any(True for _ in code.having(*_OTHERS)) or any(_is_flag(code, i) for i in own):
        return []
    barriers = list(code.having(Op.BARRIER, Op.BARRIER_ARRIVE))
    if any(counted_threads(code, i) != 0 for i in barriers) or code.thread_guards(barriers):
        return []
    written = [i for i in code.having(Op.STORE, Op.ATOMIC, Op.REDUCTION) if code.is_global(i)]
    loads = [i for i in code.having(Op.LOAD) if code.is_global(i)]
    roots = [{root for i in places for root in code.roots(i)} for places in (written, loads)]
    if roots[0] & roots[1] or any(code[i].order in STRONG for i in loads) or len(own) > MOST_ACCESSES:
        return []
    search = _Search(code, own)
    pairs = ((a, b) for a, b in itertools.product(own, own) if Op.STORE in (code[a].op, code[b].op))
    if not code.is_one_warp and not all(_is_apart(code, a, b, search) for a, b in pairs):
        return []
    why = "no thread reads what another one writes but behind a barrier: nothing is missing, provided that "
    why += "no other kernel writes meanwhile what it loads"
    return [judged(code, "shared-slot-race", used[0], why, verdict="right")]


def _is_apart(code: Code, first: int, second: int, search: "_Search") -> bool:
    """Whether a barrier stands between two accesses, or they are known to meet nowhere."""
    if are_apart(code, first, second) and first not in code.reach(second):
        return bool(is_handed_on(code, first, second) or is_handed_on(code, second, first))
    way = _way(code, first, second, _OF_BLOCK)
    return way is None or search.can_compare(first, second, way[0])


def _met(code: Code, first: int, second: int, threads: tuple[Thread, Thread], is_block: bool) -> Finding:
    verbs = ["reads" if code[i].op is Op.LOAD else "writes" for i in (first, second)]
    whose = "the same word of shared memory" if is_block else "that word of a neighbour's shared memory"
    why = f"thread {threads[0].number} {verbs[0]} in {line(code[first])} what thread {threads[1].number} "
    why += f"{verbs[1]} in {line(code[second])}, {whose}, and no barrier stands between"
    return judged(code, "shared-slot-race" if is_block else "cluster-unordered", second, why, (first,))


def _is_flag(code: Code, i: int) -> bool:
    """Whether threads may tell each other something by it: it is strong, or looked at until a loop ends."""
    loop = code.flow.loop_of(i)
    is_polled = code[i].op is Op.LOAD and loop and not set(loop.exits).isdisjoint(code.deciders(i))
    is_spin = is_polled and loop and not any(code[at].op is Op.BARRIER for at in loop.body)
    return code[i].order in STRONG or bool(is_spin)


def _way(code: Code, first: int, second: int, ops: Sequence[Op]) -> tuple[CodeLoop | None] | None:
    """Of a way from one to the other on which no barrier can be: the loop whose next turn it needs, or None.

    A way around a barrier in a loop or a branch does not count: who wrote it may know that nobody takes it.
    """
    meets = list(code.having(*ops))
    if first != second and second in code.reach(first):
        is_met = any(i in code.reach(first) and second in code.reach(i) for i in meets)
        return None if is_met else (None,)
    loop = next((loop for loop in reversed(code.flow.loops) if {first, second} <= set(loop.body)), None)
    if loop is None or first == second:
        return None
    inside = [i for i in meets if i in loop.body]
    return None if any(i in code.reach(first) or second in code.reach(i) for i in inside) else (loop,)


class _Search:
    """Where each thread's accesses go, for the pairs that are asked for and for each size of a block."""

    def __init__(self, code: Code, own: list[int]) -> None:
        self._code, self._own = code, own
        self._values = ThreadValues(code)
        smallest = 64 if any(True for _ in code.having(*_OF_BLOCK)) else 32
        sizes = [size for size in (32, 64, 128, 256) if size >= smallest]
        self._sizes = [code.kernel.threads] if code.kernel.threads else sizes

    def meeting(
        self, first: int, second: int, loop: CodeLoop | None, is_block: bool
    ) -> tuple[Thread, Thread] | None:
        """Two threads that meet, in a block of different warps; the second may be in `loop`'s next turn.

        They do in a block of any size that the accesses agree with.
        """
        widths = self._code[first].bytes, self._code[second].bytes
        met: dict[int, tuple[Thread, Thread] | None] = {}
        for size in self._sizes:
            places = self._kept(first, loop, size), self._kept(second, loop, size)
            met[size] = conflict(places[0], widths[0], places[1], widths[1], is_block)
        sizes = [size for size in self._sizes if self._agrees(size)] if any(met.values()) else []
        pairs = [met[size] for size in sizes or self._sizes]
        return pairs[-1] if all(pairs) else None

    def can_compare(self, first: int, second: int, loop: CodeLoop | None) -> bool:
        """Whether all that is unknown of the two places is the same for both, in all threads."""
        kept = [*self._kept(first, loop, self._sizes[-1]), *self._kept(second, loop, self._sizes[-1])]
        return bool(kept) and len({place.unknown for _, place in kept}) == 1

    def _kept(self, at: int, loop: CodeLoop | None, size: int) -> list[tuple[Thread, Sum]]:
        body = loop.body if loop else frozenset()
        return [
            (thread, place)
            for thread, place in self._places(at, size)
            if all(body.isdisjoint(unknown.made_at) for unknown, _ in place.unknown)
        ]

    @functools.cache  # noqa: B019 -- a search lives as long as one check
    def _places(self, at: int, size: int) -> list[tuple[Thread, Sum]]:
        threads = threads_of(self._code, size)
        placed = ((t, self._values.address(at, t)) for t in threads if self._values.runs(at, t))
        return [(thread, place) for thread, place in placed if place is not None]

    @functools.cache  # noqa: B019
    def _agrees(self, size: int) -> bool:
        """Whether a block of that size reads nothing that it has not written, where both can be compared."""
        by_op = {
            op: {place for i in self._own if self._code[i].op is op for _, place in self._places(i, size)}
            for op in (Op.LOAD, Op.STORE)
        }
        known = {place.unknown for place in by_op[Op.STORE]}
        return all(place in by_op[Op.STORE] for place in by_op[Op.LOAD] if place.unknown in known)
