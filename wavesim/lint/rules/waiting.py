"""Every path from a wait's poll to a load of data must acquire, and hand it on to the thread that loads.

Example: thread 0 polls relaxed, fences, and the block's barrier follows: all loads below it are ordered.
After `if (threadIdx.x == 0) while (load_acquire(flag) == 0) ;` alone, the other threads' are not.

Source: PTX ISA 9.0, section 8.7 (acquire patterns) and 8.9.5 (causality order).
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import ACQUIRES, SCOPES, STRONG, Op, width
from wavesim.lint.judging import BLOCK, WARP, are_apart, is_handed_on, judged, line, need_of, sync_needed
from wavesim.lint.packets import carries_data
from wavesim.lint.paths import Reached, walk
from wavesim.lint.sites import FlagWait, comes_first
from wavesim.lint.votes import Voted, votes_of

LOADS = frozenset({Op.LOAD, Op.ASYNC_COPY, Op.BULK_LOAD, Op.BULK_PREFETCH, Op.PREFETCH})
_POSTING = frozenset({Op.STORE, Op.ATOMIC, Op.REDUCTION})
_BLOCK_SYNCS = frozenset({Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_TEST})
_MISPLACED = frozenset({Op.FENCE, Op.INVALIDATE})


Following = Callable[[int], tuple[int, ...]]


class Ordered(NamedTuple):
    """What the path from the poll has done: `acquired` is a scope's width."""

    acquired: int
    acquirer: int
    synced: int = 0  # since the poll
    shown: int = 0  # since the acquire
    is_proxied: bool = False
    is_decided: bool = True  # whether the path has branched on what the poll saw
    voted: Voted = Voted()


Read = tuple[int, Ordered]  # a load of data, and the order before it


def judge_waits(code: Code, waits: Iterable[FlagWait]) -> Iterator[Finding]:
    """What is wrong with each of a kernel's waits for flags, or that it is right."""
    waits = tuple(waits)
    for wait in waits:
        findings = list(_judged(code, wait, waits))
        yield from findings or [_right(code, wait)]


def _judged(code: Code, wait: FlagWait, waits: tuple[FlagWait, ...]) -> Iterator[Finding]:
    poll = code[wait.at]
    if poll.op is Op.LOAD and poll.order not in STRONG and not carries_data(code, wait):
        yield judged(
            code,
            "poll-hoisted",
            wait.at,
            f"line {poll.listing_line} polls by an ordinary load, made once perhaps, or answered by the L1",
        )
        return
    need = need_of(code, wait.at)
    if width(poll.scope) < need and not _is_default_scope(code, wait):
        yield _too_narrow(code, wait.at, poll.scope, need, (), f"{line(poll)} polls")
        return
    if carries_data(code, wait):
        return
    problems: dict[str, Finding] = {}
    for at, state in _reads(code, wait, waits, code.forward) or _reads_of_next_turn(code, wait, waits):
        if problem := _problem(code, wait, at, state, need):
            problems.setdefault(problem.rule, problem)
    if not problems and (early := _store_at_once(code, wait, waits)) is not None:
        problems["load-before-barrier"] = judged(
            code,
            "load-before-barrier",
            wait.at,
            f"{line(poll)} is run by some threads only, and no block barrier stands between it and the other "
            f"threads' store in {line(code[early])}, which is what it guards: nothing is loaded behind it",
            (early,),
        )
    if not problems and (unheld := _read_by_other_warps(code, wait)) is not None:
        why = f"no barrier that {line(code[unheld])} waits at is reached behind {line(poll)} by its warp"
        problems["load-before-barrier"] = judged(code, "load-before-barrier", wait.at, why, (unheld,))
    # Without an acquire the rest says nothing new.
    first = [p for p in problems.values() if p.rule in ("no-acquire", "fence-misplaced")]
    yield from first[:1] or problems.values()


def _reads(code: Code, wait: FlagWait, waits: tuple[FlagWait, ...], following: Following) -> list[Read]:
    looked_at = _between_looks(code, wait)
    reads = [
        (at, state)
        for at, state in _reached(code, wait, waits, following=following)
        if (state.is_decided or at in looked_at)
        and state.voted.barred != at
        and code[at].op in LOADS
        and at not in wait.polls
        and (is_data_load(code, at) or _is_guarded(code, wait, at))
    ]
    # What the source declares constant is not what is awaited, where anything else is loaded.
    return [read for read in reads if code[read[0]].order != "nc"] or reads


def _is_guarded(code: Code, wait: FlagWait, at: int) -> bool:
    """Whether a strong load reads data that a spin guards, and not its flag once more."""
    if wait.form != "spin" or not is_strong_data(code, at):
        return False
    own = code.roots(wait.at)
    is_flag = own == code.roots(at) and code.flow.same_address(wait.at, at) is not False
    return bool(own) and not is_flag


