"""Accesses to shared memory that must not meet: each rule asks for a way between two with nothing in between.

Example: thread 0 draws a tile's number into a slot, a barrier follows, all read the slot, and the next turn
writes it again: without a second barrier a slow warp reads the next tile's number. The same question, with
other accesses at its ends, is a ring's slot that is filled before it was read, a staged tile that is written
while a bulk store reads it, an mbarrier that is used before its init is ordered.

Source: PTX ISA 9.0, sections 9.7.9.25 (bulk groups), 9.7.13.15 (mbarrier), 9.7.15 (wgmma).
"""

import re
from collections.abc import Callable, Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.flow import CodeLoop
from wavesim.lint.instruction import ACCESSES, STRONG, Instruction, Op, is_shuffle
from wavesim.lint.judging import (
    BLOCK,
    NONE,
    are_apart,
    between_threads,
    is_reached,
    judged,
    line,
    sync_needed,
)
from wavesim.lint.paths import walk
from wavesim.lint.rules.mbarriers import BIT, comes_round, varies

_SYNCS = frozenset({Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_TEST})
_BARRIERS = frozenset({Op.BARRIER, Op.CLUSTER_WAIT})
_USES = (Op.MBARRIER_TEST, Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT, Op.BULK_LOAD)
_GROUP_WAITS = frozenset({Op.BULK_WAIT, Op.BULK_WAIT_READ})
_MULTIPLIES = re.compile(r"\bwgmma\.mma_async|\bHGMMA\b|\btcgen05\.mma|\bUTC\w*MMA")
_WARP_GROUP = re.compile(r"\bwgmma\.mma_async\b")
_WARP_GROUP_FENCE = re.compile(r"\bwgmma\.fence\b")
_WARP_GROUP_WAIT = re.compile(r"\bwgmma\.wait_group\b")


def judge_shared_memory(code: Code) -> Iterator[Finding]:
    """The first breach of each rule."""
    for rule in (
        _early_use,
        _slot_race,
        _overwritten,
        _refilled,
        _filled_again,
        _freed_early,
        _warp_group,
    ):
        yield from _first(rule(code))


def _first(findings: Iterator[Finding]) -> Iterator[Finding]:
    finding = next(findings, None)
    if finding is not None:
        yield finding


def _shared_loads(code: Code) -> list[int]:
    return [i for i in code.having(Op.LOAD) if code[i].space == "shared" and code[i].order not in STRONG]


def _early_use(code: Code) -> Iterator[Finding]:
    """Uses of an mbarrier by other threads than the one that initialises it, with no barrier between."""
    inits = sorted(code.having(Op.MBARRIER_INIT))
    if not inits:
        return
    ordering = {i for i in code.having(*_BARRIERS) if any(i in code.reach(init) for init in inits)}

    def step(i: int, state: bool) -> bool | None:
        return None if i in ordering else state

    reached = {i for i, _ in walk(code.forward, [(0, True)], step)}
    for i in sorted(reached.intersection(code.having(*_USES))):
        if BLOCK in (sync_needed(code, inits[0], i), between_threads(code, inits[0], i)):
            why = f"{line(code[i])} uses an mbarrier, and no block barrier orders it behind the init in "
            yield judged(code, "mbarrier-init-unordered", i, why + line(code[inits[0]]), (inits[0],))


def _slot_race(code: Code) -> Iterator[Finding]:
    """A word of shared memory that one thread writes, and others read with no barrier before or behind."""
    loads = [] if any(True for _ in code.having(Op.MBARRIER_TEST)) else _shared_loads(code)
    for store in code.having(Op.STORE) if loads else ():
        is_slot = code[store].space == "shared" and code[store].order not in STRONG
        # A constant says no once and for all: who sees it late sees it all the same.
        if not is_slot or not code.flow.is_one_thread(store) or code.constant(store) is not None:
            continue
        for load in loads:
            if not code.flow.same_address(store, load) or sync_needed(code, store, load) < BLOCK:
                continue
            for first, second, verb in ((store, load, "reads"), (load, store, "writes")):
                is_by_turns = first == load and _is_ring(code, store, _around(code, store, load))
                if not is_by_turns and _meet_nowhere(code, first, second):
                    why = f"{line(code[second])} {verb} the word of {line(code[first])}, and no barrier "
                    why += "keeps the block's threads from being there at once"
                    yield judged(code, "shared-slot-race", second, why, (first,))


