"""Every path from a store of data to a post must bring the store to the thread that posts, and release it.

Example: `__syncthreads(); if (threadIdx.x == 0) add_release(flag, 1);` orders the block's stores before the
post; without the barrier only those of thread 0. Stores by TMA must first have been written (wait_group 0).

Source: PTX ISA 9.0, section 8.7 (release patterns), 8.9.5 (causality order), 9.7.9.25 (bulk groups).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wavesim.lint.addresses import POINTER_BYTES
from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import RELEASES, SCOPES, STRONG, Op, width
from wavesim.lint.judging import (
    BLOCK,
    NONE,
    WARP,
    are_apart,
    between_threads,
    is_handed_on,
    judged,
    line,
    need_of,
    slips_past,
    sync_needed,
)
from wavesim.lint.packets import packet_flags
from wavesim.lint.paths import Reached, walk
from wavesim.lint.rules.waiting import is_data_load, is_strong_data
from wavesim.lint.sites import FlagPost, FlagWait, is_made_of_data, is_swap, is_time
from wavesim.lint.timeouts import timeout_notes

BULK_STORES = frozenset({Op.BULK_STORE, Op.BULK_REDUCE})
_NEAR = 8  # instructions behind a post in which a fence is taken for one that was meant to come before
_BLOCK_SYNCS = frozenset({Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_TEST})


class PathBeforePost(NamedTuple):
    """What stands between here and the post: `released` is a scope's width."""

    released: int
    synced: int = 0
    is_written: bool = False
    barrier: int = -1  # by which the block is synced


def judge_posts(code: Code, posts: Iterable[FlagPost], waits: Iterable[FlagWait]) -> Iterator[Finding]:
    """What is wrong with each of a kernel's posts, or that it is right."""
    waits = tuple(waits)
    packets = packet_flags(code, waits)
    words = [post for post in posts if _is_packet_post(code, post, packets)]
    for post in words:
        if (scope := code[post.at].scope) and width(scope) < need_of(code, post.at):
            yield _too_narrow(code, post, scope, need_of(code, post.at), ())
    posts = tuple(post for post in posts if post not in words)
    polled = frozenset(root for wait in waits for root in code.roots(wait.at))
    notes = timeout_notes(code, waits)
    for post in posts:
        findings = list(_judged(code, post, posts, waits, notes))
        is_flag = post.is_certain or bool(code.roots(post.at) & polled)
        if findings and findings[0].rule == "no-release" and _says_done(code, post, posts, waits):
            why = f"{findings[0].why}; right where it only says that the kernel is done with it"
            findings = [judged(code, "no-release", post.at, why, verdict="unknown")]
        if findings and not is_flag:
            why = f"{line(code[post.at])} may be a post or a plain counter; as a post: {findings[0].why}"
            findings = [judged(code, findings[0].rule, post.at, f"{why}. Say --flag", verdict="unknown")]
        yield from findings or [_right(code, post)]


def _judged(
    code: Code,
    post: FlagPost,
    posts: tuple[FlagPost, ...],
    waits: tuple[FlagWait, ...],
    notes: frozenset[int],
) -> Iterator[Finding]:
    flag = code[post.at]
    need = need_of(code, post.at)
    if flag.scope and width(flag.scope) < need:
        yield _too_narrow(code, post, flag.scope, need, ())
        return
    problems: dict[str, Finding] = {}
    stores, own = set(), set()
    is_ticket = any(wait.form == "ticket" and wait.at == post.at for wait in waits)
    for at, state in _reached(code, post):
        if at not in notes and is_data_store(code, at, posts):
            stores.add(at)
            if state.synced == NONE:
                own.add(at)
            if problem := _problem(code, post, at, state, need, is_ticket):
                problems.setdefault(problem.rule, problem)
    beside = [] if problems else [at for at in _beside(code, post.at, own) if is_data_store(code, at, posts)]
    if beside:
        problems["post-before-barrier"] = _no_barrier(code, post, beside[0])
    if not stores:
        problems |= _of_reads(code, post, waits) or _of_other_warps(code, post, posts)
    yield from problems.values()
    if not problems:
        yield from _early(code, post, posts, waits, stores)


