"""Shared memory that cp.async or TMA fills is read once it is filled; TMA stores what threads have fenced.

Example: after `cp.async.commit_group` and `cp.async.wait_group 1` the group just committed may be under way.
Before a bulk store all threads write the tile, each runs fence.proxy.async.shared::cta, the barrier follows,
and one thread issues the store. A fence behind the barrier orders the writes of that thread alone.

Source: PTX ISA 9.0, sections 8.6 (proxies), 9.7.9.25 (cp.async, cp.async.bulk, the async proxy).
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.flow import CodeLoop
from wavesim.lint.instruction import Instruction, Op
from wavesim.lint.judging import BLOCK, NONE, are_apart, is_handed_on, judged, line, sync_needed
from wavesim.lint.paths import walk

_MOST_GROUPS = 9  # more than any pipeline has
_ALLOCATES = re.compile(r"tcgen05\.alloc|UTCATOMSWS|st\.async|ST\.ASYNC")
# What may still fill shared memory behind a wait, or wait for what fills it.
_DRAINING = frozenset({Op.ASYNC_COPY, Op.ASYNC_ARRIVE, Op.ASYNC_WAIT, Op.CALL})
_WARP_GROUP = re.compile(r"\bwgmma\.mma_async\b|\b[HIQB]GMMA\b")
_SYNCS = frozenset({Op.BARRIER, Op.CLUSTER_WAIT, Op.WARP_SYNC, Op.MBARRIER_TEST})


class Copied(NamedTuple):
    """How far a copy is: groups committed since it was issued, whether it is done, and shown to others."""

    groups: int = 0
    is_done: bool = False
    is_shown: bool = False


def judge_copies(code: Code) -> Iterator[Finding]:
    """Reads of shared memory that no copy before them is done for, or shown to other threads."""
    copies = list(code.having(Op.ASYNC_COPY))
    if not copies:
        return
    is_counted_by_mbarrier = any(True for _ in code.having(Op.ASYNC_ARRIVE))

    def step(i: int, state: Copied) -> Copied:
        op = code[i].op
        if op is Op.ASYNC_COMMIT:
            return state._replace(groups=min(state.groups + 1, _MOST_GROUPS))
        if op is Op.ASYNC_WAIT and state.groups > _left_by(code, i):
            return state._replace(is_done=True)
        if op is Op.MBARRIER_TEST and is_counted_by_mbarrier:
            return Copied(state.groups, True, True)
        return state._replace(is_shown=True) if op in _SYNCS and state.is_done else state

    at: dict[int, list[Copied]] = {}
    filling = [loop for loop in code.flow.loops if _is_filling(code, loop)]

    def following(i: int) -> list[int]:
        again = [loop.header for loop in filling if i in loop.body and loop.header in code.onward(i)]
        return [*code.forward(i), *again]

    for i, state in walk(following, [(i, Copied()) for i in copies], step):
        if code[i].op is Op.LOAD and code[i].space == "shared":
            at.setdefault(i, []).append(state)
    yield from _undrained(code, copies[-1]) or _judged(code, copies[0], at)


def _left_by(code: Code, wait: int) -> int:
    """The groups that may be pending after a wait; -1 of one for all copies, committed or not."""
    return (code[wait].count or 0) - (code[wait].count is None)


def _undrained(code: Code, copy: int) -> list[Finding]:
    """A read behind a last wait that waits for nothing: on every path to it the one before left as much
    pending, and no copy, arrival or further wait follows.
    """
    pending = _pending_groups(code)
    for wait in code.having(Op.ASYNC_WAIT):
        counts = pending.get(wait, set())
        if not any(counts) or not max(counts) <= _left_by(code, wait) < _MOST_GROUPS:
            continue
        after = [i for i in range(len(code.instructions)) if i != wait and code.flow.can_follow(wait, i)]
        reads = [i for i in after if code[i].op is Op.LOAD and code[i].space == "shared"]
        if not reads or code.flow.can_follow(wait, wait) or any(code[i].op in _DRAINING for i in after):
            continue
        why = (
            f"{line(code[reads[0]])} reads shared memory behind {line(code[wait])}, which leaves pending all "
            "that the wait before it left: nothing waits for the last copies"
        )
        return [judged(code, "async-copy-pending", reads[0], why, (copy, wait))]
    return []


def _pending_groups(code: Code) -> dict[int, set[int]]:
    """Of each wait, the numbers of groups that may be pending when it is reached, where none can be empty."""
    pending: dict[int, set[int]] = {}
    empty: set[int] = set()

    def step(i: int, state: tuple[int, bool]) -> tuple[int, bool]:
        groups, is_filled = state
        match code[i].op:
            case Op.ASYNC_COPY if not code[i].guard:
                return groups, True
            case Op.ASYNC_COMMIT:
                empty.update(() if is_filled else (i,))
                return min(groups + 1, _MOST_GROUPS), False
            case Op.ASYNC_WAIT:
                pending.setdefault(i, set()).add(groups)
                return min(groups, max(_left_by(code, i), 0)), is_filled
        return state

    walk(code.onward, [(0, (0, False))], step)
    return {} if empty else pending


def _is_filling(code: Code, loop: CodeLoop) -> bool:
    """Whether a loop starts copies and waits for none, as the one in front of a pipeline: it commits a group
    each turn.
    """
    ops = {code[i].op for i in loop.body}
    return Op.ASYNC_COMMIT in ops and Op.ASYNC_WAIT not in ops


def _shared_writers(code: Code) -> Iterator[int]:
    """What else may write shared memory: stores, atomics, copies, tensor memory's allocation, calls."""
    for i in code.having(Op.STORE, Op.ATOMIC, Op.REDUCTION):
        if code[i].space in ("shared", "shared::cluster") or not code.is_global(i):
            yield i
    yield from code.having(Op.ASYNC_COPY, Op.CALL)
    yield from (i for i, instruction in enumerate(code.instructions) if _ALLOCATES.search(instruction.text))


