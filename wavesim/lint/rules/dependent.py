"""A kernel that may start before the one before it has ended touches that one's memory below its grid wait.

Example: all warps but the epilogue's run griddepcontrol.wait, and the epilogue reads through a pointer that
they read below it: it may read what the kernel before has not written yet. A wait holds for the thread that
runs it; others need one of their own, or a barrier that a waiter reaches behind its wait.

What is read or written below a wait, or behind such a barrier, is taken for the kernel before's. A pointer
that is only read above is taken for constant, such as weights, and the finding says so.

Source: PTX ISA 9.0, section 9.7.13.13 (griddepcontrol).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding, Verdict
from wavesim.lint.instruction import ACCESSES, Op
from wavesim.lint.judging import judged, line
from wavesim.lint.rules.waiting import LOADS
from wavesim.lint.sites import FlagWait

_STORES = (Op.STORE, Op.REDUCTION, Op.BULK_STORE, Op.BULK_REDUCE)
# No stale line can stay in the L2, which all SMs share; a tensor map is the launch's own.
_OF_L2 = re.compile(r"\.L2\b|\bPF2\b|\.tensormap\b|\bUTMACCTL\b")
_EQUALITY = re.compile(r"\.(eq|ne|EQ|NE)\b|^(@\S+ )?(and|or|xor|PLOP3|LOP3|R2P)\b")
_HELD = frozenset({Op.BARRIER, Op.CLUSTER_WAIT})
_ARRIVALS = frozenset({Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT, Op.ASYNC_ARRIVE, Op.BULK_LOAD})
_RULE = "load-above-grid-wait"
_SERIAL = "launched with programmatic stream serialization"


class Touched(NamedTuple):
    """Accesses to memory that the kernel before may touch, in the order of the listing."""

    loads: Sequence[int]
    stores: Sequence[int]

    def roots(self, code: Code) -> frozenset[str]:
        """The parameters that their addresses come from."""
        return frozenset(root for i in (*self.loads, *self.stores) for root in code.roots(i))

    def of(self, places: Iterable[int]) -> "Touched":
        """Those that are among some instructions."""
        chosen = frozenset(places)
        return Touched([i for i in self.loads if i in chosen], [i for i in self.stores if i in chosen])


def judge_grid_waits(code: Code, waits: Iterable[FlagWait]) -> Iterator[Finding]:
    """What is touched before a grid wait, or that nothing is; that a dependent kernel never waits."""
    waits = tuple(waits)
    touched = _touched(code, {poll for wait in waits for poll in (*wait.polls, *wait.ahead)})
    grid = frozenset(code.having(Op.GRID_WAIT))
    if grid:
        polls = frozenset(
            poll for wait in waits if wait.form != "ticket" for poll in (*wait.polls, *wait.ahead)
        )
        yield from _judged(code, grid, polls, touched)
    elif code.is_launched and not waits:
        yield from _never_waits(code, touched)


def _touched(code: Code, polls: set[int]) -> Touched:
    flags = frozenset(root for poll in polls for root in code.roots(poll))

    def is_data(i: int) -> bool:
        is_copy = code[i].op not in ACCESSES
        if i in polls or not (is_copy or code.is_global(i)) or flags & code.roots(i):
            return False
        return not (code.is_("flags", i) or code.is_("constant", i) or _OF_L2.search(code[i].text))

    loads = [i for i in sorted(code.having(*(LOADS - {Op.BULK_PREFETCH}))) if is_data(i)]
    if code.says_produced:
        loads = [i for i in loads if not code.roots(i) or code.is_("produced", i)]
    return Touched(loads, [i for i in sorted(code.having(*_STORES)) if is_data(i)])


def _judged(code: Code, grid: frozenset[int], polls: frozenset[int], touched: Touched) -> Iterator[Finding]:
    unguarded = _unguarded(code, grid | polls, _ANY if polls else _EQUALITY)
    early = touched.of(unguarded)
    below = touched.of(set(range(len(code.instructions))) - unguarded)
    findings: list[Finding] = []
    if not polls or code.says_produced:  # else flags guard what is loaded, and the grid wait the kernel's end
        findings = [*_early_load(code, grid, early, below), *_early_store(code, grid, early, below)]
    yield from findings
    if not findings:
        yield from _in_order(code, min(grid), early, touched if polls else below)


def _early_load(code: Code, grid: frozenset[int], early: Touched, below: Touched) -> Iterator[Finding]:
    shared = below.roots(code)
    for i in early.loads:
        own = code.roots(i)
        is_passing = grid.isdisjoint(code.reach(i))
        where = "where no wait comes first" if is_passing else f"above the wait in {line(code[min(grid)])}"
        if code.says_produced:
            why = f"{line(code[i])} loads produced data {where}"
        elif not below.loads:
            why = f"{line(code[i])} loads data {where}, and nothing is loaded below a wait"
        elif own & shared:
            other = min(j for j in (*below.loads, *below.stores) if own & code.roots(j))
            what = "loads" if other in below.loads else "stores"
            why = f"{line(code[i])} loads {where} from what {line(code[other])} {what} below it"
        elif is_passing and code.is_launched:
            why = f"{line(code[i])} loads data where no wait comes first, and the kernel is {_SERIAL}"
        else:
            continue
        yield judged(code, _RULE, i, why, (min(grid),))
        return


def _early_store(code: Code, grid: frozenset[int], early: Touched, below: Touched) -> Iterator[Finding]:
    shared = below.roots(code)
    wait = line(code[min(grid)])
    for i in sorted(early.stores, key=lambda i: not code.roots(i) & shared):
        why = f"{line(code[i])} stores where the wait in {wait} does not come first"
        if code.is_("produced", i) or (code.is_launched and code.roots(i) & shared):
            why += ", to what the kernel before may still read or write"
            yield judged(code, "store-above-grid-wait", i, why, (min(grid),))
        elif code.is_launched:
            why += "; whether the kernel before touches that memory does not stand in the code"
            yield judged(code, "store-above-grid-wait", i, why, (min(grid),), verdict="unknown")
        return


def _in_order(code: Code, wait: int, early: Touched, below: Touched) -> Iterator[Finding]:
    constant = sorted(frozenset(root for i in early.loads for root in code.roots(i)))
    if not below.loads and not below.stores:
        why = f"nothing is loaded or stored below {line(code[wait])}: it keeps the kernel from overlapping"
        yield judged(code, "idle-grid-wait", wait, why, verdict="warn")
        return
    if code.says_produced:
        why = f"no produced data is loaded above {line(code[wait])}"
    else:
        why = f"what is loaded below {line(code[wait])} is loaded nowhere without it"
    if constant and not code.says_produced:
        why += (
            f"; {', '.join(constant)} of line {code[early.loads[0]].listing_line} taken for constant: assumed"
        )
    yield judged(code, _RULE, wait, why, verdict="right")


def _unguarded(code: Code, waits: frozenset[int], switch: re.Pattern[str]) -> set[int]:
    """What is reached from the entry with no wait before it, by whichever threads.

    The path ends at a barrier at which a thread that has waited may already have arrived.
    """
    behind = frozenset[int]().union(*(code.reach(wait) for wait in waits))
    signals = any(i in behind for i in code.having(*_ARRIVALS))
    fills = frozenset(code.having(Op.BULK_LOAD))
    optional = {} if code.says_produced else switches(code, waits, switch)
    guards = code.thread_guards(waits)

    def is_handed_on(i: int) -> bool:
        if code[i].op is Op.MBARRIER_TEST:  # who fills slots waits for room, and finds it the first time
            return signals and fills.isdisjoint(code.reach(i))
        return code[i].op in _HELD and _is_met(code, i, behind)

    def following(here: int, is_parted: bool) -> Iterator[tuple[int, bool]]:
        if here in waits and (here not in guards or here in optional):
            return
        if is_parted and is_handed_on(here):
            return
        for way in code.forward(here):
            if here not in optional or optional[here] & code.reach(way):
                parts = here in guards and (here in waits or waits.isdisjoint(code.reach(way)))
                yield way, is_parted or parts

    # A barrier hands a wait on from some threads to others; where all pass the wait by, nobody has waited.
    reached = {(0, False)}
    work = [(0, False)]
    while work:
        fresh = set(following(*work.pop())) - reached
        reached |= fresh
        work += fresh
    return {i for i, _ in reached} - waits


def _is_met(code: Code, barrier: int, behind: frozenset[int]) -> bool:
    """Whether it, or an arrival at some barrier, is behind a wait."""
    others = (i for i in code.having(code[barrier].op, Op.BARRIER_ARRIVE, Op.CLUSTER_ARRIVE) if i in behind)
    number = code[barrier].count
    return any(code[i].op is not Op.BARRIER or code[i].count == number for i in others)


_ANY = re.compile("")


def switches(code: Code, waits: frozenset[int], test: re.Pattern[str] = _ANY) -> dict[int, frozenset[int]]:
    """The branches by which a parameter switches waits on or off, with these: where it can, it does."""
    waits_by_branch: dict[int, frozenset[int]] = {}
    for wait in waits:
        for guard in code.guards(wait):
            if _is_switch(code, guard, test):
                waits_by_branch[guard] = waits_by_branch.get(guard, frozenset()) | {wait}
    return waits_by_branch


def _is_switch(code: Code, branch: int, test: re.Pattern[str]) -> bool:
    if code[branch].op not in (Op.BRANCH, Op.GRID_WAIT):
        return False
    made_by = [code[i] for i in code.test_of(branch)]
    loads = [source for source in made_by if source.op in ACCESSES]
    is_parameter = bool(loads) or any(s.startswith("param ") for source in made_by for s in source.symbols)
    compares = [source for source in made_by if source.op is Op.COMPARE]
    return (
        is_parameter
        and all(load.space in ("param", "const") for load in loads)
        and all(test.search(compare.text) for compare in compares)
    )


def _never_waits(code: Code, touched: Touched) -> Iterator[Finding]:
    trigger = next(code.having(Op.GRID_TRIGGER), None)
    what = f"triggers in {line(code[trigger])} and " if trigger is not None else ""
    for places, verb in ((touched.loads, "loads"), (touched.stores, "stores")):
        for i in places[:1]:
            why = (
                f"the kernel is {_SERIAL}, {what}{verb} data in {line(code[i])}, and never waits for the grid"
            )
            verdict: Verdict = "wrong" if verb == "loads" or trigger is not None else "unknown"
            yield judged(code, "one-sided-dependent-launch", i, why, verdict=verdict)
            return