def _is_packet_post(code: Code, post: FlagPost, packets: set[frozenset[str]]) -> bool:
    """Whether it stores a flag and its data in one word, where the kernel polls such words: nothing else is
    announced by it.
    """
    is_store = code[post.at].op is Op.STORE and code[post.at].bytes >= POINTER_BYTES
    return is_store and code.roots(post.at) in packets


def _says_done(code: Code, post: FlagPost, posts: Iterable[FlagPost], waits: Iterable[FlagWait]) -> bool:
    """Whether it is a kernel's last word: it reads nothing more, and either posted to the same flag by
    release before, or waited before and only waits behind it, as in a second barrier at the kernel's end.
    """
    own = code.roots(post.at)
    after = code.reach(post.at)
    earlier = [other for other in posts if other.at != post.at and own and code.roots(other.at) == own]
    reads = (i for i in code.having(Op.LOAD) if is_data_load(code, i) or is_strong_data(code, i))
    is_last = not any(code.flow.can_follow(post.at, i) for i in reads)
    has_released = any(other.releases and post.at in code.reach(other.at) for other in earlier)
    spins = [wait.at for wait in waits if wait.form == "spin"]
    is_barrier = any(at in after for at in spins) and any(post.at in code.reach(at) for at in spins)
    return code[post.at].op is not Op.STORE and is_last and (has_released or is_barrier)


def _reached(code: Code, post: FlagPost) -> Reached[PathBeforePost]:
    def step(i: int, state: PathBeforePost) -> PathBeforePost | None:
        instruction = code[i]
        match instruction.op:
            case _ if i == post.at:
                return state
            case Op.FENCE if instruction.order in RELEASES:
                # A fence above the barrier releases the stores of those that run it.
                if state.synced == BLOCK and code.threads(i):
                    return state
                return state._replace(released=max(state.released, width(instruction.scope)))
            case Op.WARP_SYNC:
                return state._replace(synced=max(state.synced, WARP))
            case Op.BULK_WAIT if not instruction.count and _is_committers(code, i):
                return state._replace(is_written=True)
        return _synced(code, i, state) if instruction.op in _BLOCK_SYNCS else state

    flag = code[post.at]
    start = PathBeforePost(width(flag.scope or "gpu") if flag.order in RELEASES else 0)
    return walk(lambda i: code.backward_to(i, post.at), [(post.at, start)], step)


def _synced(code: Code, i: int, state: PathBeforePost) -> PathBeforePost:
    """The state before a barrier; of several, the one that most threads reach counts."""
    if code[i].op is not Op.BARRIER:
        return state._replace(synced=BLOCK, barrier=-1)
    if state.synced == BLOCK and state.barrier < 0:
        return state
    is_wider = state.synced < BLOCK or len(code.thread_guards([i])) < len(code.thread_guards([state.barrier]))
    return state._replace(synced=BLOCK, barrier=i) if is_wider else state


def _is_committers(code: Code, wait: int) -> bool:
    """Whether a thread that waits for its bulk groups is not known to be another than those that commit."""
    commits = [*code.having(Op.BULK_COMMIT)]
    return not commits or any(between_threads(code, wait, i) == NONE for i in commits)


def is_data_store(code: Code, index: int, posts: Iterable[FlagPost]) -> bool:
    """Whether it stores what a flag may announce: no flag, and no counter that one thread keeps."""
    instruction = code[index]
    if instruction.op in BULK_STORES:
        return True
    if instruction.op not in (Op.STORE, Op.REDUCTION, Op.ATOMIC) or not code.is_global(index):
        return False
    if code.is_("flags", index) or any(post.at == index for post in posts) or is_time(code, index):
        return False
    if code.is_("produced", index):
        return True
    is_plain = instruction.op is Op.STORE and instruction.order not in STRONG
    is_sum = instruction.op is not Op.ATOMIC or not code.is_used(index)
    is_word = instruction.op is Op.STORE and is_made_of_data(code, index)
    return is_plain or is_word or (not code.threads(index) and is_sum)