def _judged(code: Code, copy: int, at: Mapping[int, list[Copied]]) -> Iterator[Finding]:
    for i in sorted(at):
        if not any(state.is_done for state in at[i]):
            why = f"{line(code[i])} reads shared memory before any copy of {line(code[copy])} need be done"
            yield judged(code, "async-copy-pending", i, why, (copy,))
            return
        if not any(state.is_shown for state in at[i]):
            why = f"{line(code[i])} reads shared memory with no barrier after the wait for the copies to it"
            yield judged(code, "async-copy-pending", i, why, (copy,))
            return
    if at:
        why = f"reads of shared memory come after a wait for {line(code[copy])} and a barrier"
        yield judged(code, "async-copy-pending", min(at), why, verdict="right")


def judge_bulk_loads(code: Code) -> Iterator[Finding]:
    """Reads of shared memory that TMA may still be filling: no wait for an mbarrier stands between."""
    loads = list(code.having(Op.BULK_LOAD))

    def step(i: int, state: bool) -> bool | None:
        return None if code[i].op in (Op.MBARRIER_TEST, Op.BULK_WAIT, Op.BULK_WAIT_READ) else state

    early = [
        i
        for i, _ in walk(code.forward, [(load, True) for load in loads], step)
        if code[i].op is Op.LOAD and code[i].space == "shared"
    ]
    tests = list(code.having(Op.MBARRIER_TEST))
    if loads and tests and (at := _never_awaited(code, tests)) is not None:
        why = (
            f"{line(code[at])} reads shared memory in blocks that expect the bytes of {line(code[loads[0]])} "
            "and wait for no mbarrier"
        )
        yield judged(code, "mbarrier-not-awaited", at, why, (loads[0],))
        return
    if not early and tests and loads and not any(True for _ in _shared_writers(code)):
        # Another role's warps read what TMA alone has written.
        early = [i for i in code.having(Op.LOAD) if code[i].space == "shared"]
        early = [i for i in early if not any(code.flow.can_follow(test, i) for test in tests)]
    awaited = any(code.flow.can_follow(test, i) for test in tests for i in early)
    if early and not awaited:
        why = f"{line(code[min(early)])} reads shared memory that {line(code[loads[0]])} may still be filling"
        yield judged(code, "mbarrier-not-awaited", min(early), why, (loads[0],))


