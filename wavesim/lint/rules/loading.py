"""Produced data must be loaded below the wait for it, and not by the path that assumes it never changes.

Example: a compiler may move `ld.global.nc` of a `const __restrict__` pointer above griddepcontrol.wait: the
load then reads what the kernel before has not written yet.

Source: PTX ISA 9.0, section 9.7.9.8 (ld.global.nc), 9.7.13.13 (griddepcontrol).
"""

from collections.abc import Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import STRONG, Op
from wavesim.lint.judging import judged, line
from wavesim.lint.packets import carries_data
from wavesim.lint.paths import walk
from wavesim.lint.rules.dependent import switches
from wavesim.lint.rules.waiting import LOADS, is_data_load
from wavesim.lint.sites import FlagPost, FlagWait

_LOOKS_AHEAD = frozenset({Op.PREFETCH, Op.BULK_PREFETCH})


def judge_loads(code: Code, waits: Iterable[FlagWait], posts: Iterable[FlagPost]) -> Iterator[Finding]:
    """Loads of produced data above a kernel's waits, and by the non-coherent path below them."""
    flags = tuple(wait for wait in waits if wait.form != "ticket" and not carries_data(code, wait))
    polls = frozenset(poll for wait in flags for poll in (*wait.polls, *wait.ahead))
    grid = frozenset(code.having(Op.GRID_WAIT))
    if polls:
        yield from _above(code, polls, grid, posts)
    yield from _looked_at_once(code, flags)
    if polls or grid:
        yield from _non_coherent(code, polls | grid)


def _above(
    code: Code, waits: frozenset[int], grid: frozenset[int], posts: Iterable[FlagPost]
) -> Iterator[Finding]:
    early = [
        i for i in sorted(_before(code, waits | grid)) if not waits.isdisjoint(code.reach(i))
    ]  # the wait of a loop's next turn is for that turn's data
    early = [i for i in early if not _is_of_earlier_phase(code, i, waits, posts)]
    if not code.says_produced:
        early = [i for i in early if _must_be_produced(code, i, waits, posts)]
    for i in early[:1]:
        wait = min(w for w in waits if code.flow.can_follow(i, w))
        what = "prefetches" if code[i].op in _LOOKS_AHEAD else "loads"
        why = f"{line(code[i])} {what} produced data above the wait in {line(code[wait])}"
        yield judged(code, "load-above-wait", i, why, (wait,))


def _looked_at_once(code: Code, waits: Iterable[FlagWait]) -> Iterator[Finding]:
    waits = tuple(waits)
    polls = {poll for wait in waits for poll in wait.polls}
    spun = {poll for wait in waits if wait.form == "spin" for poll in wait.polls}
    for wait in waits:
        if wait.form != "look":
            continue
        if any(code.roots(poll) == code.roots(wait.at) and poll in code.reach(wait.at) for poll in spun):
            continue  # a look in front of the spin for the same flag
        others = polls - {wait.at}
        for branch in code.deciders(wait.at):
            stops = others | (_first_polls(code, spun) - {wait.at})
            ways = [_loads_from(code, way, stops) for way in code.forward(branch)] or [set()]
            if loads := set.intersection(*ways):
                why = (
                    f"{line(code[wait.at])} looks at the flag once, and {line(code[min(loads)])} loads data "
                    "whatever it saw"
                )
                yield judged(code, "no-wait", wait.at, why, (min(loads),))
                return


def _first_polls(code: Code, polls: Iterable[int]) -> set[int]:
    """Looks that the compiler or the source puts in front of a loop at the flags that it polls."""
    polls = tuple(polls)
    flags = {code.roots(poll) for poll in polls}
    strong = [i for i in code.having(Op.LOAD) if code[i].order in STRONG and code.is_global(i)]
    return {
        i for i in strong if code.roots(i) in flags or any(code.flow.same_address(i, poll) for poll in polls)
    }


def _loads_from(code: Code, start: int, stops: set[int]) -> set[int]:
    def step(i: int, state: bool) -> bool | None:
        return None if i in stops else state

    return {
        i
        for i, _ in walk(code.forward, [(start, True)], step)
        if code[i].op in LOADS and is_data_load(code, i)
    }


