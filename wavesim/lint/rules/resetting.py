"""A semaphore is set back only once nobody polls it any more.

Example: a waiter that stores 0 behind its own wait leaves another waiter of the same flag polling for ever.
"""

import re
from collections.abc import Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Op
from wavesim.lint.judging import judged, line
from wavesim.lint.sites import FlagPost, FlagWait, is_swap

_COMPARES = re.compile(r"\.cas\..*\], *\d+, *%")  # in PTX; machine code has the two in registers


def judge_resets(code: Code, waits: Iterable[FlagWait], posts: Iterable[FlagPost]) -> Iterator[Finding]:
    """Stores of zero to what the kernel polls, with no count of those that have passed.

    One that releases hands the flag on: zero is what the next one waits for.
    """
    handed_on = {post.at for post in posts if post.releases}
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


def _is_taken(code: Code, index: int) -> bool:
    """Whether it compares with a constant and stores a register: it takes what was free."""
    return _COMPARES.search(code[index].text) is not None


def _is_same_flag(code: Code, poll: int, store: int) -> bool:
    same = code.flow.same_address(poll, store)
    return bool(code.roots(poll)) and code.roots(poll) == code.roots(store) if same is None else same