def _never_awaited(code: Code, tests: list[int]) -> int | None:
    """A load of shared memory by blocks that expect bytes and wait for no mbarrier, whatever others do."""
    expects = set(code.having(Op.MBARRIER_EXPECT))
    roles = {code.premises(i): i for i in code.having(Op.LOAD) if code[i].space == "shared"}
    for premises, at in roles.items():
        role = code.role(at) if premises and expects else frozenset()
        if expects & role and role.isdisjoint(tests):
            return at
    return None


class Staged(NamedTuple):
    """What stands between here and the bulk store: `fence` is the one before a barrier that most run."""

    synced: int = NONE
    is_fenced: bool = False  # at this side of the barrier
    fence: int = -1


def judge_bulk_stores(code: Code) -> Iterator[Finding]:
    """What the asynchronous proxy reads of shared memory that threads wrote and did not fence."""
    writes = [i for i in code.having(Op.STORE) if code[i].space == "shared"]
    readers = sorted(_from_shared(code)) if writes else []
    for reader in readers:
        if (write := _unfenced(code, reader, writes)) is not None:
            why = (
                f"{line(code[write])} writes shared memory, and no fence.proxy.async of the writer stands "
                f"between it and TMA or wgmma, which reads it in {line(code[reader])}"
            )
            yield judged(code, "no-proxy-fence", reader, why, (write,))
            return
    if readers and any(True for _ in code.having(Op.PROXY_FENCE)):
        why = f"what threads write for {line(code[readers[0]])} is fenced for the asynchronous proxy"
        yield judged(code, "no-proxy-fence", readers[0], why, verdict="right")


def _unfenced(code: Code, reader: int, writes: list[int]) -> int | None:
    def step(i: int, state: Staged) -> Staged | None:
        if code[i].op in _SYNCS:
            return state._replace(synced=BLOCK, is_fenced=False)
        if not _is_proxy_fence(code[i]):
            return state
        is_wider = state.fence < 0 or len(code.thread_guards([i])) < len(code.thread_guards([state.fence]))
        is_kept = state.synced == BLOCK and is_wider
        return state._replace(is_fenced=True, fence=i if is_kept else state.fence)

    for i, state in walk(code.backward, [(reader, Staged())], step):
        # A fence orders all that the threads that run it have written before, barriers between or not.
        is_earlier = state.fence >= 0 and code.thread_guards([state.fence]) <= code.thread_guards([i])
        is_fenced = state.is_fenced or is_earlier
        if i in writes and not is_fenced and _is_staged(code, i, reader, state):
            return i
    # Writers that hand the tile to a warp of another role fence before they arrive.
    others = [i for i in writes if are_apart(code, i, reader) and is_handed_on(code, i, reader)]
    return min(others) if others and not any(_is_proxy_fence(at) for at in code.instructions) else None


def _is_proxy_fence(instruction: Instruction) -> bool:
    return instruction.op is Op.PROXY_FENCE and instruction.space != "global"


def _from_shared(code: Code) -> Iterator[int]:
    """Bulk copies of shared memory to global memory or to another block's; wgmma, where threads' stores alone
    fill it.
    """
    yield from code.having(Op.BULK_STORE, Op.BULK_REDUCE)
    loads = list(code.having(Op.BULK_LOAD))
    yield from (i for i in loads if code[i].space == "shared::cluster")
    is_filled = bool(loads) or any(True for _ in code.having(Op.ASYNC_COPY))
    products = () if is_filled else enumerate(code.instructions)
    yield from (i for i, instruction in products if _WARP_GROUP.search(instruction.text))


def _is_staged(code: Code, write: int, store: int, state: Staged) -> bool:
    """Whether it writes a part of a tile: all threads do, or where the kernel has no proxy fence, anybody."""
    needed = sync_needed(code, store, write)
    has_fence = any(code[i].space != "global" for i in code.having(Op.PROXY_FENCE))
    return needed <= state.synced and (needed > NONE or not has_fence)
