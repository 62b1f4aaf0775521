"""Whether a loop polls, and whether it ends by itself: by a clock, a count of polls or an abort flag.

Example: `while (load_acquire(flag) == 0) ;` has one exit, which the flag alone opens. `while (*flag == 0) ;`
becomes one load and a loop that nothing leaves.
"""

from collections.abc import Iterable, Iterator

from wavesim.lint.code import ACCESSES, STRONG, Code
from wavesim.lint.finding import Finding
from wavesim.lint.flow import CodeLoop
from wavesim.lint.instruction import Op
from wavesim.lint.judging import judged, line
from wavesim.lint.sites import FlagWait

# Loops that do any of these may be there for something else than to wait.
_DOES = frozenset(
    {Op.BARRIER, Op.CALL, Op.MBARRIER_TEST, Op.ASYNC_COPY, Op.BULK_LOAD, Op.BULK_STORE, Op.CLUSTER_WAIT}
)


def judge_spins(code: Code, waits: Iterable[FlagWait]) -> Iterator[Finding]:
    """A finding for each spin without a bound: legal, and so "right", but a lost post hangs it for ever."""
    yield from _polled_once(code)
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


def _polled_once(code: Code) -> Iterator[Finding]:
    """Loops that do nothing, and that an ordinary load before them alone keeps from being entered or left."""
    for loop in code.flow.loops:
        if any(code[i].op in ACCESSES or code[i].op in _DOES for i in loop.body):
            continue
        exits = [i for i in loop.exits if code[i].op is not Op.TRAP]
        tests = exits or [i for i in code.guards(loop.header) if i not in loop.body]
        loads = {load for test in tests for load in _loaded_before(code, test, loop)}
        for load in sorted(loads)[:1]:
            why = (
                f"{line(code[load])} loads the flag once, by an ordinary load, and the loop in "
                f"{line(code[loop.header])} looks at it no more"
            )
            yield judged(code, "poll-hoisted", load, why, (loop.header,))


def _loaded_before(code: Code, test: int, loop: CodeLoop) -> Iterator[int]:
    """The ordinary loads of global memory that decide a test which is the same in each turn."""
    made_by = code.test_of(test)
    changes = any(i in code.sources(used, i) for i in made_by if i in loop.body for used in code[i].uses)
    if not changes:
        loads = (i for i in made_by if code[i].op is Op.LOAD and i not in loop.body)
        yield from (i for i in loads if code.is_global(i) and code[i].order not in STRONG)