def _problem(
    code: Code, post: FlagPost, at: int, state: PathBeforePost, need: int, is_ticket: bool
) -> Finding | None:
    flag, store = code[post.at], code[at]
    if store.op in BULK_STORES and not state.is_written:
        return judged(
            code,
            "bulk-store-pending",
            post.at,
            f"the stores that {line(store)} hands to TMA may not be written when {line(flag)} posts: no "
            "cp.async.bulk.wait_group 0 without .read stands between",
            (at,),
        )
    if state.released == 0:
        # PathBeforePost a ticket a fence has its place: it acquires what the others have posted by theirs.
        is_misplaced = not is_ticket and _fence_follows(code, post.at)
        return judged(
            code,
            "fence-misplaced" if is_misplaced else "no-release",
            post.at,
            f"{line(flag)} posts without release{', the fence comes after it' if is_misplaced else ''}, and "
            f"nothing between it and the store in {line(store)} releases",
            (at,),
            kind="post",
        )
    if state.released < need:
        return _too_narrow(code, post, SCOPES[state.released], need, (at,))
    needed = sync_needed(code, post.at, at) or between_threads(code, post.at, at)
    if needed == WARP and code.language == "sass":
        needed = NONE  # a warp's lanes run in step up to the branch that only one takes
    if store.op in BULK_STORES:
        return None
    is_passed = state.synced == needed == BLOCK and state.barrier >= 0
    if state.synced < needed or (is_passed and slips_past(code, state.barrier, at, None)):
        return _no_barrier(code, post, at)
    return None


def _no_barrier(code: Code, post: FlagPost, store: int) -> Finding:
    why = (
        f"{line(code[post.at])} is run by some threads only, and no block barrier stands between it and the "
        f"other threads' store in {line(code[store])}"
    )
    return judged(code, "post-before-barrier", post.at, why, (store,))


def _beside(code: Code, post: int, own: set[int]) -> list[int]:
    """What another thread stores, between the same barriers, to the memory that the poster itself stores to.

    Where the compiler parts the two by the thread's number, no path leads from that store to the post.
    """

    def step(i: int, state: bool) -> bool | None:
        return None if code[i].op in _BLOCK_SYNCS else state

    roots = {code.roots(at) for at in own if code.roots(at)}
    if not roots or code.flow.thread_number(post) is None:
        return []
    before = {i for i, _ in walk(code.backward, [(post, True)], step)}
    starts = [(i, True) for i in before & code.thread_guards([post])]
    others = {i for i, _ in walk(code.forward, starts, step)} - before
    return sorted(i for i in others if code.roots(i) in roots and between_threads(code, post, i) == BLOCK)


def _too_narrow(code: Code, post: FlagPost, scope: str, need: int, others: tuple[int, ...]) -> Finding:
    rule = "no-system-scope" if need > width("gpu") else "narrow-scope"
    why = f"{line(code[post.at])} posts with {scope} scope, and {SCOPES[need]} scope is needed"
    return judged(code, rule, post.at, why, others, kind="post")


def _fence_follows(code: Code, index: int) -> bool:
    def step(i: int, steps: int) -> int | None:
        is_poll = i != index and code[i].order in STRONG
        return steps + 1 if steps < _NEAR and code[i].op is not Op.FENCE and not is_poll else None

    return any(code[i].op is Op.FENCE for i, _ in walk(code.forward, [(index, 0)], step))


def _early(
    code: Code, post: FlagPost, posts: tuple[FlagPost, ...], waits: tuple[FlagWait, ...], before: set[int]
) -> Iterator[Finding]:
    stops = {poll for wait in waits for poll in wait.polls if poll != post.at}
    stops |= code.thread_guards(stops) - {post.at}
    roots = frozenset(root for i in (*before, *_locked(code, post, waits)) for root in code.roots(i))
    announcing = {other.at for other in posts}
    announcing |= code.thread_guards(announcing)

    def step(i: int, state: bool) -> bool | None:
        return None if i in stops else state

    # In a loop it may say that what was read may be written again, not what is stored next.
    frees = not before and code.flow.loop_of(post.at) is not None and _is_read(code, post, waits)
    awaited = _awaited(code, post, waits)
    own_guards = code.guards(post.at)
    for at, _ in walk(code.forward, [(post.at, True)], step):
        if at == post.at or not is_data_store(code, at, posts) or post.at in _decided_by(code, at):
            continue
        if (before and not ((roots | awaited) & code.roots(at))) or _is_reset(code, at):
            continue
        is_for_others = code.is_("produced", at) or code.is_("remote", at) or bool(awaited & code.roots(at))
        if (frees or code.says_produced) and not is_for_others:
            continue
        if _leaves_unannounced(code, at, announcing - own_guards | {post.at}):
            yield judged(
                code,
                "early-post",
                post.at,
                f"{line(code[post.at])} posts, and {line(code[at])} stores data after it that no later post "
                "announces",
                (at,),
            )
            return