def _meet_nowhere(code: Code, first: int, second: int) -> bool:
    """Whether a way between the two has no barrier; a shuffle is one, of words that lanes have a share in."""
    address = code[first].address
    is_of_lanes = address is not None and code.reads_thread(code.sources(address.base, first))

    def meets(instruction: Instruction) -> bool:
        return instruction.op in _SYNCS or (is_of_lanes and is_shuffle(instruction))

    return code.flow.path_without(first, second, meets) is not None


def _overwritten(code: Code) -> Iterator[Finding]:
    """Writes of a staged tile behind the bulk store that reads it, with no wait for its group and barrier."""
    writes = [i for i in code.having(Op.STORE) if code[i].space == "shared" and code[i].order == "weak"]
    for store in code.having(Op.BULK_STORE, Op.BULK_REDUCE):
        staging = [i for i in writes if store in code.reach(i)]
        waits = {i for i in code.having(*_GROUP_WAITS) if between_threads(code, store, i) == NONE}
        waits |= code.thread_guards(waits)  # others pass the committer's wait by

        def step(
            i: int, state: tuple[bool, bool], waits: frozenset[int] = frozenset(waits)
        ) -> tuple[bool, bool]:
            is_read, is_shown = state
            if i in waits:
                return True, is_shown
            return is_read, is_shown or (is_read and code[i].op in _SYNCS)

        for i, (is_read, is_shown) in walk(code.onward, [(store, (False, False))], step):
            if i not in staging or (is_shown or (is_read and sync_needed(code, store, i) < BLOCK)):
                continue
            if not _is_ring(code, i, _around(code, store, i)):
                what = "and no barrier follows the wait" if is_read else "and nothing waits"
                why = f"{line(code[i])} writes what {line(code[store])} may still be reading, {what}"
                yield judged(code, "staging-overwritten", i, why, (store,))


def _around(code: Code, *places: int) -> CodeLoop | None:
    """The innermost loop that holds all of these; not one by which lanes of a warp take turns."""
    inside = (loop for loop in reversed(code.flow.loops) if loop.body.issuperset(places))
    return next((loop for loop in inside if not any(".ANY" in code[i].text for i in loop.exits)), None)


def _place(code: Code, i: int) -> set[tuple[str, int]]:
    """The register behind the address of shared memory: of a copy, its first one."""
    if code[i].op not in ACCESSES:
        return {(code[i].uses[0], i)} if code[i].uses else set()
    inside = re.findall(r"\[([^\]]*)\]", code[i].text)
    return (
        {(word, i) for word in re.findall(r"[%\w]+", inside[-1]) if word in code[i].uses} if inside else set()
    )


def _is_ring(code: Code, i: int, loop: CodeLoop | None) -> bool:
    """Whether it goes to another place each turn."""
    return loop is not None and varies(code, _place(code, i), loop)


def _slots(code: Code, fill: int, loop: CodeLoop) -> int:
    """Into how many places a loop's copies go by turns, where there are one or two; else 0."""
    place = _place(code, fill)
    if not varies(code, place, loop):
        return int(sum(i in loop.body for i in _fills(code)) == 1)  # more of them are an unrolled ring's
    made_by = {i for register, at in place for i in code.sources(register, at) if i in loop.body}
    return 2 if any(BIT.search(code[i].text) for i in made_by) else 0


def _fills(code: Code) -> list[int]:
    return [i for i in code.having(Op.BULK_LOAD, Op.ASYNC_COPY) if code[i].space != "shared::cluster"]


def _refilled(code: Code) -> Iterator[Finding]:
    """Copies into a slot behind a read of it, with nothing between that holds back who fills or who reads."""
    has_writes = any(code[i].space == "shared" for i in code.having(Op.STORE))
    for fill in _fills(code):
        for load in _shared_loads(code):
            loop = _around(code, fill, load)
            if loop is None or _slots(code, fill, loop) == 0:
                continue
            variables = _variables(code, fill), _variables(code, load)
            is_same = bool(variables[0] & variables[1]) or (not any(variables) and not has_writes)
            if not is_same or are_apart(code, fill, load) or _is_own(code, fill, load):
                continue
            if not is_reached(code, load, fill, _SYNCS):
                continue
            ways = [i for i in code.forward(load) if fill in code.reach(i)]
            if _slots(code, fill, loop) == 2 and ways:
                continue  # in one turn the two are of different slots
            why = f"{line(code[fill])} fills a slot that threads may still be reading in {line(code[load])}"
            yield judged(code, "ring-slot-reused", fill, f"{why}: no barrier stands between", (load,))