def _reads_of_next_turn(code: Code, wait: FlagWait, waits: tuple[FlagWait, ...]) -> list[Read]:
    """The same of a wait at a loop's end, which the next turn reads behind; not while it is still waited."""
    spun = wait.loop.body if wait.loop is not None else frozenset()
    return [read for read in _reads(code, wait, waits, code.onward) if read[0] not in spun]


def _between_looks(code: Code, wait: FlagWait) -> frozenset[int]:
    """The loads between two looks of one turn at one flag: a reader of a sequence lock keeps what it read
    there, and reads again where the number has changed.
    """
    loads = [i for i in wait.loop.body if code[i].op in LOADS] if wait.loop is not None else []
    return frozenset(
        i
        for first, second in itertools.permutations(wait.polls, 2)
        if code.roots(first) == code.roots(second) and second in code.reach(first)
        for i in loads
        if i in code.reach(first) and second in code.reach(i)
    )


def _store_at_once(code: Code, wait: FlagWait, waits: tuple[FlagWait, ...]) -> int | None:
    """A store that no barrier holds back behind a wait that guards stores alone: no data is loaded behind it.

    What is loaded behind the next barrier and the next post is of a later round, which has waits of its own.
    """
    if wait.form != "spin" or not code.threads(wait.at):
        return None
    posting = {i for i in code.having(*_POSTING) if code.is_global(i) and code[i].order in STRONG}
    stops = code.thread_guards(posting) | posting
    early: set[int] = set()
    for at, state in _reached(code, wait, waits, stops - code.thread_guards([wait.at])):
        if code[at].op in LOADS and at not in wait.polls and is_data_load(code, at):
            return None
        is_weak = code[at].op is Op.STORE and code[at].order not in STRONG and code.is_global(at)
        is_held_back = state.synced >= sync_needed(code, wait.at, at) or _is_made_of(code, at, wait)
        if is_weak and state.is_decided and not is_held_back:
            early.add(at)
    return min(early, default=None)


def _read_by_other_warps(code: Code, wait: FlagWait) -> int | None:
    """A load of data by warps that the one that waits does not hold back."""
    loads = (i for i in code.having(*LOADS) if is_data_load(code, i) and are_apart(code, wait.at, i))
    return next((i for i in loads if is_handed_on(code, wait.at, i) is False), None)


def _is_made_of(code: Code, store: int, wait: FlagWait) -> bool:
    """Whether what is stored is made of what was polled: a word that has the flag and the data."""
    return any(poll in code.sources(used, store) for used in code.stored(store) for poll in wait.polls)


def _is_default_scope(code: Code, wait: FlagWait) -> bool:
    return code[wait.at].scope == "" and need_of(code, wait.at) <= width("gpu")


def _reached(
    code: Code,
    wait: FlagWait,
    waits: tuple[FlagWait, ...],
    stops: AbstractSet[int] = frozenset(),
    following: Following | None = None,
) -> Reached[Ordered]:
    own = code.roots(wait.at)
    others = {
        poll
        for other in waits
        if other != wait and other.form != "look"
        for poll in other.polls
        if code.roots(poll) == own
    }
    # Where one poll acquires, the loop's others (an abort flag) need not.
    polls = [poll for poll in wait.polls if code[poll].order in ACQUIRES] or wait.polls
    deciders = {branch for poll in polls for branch in code.deciders(poll)}
    # A ticket is handed on through shared memory.
    is_decided = wait.form == "ticket"
    votes = votes_of(code)
    starts = [(poll, Ordered(_acquired_by(code, wait, poll), poll, is_decided=is_decided)) for poll in polls]

    def step(i: int, state: Ordered) -> Ordered | None:
        if i in others or i in stops or i == state.voted.barred or code[i].op is Op.GRID_WAIT:
            return None
        if state.is_decided and wait.form != "ticket" and i in wait.polls:
            return None  # the next turn's look is a wait of its own
        after, voted = _after(code, wait, i, state), state.voted.after(votes, i)
        if voted is not after.voted:
            after = after._replace(voted=voted)
        return after._replace(is_decided=True) if i in deciders else after

    return walk(following or code.forward, starts, step)


def _after(code: Code, wait: FlagWait, i: int, state: Ordered) -> Ordered:
    op = code[i].op
    if op in _BLOCK_SYNCS:
        return state._replace(synced=BLOCK, shown=BLOCK)
    if op is Op.WARP_SYNC or i in code.shuffles:
        return state._replace(synced=max(state.synced, WARP), shown=max(state.shown, WARP))
    if op is Op.PROXY_FENCE and code[i].space in ("", "global", "generic"):
        return state._replace(is_proxied=state.acquired > 0)
    acquired = _acquired_by(code, wait, i)
    return state._replace(acquired=acquired, acquirer=i, shown=0) if acquired > state.acquired else state


