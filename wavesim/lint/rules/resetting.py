"""A semaphore is set back only once nobody polls it any more.

Example: a waiter that stores 0 behind its own wait leaves another waiter of the same flag polling for ever.
"""

import re
from collections.abc import Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import RELEASES, STRONG, Op
from wavesim.lint.judging import judged, line
from wavesim.lint.paths import walk
from wavesim.lint.sites import FlagPost, FlagWait, is_swap

_COMPARES = re.compile(r"\.cas\..*\], *\d+, *%")  # in PTX; machine code has the two in registers
_EQUALITY = re.compile(r"\.(eq|ne|EQ|NE)\b")
_WAITING = frozenset({Op.BARRIER, Op.CLUSTER_WAIT, Op.MBARRIER_TEST, Op.GRID_WAIT, Op.CALL})


def judge_resets(code: Code, waits: Iterable[FlagWait], posts: Iterable[FlagPost]) -> Iterator[Finding]:
    """Stores of zero to what the kernel polls, with no count of those that have passed.

    One that releases hands the flag on: zero is what the next one waits for.
    """
    posts, waits = tuple(posts), tuple(waits)
    if pulsed := next(_pulsed(code, posts), None):
        yield pulsed
        return
    handed_on = {post.at for post in posts if post.releases and not _is_set_back(code, post, posts, waits)}
    for wait in waits:
        if wait.form != "spin" or any(is_swap(code, poll) for poll in wait.polls):
            continue
        for i in code.having(Op.STORE, Op.ATOMIC, Op.REDUCTION):
            if code[i].op is not Op.STORE and (not is_swap(code, i) or _is_taken(code, i)):
                continue
            if i in handed_on:
                continue
            if (
                code.constant(i) != 0
                or not code.flow.can_follow(wait.at, i)
                or not _is_same_flag(code, wait.at, i)
            ):
                continue
            if any(code[s].op is Op.ATOMIC for guard in code.guards(i) for s in code.test_of(guard)):
                continue
            why = (
                f"{line(code[i])} sets back the flag that {line(code[wait.at])} polls; others may poll, "
                "and no atomic counts those that have passed"
            )
            yield judged(code, "early-reset", i, why, (wait.at,))
            return


def _pulsed(code: Code, posts: Iterable[FlagPost]) -> Iterator[Finding]:
    for post in posts:
        if not post.is_certain or not _raises(code, post):
            continue

        def step(i: int, state: bool, raised: int = post.at) -> bool | None:
            looks = code[i].op is Op.LOAD and code[i].order in STRONG
            looks |= code[i].op is Op.ATOMIC and code.is_used(i)
            return None if i != raised and (looks or code[i].op in _WAITING) else state

        for i in sorted(at for at, _ in walk(code.forward, [(post.at, True)], step)):
            is_set = code[i].op is Op.STORE or (is_swap(code, i) and not code.is_used(i))
            if is_set and code.constant(i) == 0 and code.flow.same_address(post.at, i):
                why = (
                    f"{line(code[i])} sets back the flag that {line(code[post.at])} has raised, and nothing "
                    "between looks whether those who poll it have seen it"
                )
                yield judged(code, "early-reset", i, why, (post.at,))


def _raises(code: Code, post: FlagPost) -> bool:
    is_set = code[post.at].op is Op.STORE or (is_swap(code, post.at) and not code.is_used(post.at))
    return is_set and code.constant(post.at) not in (None, 0)


def _is_set_back(code: Code, post: FlagPost, posts: Iterable[FlagPost], waits: Iterable[FlagWait]) -> bool:
    """Whether a fence alone makes it look like a release: the kernel itself raises the flag, and polls for
    nothing but a number other than zero.
    """
    raised = any(_raises(code, other) and _is_same_flag(code, other.at, post.at) for other in posts)
    if code[post.at].order in RELEASES or not raised:
        return False
    return not any(_may_await_zero(code, wait) for wait in waits if _is_same_flag(code, wait.at, post.at))


def _may_await_zero(code: Code, wait: FlagWait) -> bool:
    tests = {i for branch in code.deciders(wait.at) for i in code.test_of(branch)}
    compares = [code[i] for i in tests if code[i].op is Op.COMPARE]
    return not compares or any(
        not compare.value or not _EQUALITY.search(compare.text) for compare in compares
    )


def _is_taken(code: Code, index: int) -> bool:
    """Whether it compares with a constant and stores a register: it takes what was free."""
    return _COMPARES.search(code[index].text) is not None


def _is_same_flag(code: Code, poll: int, store: int) -> bool:
    same = code.flow.same_address(poll, store)
    return bool(code.roots(poll)) and code.roots(poll) == code.roots(store) if same is None else same
