"""Waits end: an mbarrier's is repeated until its phase flips, and a loop that polls is bounded.

Example: `mbarrier.try_wait.parity P, [bar], 0` outside of a loop returns after a while even if the phase has
not ended, and what follows reads shared memory that is not filled.

Source: PTX ISA 9.0, section 9.7.13.15 (mbarrier).
"""

import re
from collections.abc import Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.flow import CodeLoop
from wavesim.lint.instruction import ACCESSES, STRONG, Op
from wavesim.lint.judging import judged, line
from wavesim.lint.sites import FlagWait

# Remainders, masks and selections.
_RING = re.compile(r"^(@\S+ )?(rem|and|selp|LOP3|SEL|USEL|ULOP3)\b")


BIT = re.compile(r"\b(and\.b\d+\s.*,\s*1$|U?LOP3\S*\s.*,\s*0x1,)")  # a number's lowest

# What a loop finds anew in each turn: values in memory, and the phase that an arrival belongs to.
_NEW_EACH_TIME = ACCESSES | {Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT}
_SENDS = re.compile(
    r"\b(st|red)\.async\b|\b(STAS|REDAS)\b"
)  # into another block's shared memory, counted there


def judge_mbarriers(code: Code) -> Iterator[Finding]:
    """What is wrong with a kernel's mbarriers, or that they are right."""
    tests = list(code.having(Op.MBARRIER_TEST))
    findings = [*_not_awaited(code, tests), *_same_phase(code, tests), *_no_expect(code)]
    findings += [*_skipped(code, tests)][:1]
    if tests and not findings:
        why = f"{line(code[tests[0]])} and other waits for mbarriers are repeated until they succeed"
        findings.append(judged(code, "mbarrier-not-awaited", tests[0], why, verdict="right"))
    yield from findings


def _spin_of(code: Code, test: int) -> CodeLoop | None:
    inside = [loop for loop in code.flow.loops if test in loop.body]
    return next(
        (loop for loop in reversed(inside) if any(test in code.test_of(branch) for branch in loop.exits)),
        None,
    )


def _not_awaited(code: Code, tests: list[int]) -> Iterator[Finding]:
    if not tests and (arrive := _left_alone(code)) is not None:
        why = f"{line(code[arrive])} arrives at an mbarrier, and nothing in the kernel waits for it"
        yield judged(code, "mbarrier-not-awaited", arrive, why)
    looped = [test for test in tests if _spin_of(code, test)]
    for test in tests:
        if test in looped or any(
            code.flow.can_follow(test, other) and code.flow.same_address(test, other) is not False
            for other in looped
        ):
            continue
        why = f"{line(code[test])} may return false before the phase has ended, and nothing repeats it"
        yield judged(code, "mbarrier-not-awaited", test, why)
        return


def _left_alone(code: Code) -> int | None:
    """An arrival or a copy that an mbarrier of the kernel's own counts, before shared memory is read."""
    if any(True for _ in code.having(Op.CALL)) or not any(True for _ in code.having(Op.MBARRIER_INIT)):
        return None
    counted = sorted({*code.having(Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT, Op.BULK_LOAD)})
    reads = [i for i in code.having(Op.LOAD) if code[i].space == "shared"]
    return next((i for i in counted if any(code.flow.can_follow(i, read) for read in reads)), None)


def _same_phase(code: Code, tests: list[int]) -> Iterator[Finding]:
    for test in tests:
        spin = _spin_of(code, test)
        around = [loop for loop in code.flow.loops if spin and spin.body < loop.body]
        if not around or varies(code, _parity(code, test), around[-1]):
            continue
        address = code[test].address
        base = address.base if address is not None else ""
        if varies(code, {(base, test)}, around[-1]) and not comes_round(code, base, test, around[-1]):
            continue
        same = [i for i in tests if i in around[-1].body and code.flow.same_address(i, test) is not False]
        has_init = any(i in around[-1].body for i in code.having(Op.MBARRIER_INIT))
        if has_init or len({_phase(code, i) for i in same}) > 1:
            continue
        why = f"{line(code[test])} waits in a loop for the same phase each time"
        yield judged(code, "mbarrier-phase", test, why)
        return


def _skipped(code: Code, tests: list[int]) -> Iterator[Finding]:
    """Waits that only some turns of a loop reach, by a test of what their parity is made of."""
    for test in tests:
        spin = _spin_of(code, test)
        around = [loop for loop in code.flow.loops if spin and spin.body < loop.body]
        for guard in code.guards(test) if around else ():
            made_by = code.test_of(guard)
            is_inside = guard in around[-1].body and guard not in (*around[-1].exits, test)
            others = {i for i in made_by if code[i].op is not Op.COMPARE}
            made_of = {s for register, at in _parity(code, test) for s in code.sources(register, at)}
            has_bit = any(BIT.search(code[i].text) for i in made_by)
            if is_inside and has_bit and others <= made_of and not code.reads_thread(made_by):
                why = f"{line(code[test])} waits in some turns only, by {line(code[guard])}: a parity "
                yield judged(
                    code, "mbarrier-phase", test, f"{why}cannot tell a phase from the one after the next"
                )
                break


def _phase(code: Code, test: int) -> tuple[str, ...]:
    made_by = {i for register, at in _parity(code, test) for i in code.flow.definitions(register, at)}
    texts = sorted(code[i].text.partition(",")[2] for i in made_by)
    return tuple(texts) if made_by else (_operands(code, test),)


def _parity(code: Code, test: int) -> set[tuple[str, int]]:
    """The registers behind the address, and where they are read; on sm_80 the test comes after a load."""
    words = set(re.findall(r"[\w%$.]+", _operands(code, test)))
    loaded = set(code[test].defines)
    readers = (i for i in code.reach(test) if loaded & set(code[i].uses)) if code[test].bytes == 4 else ()
    reader = min(readers, default=test)
    return {
        (used, reader)
        for used in code[reader].uses
        if used in words or (reader != test and used not in loaded)
    }


def _operands(code: Code, index: int) -> str:
    return code[index].text.partition("]")[2]


def varies(code: Code, registers: set[tuple[str, int]], loop: CodeLoop) -> bool:
    """Whether registers, each with where it is read, hold something else in each turn of a loop."""
    for i in _made_in(code, registers, loop):
        if code[i].op in _NEW_EACH_TIME or any(i in code.sources(register, i) for register in code[i].uses):
            return True
    return False


def _made_in(code: Code, registers: set[tuple[str, int]], loop: CodeLoop) -> set[int]:
    return {i for register, at in registers for i in code.sources(register, at) if i in loop.body}


def comes_round(code: Code, register: str, at: int, loop: CodeLoop) -> bool:
    """Whether what a register holds is made by a remainder, a mask or a choice: a ring's place."""
    return any(_RING.search(code[i].text) for i in _made_in(code, {(register, at)}, loop))


def _no_expect(code: Code) -> Iterator[Finding]:
    loads = [
        *code.having(Op.BULK_LOAD),
        *(i for i in code.having(Op.STORE, Op.REDUCTION, Op.OTHER) if _is_sent(code, i)),
    ]
    if loads and not any(True for _ in code.having(Op.MBARRIER_EXPECT)):
        why = f"{line(code[loads[0]])} completes on an mbarrier, and the kernel expects no bytes at any"
        yield judged(code, "no-expect", loads[0], why)


def _is_sent(code: Code, index: int) -> bool:
    return bool(_SENDS.search(code[index].text))


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
        tested = code.test_of(branch)
        if any(code[i].op is Op.CLOCK and i in wait.loop.body for i in tested):
            return True
        polls = tested & set(wait.polls)
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