def _of_reads(code: Code, post: FlagPost, waits: tuple[FlagWait, ...]) -> dict[str, Finding]:
    """Other threads' loads that no barrier orders before a post that lets their memory be written again."""
    reads = _reads_of(code, post, waits)
    for at, state in _reached(code, post):
        if at in reads and state.synced < sync_needed(code, post.at, at) == BLOCK:
            why = (
                f"{line(code[post.at])} is run by some threads only, and no block barrier stands between it "
                f"and the other threads' load in {line(code[at])}"
            )
            return {"post-before-barrier": judged(code, "post-before-barrier", post.at, why, (at,))}
    return {}


def _of_other_warps(code: Code, post: FlagPost, posts: Iterable[FlagPost]) -> dict[str, Finding]:
    """Stores of warps that no way leads from to the post, and that no barrier of both orders before it."""
    if code[post.at].op is Op.ATOMIC and code.is_used(post.at):  # a number that is drawn announces nothing
        return {}
    for at in code.having(*BULK_STORES, Op.STORE):
        is_others = is_data_store(code, at, posts) and are_apart(code, at, post.at)
        if is_others and is_handed_on(code, at, post.at) is False:
            return {"post-before-barrier": _no_barrier(code, post, at)}
    return {}


def _reads_of(code: Code, post: FlagPost, waits: tuple[FlagWait, ...]) -> set[int]:
    """The loads between a wait and the post: it may say that what was awaited has been read."""
    after = {i for wait in waits if wait.at != post.at for i in code.reach(wait.at)}
    loads = code.having(Op.LOAD)
    return {i for i in loads if i in after and post.at in code.reach(i) and is_data_load(code, i)}


def _is_read(code: Code, post: FlagPost, waits: tuple[FlagWait, ...]) -> bool:
    after = {i for wait in waits if wait.at != post.at for i in code.reach(wait.at)}
    strong = [i for i in code.having(Op.LOAD) if i in after and post.at in code.reach(i)]
    return bool(_reads_of(code, post, waits)) or any(is_strong_data(code, i) for i in strong)


def _awaited(code: Code, post: FlagPost, waits: Iterable[FlagWait]) -> frozenset[str]:
    """What the kernel itself reads behind waits for flags such as it posts: others' part of the same data."""
    same = [wait for wait in waits if wait.loop is not None and code.roots(wait.at) == code.roots(post.at)]
    after = {i for wait in same for i in code.reach(wait.at)}
    return frozenset(
        r for i in code.having(Op.LOAD) if i in after and is_data_load(code, i) for r in code.roots(i)
    )


def _locked(code: Code, post: FlagPost, waits: tuple[FlagWait, ...]) -> set[int]:
    """The loads that a lock guards: between the swap that takes it and the post that gives it back."""
    own = code.roots(post.at)
    locks = tuple(wait for wait in waits if own and is_swap(code, wait.at) and code.roots(wait.at) == own)
    return _reads_of(code, post, locks)


def _is_reset(code: Code, index: int) -> bool:
    """Whether some threads only store what is not made of data: a counter put back, a report's end."""
    return bool(code.threads(index)) and code[index].op is Op.STORE and not is_made_of_data(code, index)


def _decided_by(code: Code, index: int) -> frozenset[int]:
    guards = [guard for guard in code.guards(index) if index in code.reach(guard)]
    return frozenset(i for guard in guards for i in code.values_behind(guard))


def _leaves_unannounced(code: Code, index: int, announcing: set[int]) -> bool:
    end = len(code.instructions)

    def step(i: int, state: bool) -> bool | None:
        return None if i in announcing or i == end else state

    return any(
        i == end for i, _ in walk(lambda i: code.flow.successors(i) if i < end else (), [(index, True)], step)
    )


def _right(code: Code, post: FlagPost) -> Finding:
    why = f"all stores of data on the paths to {line(code[post.at])} are ordered before it and released"
    return judged(code, "no-release", post.at, why, verdict="right")
