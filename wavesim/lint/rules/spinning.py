"""Whether a loop that polls ends by itself: by a clock, a count of polls or an abort flag.

Example: `while (load_acquire(flag) == 0) ;` has one exit, which the flag alone opens.
"""

from collections.abc import Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.judging import judged, line
from wavesim.lint.sites import FlagWait


def judge_spins(code: Code, waits: Iterable[FlagWait]) -> Iterator[Finding]:
    """A finding for each spin without a bound: legal, and so "right", but a lost post hangs it for ever."""
    for wait in waits:
        if wait.loop is None or _is_bounded(code, wait):
            continue
        why = (
            f"right, but unbounded: nothing but the flag ends the loop of {line(code[wait.at])}; a post that "
            "never comes hangs it for ever"
        )
        yield judged(code, "unbounded-spin", wait.at, why, verdict="right")


def _is_bounded(code: Code, wait: FlagWait) -> bool:
    assert wait.loop is not None
    roots = code.roots(wait.at)
    for branch in wait.loop.exits:
        polls = code.test_of(branch) & set(wait.polls)
        if not polls or any(code.roots(poll) != roots for poll in polls):
            return True
    return False