def _acquired_by(code: Code, wait: FlagWait, i: int) -> int:
    """The width of the scope in which an instruction acquires what the poll saw; 0 for none."""
    instruction = code[i]
    if instruction.op is Op.INVALIDATE:
        # A fence's, or that of an acquiring load: machine code's MEMBAR alone orders, and drops no lines.
        before = [earlier.scope for earlier in code.instructions[max(0, i - 6) : i] if earlier.op is Op.FENCE]
        return max(map(width, before or [code[wait.at].scope or "gpu"]))
    if instruction.order not in ACQUIRES or (code.language == "sass" and _is_half_a_fence(code, i)):
        return 0
    is_poll = instruction.op in (Op.LOAD, Op.ATOMIC) and any(
        code.roots(i) == code.roots(poll) for poll in wait.polls
    )
    return width(instruction.scope or "gpu") if instruction.op is Op.FENCE or is_poll else 0


def _is_half_a_fence(code: Code, i: int) -> bool:
    """Whether it is a MEMBAR that CCTL.IVALL completes, or that belongs to a proxy fence."""
    following = code.instructions[i + 1 : i + 5]
    is_of_proxy = ".ALL" in code[i].text and any(later.op is Op.PROXY_FENCE for later in following)
    return code[i].op is Op.FENCE and (is_of_proxy or width(code[i].scope) >= width("gpu"))


def is_data_load(code: Code, index: int) -> bool:
    """Whether it may read what another block or kernel writes: no flag, no constant of the user's."""
    instruction = code[index]
    if instruction.op in (Op.BULK_LOAD, Op.BULK_PREFETCH, Op.ASYNC_COPY, Op.PREFETCH):
        pass
    elif not code.is_global(index) or instruction.order in STRONG:
        return code.is_global(index) and code.is_("produced", index) and not code.is_("flags", index)
    if code.is_("flags", index) or code.is_("constant", index) or index in code.indices:
        return False
    return not code.says_produced or not code.roots(index) or code.is_("produced", index)


def is_strong_data(code: Code, index: int) -> bool:
    """Whether a volatile or relaxed load reads what is computed with or stored, and decides nothing."""
    if code[index].op is not Op.LOAD or code[index].order not in STRONG or not code.is_global(index):
        return False
    return not code.deciders(index) and index not in code.indices and index in code.kept


def _problem(code: Code, wait: FlagWait, at: int, state: Ordered, need: int) -> Finding | None:
    poll, load = code[wait.at], code[at]
    if state.acquired == 0:
        is_misplaced = _has_misplaced_fence(code, wait)
        return judged(
            code,
            "fence-misplaced" if is_misplaced else "no-acquire",
            wait.at,
            f"{line(poll)} sees the flag without acquire"
            f"{', the fence comes before it' if is_misplaced else ''}, and nothing between it and the load "
            f"in {line(load)} acquires",
            (at,),
        )
    if state.acquired < need:
        return _too_narrow(code, wait.at, SCOPES[state.acquired], need, (at,), f"{line(poll)} acquires")
    is_held_back = state.synced >= sync_needed(code, wait.at, at)
    if not is_held_back or state.shown < sync_needed(code, state.acquirer, at):
        poll = code[state.acquirer] if is_held_back else poll
        return judged(
            code,
            "load-before-barrier",
            wait.at,
            f"{line(poll)} is run by some threads only, and no block barrier stands between it and the other "
            f"threads' load in {line(load)}",
            (at,),
        )
    if load.op is Op.BULK_LOAD and not state.is_proxied:
        return judged(
            code,
            "no-proxy-fence",
            wait.at,
            f"{line(poll)} acquires for ordinary loads, and TMA loads in {line(load)} with no "
            "fence.proxy.async between",
            (at,),
        )
    return None


def _has_misplaced_fence(code: Code, wait: FlagWait) -> bool:
    """Whether a fence comes right before the poll, and is not that of an arrival counted before it."""
    fences = [] if wait.form == "ticket" else comes_first(code, wait.at, _MISPLACED)
    atomics = [i for fence in fences for i in comes_first(code, fence, frozenset({Op.ATOMIC}))]
    return bool(fences) and not any(code.is_used(i) for i in atomics)


def _too_narrow(code: Code, at: int, scope: str, need: int, others: tuple[int, ...], what: str) -> Finding:
    rule = "no-system-scope" if need > width("gpu") else "narrow-scope"
    return judged(
        code, rule, at, f"{what} with {scope or 'no'} scope, and {SCOPES[need]} scope is needed", others
    )


def _right(code: Code, wait: FlagWait) -> Finding:
    return judged(
        code,
        "no-acquire",
        wait.at,
        f"every path from {line(code[wait.at])} to a load of data acquires, and a barrier hands that on "
        "where other threads load",
        verdict="right",
    )