def _is_own(code: Code, fill: int, load: int) -> bool:
    """Whether each thread reads what it has copied itself."""
    register = next((register for register, _ in _place(code, fill)), "")
    value = code.flow.value_of_address(load)
    return value is not None and code.flow.value_of(register, fill).number == value.number


def _variables(code: Code, i: int) -> frozenset[str]:
    made_by = (s for register, at in _place(code, i) for s in code.sources(register, at))
    return frozenset(name for s in made_by for name in code[s].symbols if not name.startswith("param"))


def _filled_again(code: Code) -> Iterator[Finding]:
    """Bulk loads that a loop repeats into the same slots, and that nobody's reading holds back."""
    for fill in code.having(Op.BULK_LOAD):
        loop = _around(code, fill)
        if loop is None or code[fill].space == "shared::cluster":
            continue
        place = _place(code, fill)
        comes_back = not varies(code, place, loop) or any(
            comes_round(code, register, at, loop) for register, at in place
        )
        holds = {i for i in code.having(*_SYNCS, *_GROUP_WAITS) if i in loop.body}
        if place and comes_back and not holds:
            why = (
                f"{line(code[fill])} fills the same slots again and again, and waits for no barrier that says"
            )
            yield judged(code, "ring-slot-reused", fill, f"{why} that they have been read")


def _freed_early(code: Code) -> Iterator[Finding]:
    """Arrivals that free a slot between the wait for it and the first read of it."""

    def reads(i: int) -> bool:  # or writes what the arrival then announces
        is_access = code[i].op in (Op.LOAD, Op.STORE) and code[i].space == "shared"
        return is_access or code[i].op is Op.BULK_STORE or bool(_MULTIPLIES.search(code[i].text))

    def until(ends: Callable[[int], bool], start: int) -> list[int]:
        def step(i: int, state: bool) -> bool | None:
            return None if i != start and ends(i) else state

        return sorted(i for i, _ in walk(code.forward, [(start, True)], step) if i != start)

    filled = bool(_fills(code))
    for arrive in code.having(Op.MBARRIER_ARRIVE) if filled else ():
        before = [test for test in code.having(Op.MBARRIER_TEST) if arrive in code.reach(test)]
        unread = [
            test for test in before if arrive in until(lambda i: reads(i) or code[i].op in _BARRIERS, test)
        ]
        if not before or len(unread) < len(before):
            continue
        after = [
            i for i in until(lambda i: code[i].op in _SYNCS, arrive) if reads(i) and code[i].op is Op.LOAD
        ]
        if after:
            why = f"{line(code[arrive])} frees a slot that {line(code[after[0]])} reads only then"
            yield judged(code, "ring-slot-reused", arrive, why, (after[0],))


def _warp_group(code: Code) -> Iterator[Finding]:
    """Wgmma before its fence, and results that are used before its group is waited for."""
    products = [i for i, at in enumerate(code.instructions) if _WARP_GROUP.search(at.text)]
    for i in products:
        way = code.flow.path_without(-1, i, lambda at: bool(_WARP_GROUP_FENCE.search(at.text)))
        if way is not None:
            why = f"no wgmma.fence orders the registers of {line(code[i])} before it"
            yield judged(code, "wgmma-unordered", i, why)
        for user in _users(code, i, products):
            way = code.flow.path_without(i, user, lambda at: bool(_WARP_GROUP_WAIT.search(at.text)))
            if way is not None:
                why = f"{line(code[user])} uses results of {line(code[i])} with no wgmma.wait_group between"
                yield judged(code, "wgmma-unordered", user, why, (i,))


def _users(code: Code, product: int, products: Iterable[int]) -> list[int]:
    results = set(code[product].defines)
    passed = {Op.MOVE} if code.language == "ptx" else set()
    readers = [i for i, at in enumerate(code.instructions) if results & set(at.uses) and i not in products]
    return [i for i in readers if code[i].op not in passed and product in _made(code, i)]


def _made(code: Code, i: int) -> set[int]:
    return {place for used in code[i].uses for place in code.flow.definitions(used, i)}