def _before(code: Code, waits: frozenset[int]) -> set[int]:
    guards = code.thread_guards(waits)
    optional = switches(code, waits)
    flags = {root for wait in waits for root in code.roots(wait)}

    def step(i: int, state: bool) -> bool | None:
        return None if i in waits else state

    def following(i: int) -> Iterable[int]:
        """Where threads part, those that wait are followed."""
        ways = chosen(i)
        return [way for way in ways if not waits.isdisjoint(code.reach(way))] if i in guards else ways

    def chosen(i: int) -> Iterable[int]:
        """Where a parameter says whether there is anything to wait for, there is."""
        return [way for way in code.forward(i) if i not in optional or optional[i] & code.reach(way)]

    def step_of_all(i: int, state: bool) -> bool | None:
        return None if i in waits or i in guards else state

    by_all = {i for i, _ in walk(chosen, [(0, True)], step_of_all)}
    by_waiters = {i for i, _ in walk(following, [(0, True)], step)}
    data = {i for i in code.having(*LOADS) if is_data_load(code, i)}
    said = {i for i in data & by_waiters if code.is_("produced", i)}
    return (
        (by_all & data)
        | said
        | {
            i
            for i in by_waiters
            if code[i].op is Op.LOAD
            and (code[i].order == "volatile" or (code[i].order == "relaxed" and code[i].scope == "sys"))
            and _is_own_data(code, i)
            and flags.isdisjoint(code.roots(i))
        }
    )


def _must_be_produced(code: Code, index: int, waits: frozenset[int], posts: Iterable[FlagPost]) -> bool:
    """Whether it loads what is awaited: all that is loaded below, or what the kernel itself writes."""
    after = {i for wait in waits for i in code.reach(wait)} - waits
    below = [i for i in code.having(*LOADS) if i in after and is_data_load(code, i)]
    own = code.roots(index)
    if code[index].order in STRONG and _is_own_data(code, index):
        return True
    if not below and code[index].order == "nc" and any(map(code.is_global, code.having(Op.STORE))):
        return not any(True for _ in posts)  # moved above the wait; who posts may wait for its turn to store
    if not below:  # a wait for a flag may be there for the stores, or its poll carry the data itself
        return False
    roots = [code.roots(i) for i in below]
    is_only_one = bool(own) and all(other == own for other in roots)
    written = {root for i in code.having(Op.STORE) if code.is_global(i) for root in code.roots(i)}
    return is_only_one or bool(own & written & frozenset.union(*roots))


def _is_own_data(code: Code, index: int) -> bool:
    own = {root for i in code.having(Op.STORE) if code[i].order == "weak" for root in code.roots(i)}
    return code.is_global(index) and not code.is_("flags", index) and bool(code.roots(index) & own)


def _is_of_earlier_phase(code: Code, index: int, waits: frozenset[int], posts: Iterable[FlagPost]) -> bool:
    """Whether the kernel posts between the load and the wait, as in a barrier of the grid."""
    after = {i for i, _ in walk(code.forward, [(index, True)], lambda _, state: state)}
    between = [(post.at, True) for post in posts if post.at in after]
    return bool(between) and any(i in waits for i, _ in walk(code.forward, between, lambda _, state: state))


def _non_coherent(code: Code, waits: frozenset[int]) -> Iterator[Finding]:
    below = [
        i
        for i in code.having(*LOADS)
        if i not in waits and is_data_load(code, i) and any(code.flow.can_follow(wait, i) for wait in waits)
    ]
    nc = [i for i in below if code[i].order == "nc"]
    coherent = frozenset(root for i in below if code[i].order != "nc" for root in code.roots(i))
    coherent |= {root for i in code.having(Op.STORE) if code.is_global(i) for root in code.roots(i)}
    if code.says_produced:  # a compiler that takes it for constant may have moved it above the wait
        below = [i for i in code.having(*LOADS) if is_data_load(code, i)]
        nc = [i for i in below if code[i].order == "nc"]
    is_all = len(nc) == len(below) and any(code[wait].op is not Op.GRID_WAIT for wait in waits)
    for i in nc:
        is_known = code.says_produced and code.is_("produced", i)
        if is_known or (not code.says_produced and (is_all or code.roots(i) & coherent)):
            why = f"{line(code[i])} loads what is awaited by the non-coherent path, which may be stale"
            yield judged(code, "non-coherent-load", i, why)
            return
