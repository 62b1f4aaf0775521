"""mbarriers: each wait is repeated until it succeeds, its phase flips, and bulk loads' bytes are expected.

Example: `mbarrier.try_wait.parity P, [bar], 0` outside of a loop returns after a while even if the phase has
not ended, and what follows reads shared memory that is not filled.

Source: PTX ISA 9.0, section 9.7.13.15 (mbarrier).
"""

import re
from collections.abc import Iterator

from wavesim.lint.code import ACCESSES, Code
from wavesim.lint.finding import Finding
from wavesim.lint.flow import CodeLoop
from wavesim.lint.instruction import Op
from wavesim.lint.judging import judged, line

# Remainders, masks and selections.
_RING = re.compile(r"^(@\S+ )?(rem|and|selp|LOP3|SEL|USEL|ULOP3)\b")


# What a loop finds anew in each turn: values in memory, and the phase that an arrival belongs to.
_NEW_EACH_TIME = ACCESSES | {Op.MBARRIER_ARRIVE, Op.MBARRIER_EXPECT}
_SENDS = re.compile(
    r"\b(st|red)\.async\b|\b(STAS|REDAS)\b"
)  # into another block's shared memory, counted there


def judge_mbarriers(code: Code) -> Iterator[Finding]:
    """What is wrong with a kernel's mbarriers, or that they are right."""
    tests = list(code.having(Op.MBARRIER_TEST))
    found = [*_not_awaited(code, tests), *_same_phase(code, tests), *_no_expect(code)]
    if tests and not found:
        why = f"{line(code[tests[0]])} and other waits for mbarriers are repeated until they succeed"
        found.append(judged(code, "mbarrier-not-awaited", tests[0], why, verdict="right"))
    yield from found


def _spin_of(code: Code, test: int) -> CodeLoop | None:
    """The innermost loop that its answer ends."""
    inside = [loop for loop in code.flow.loops if test in loop.body]
    return next(
        (loop for loop in reversed(inside) if any(test in code.test_of(branch) for branch in loop.exits)),
        None,
    )


def _not_awaited(code: Code, tests: list[int]) -> Iterator[Finding]:
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


def _is_repeated_by(code: Code, test: int, other: int) -> bool:
    return code.flow.can_follow(test, other) and code.flow.same_address(test, other) is not False


def _same_phase(code: Code, tests: list[int]) -> Iterator[Finding]:
    for test in tests:
        spin = _spin_of(code, test)
        around = [loop for loop in code.flow.loops if spin and spin.body < loop.body]
        if not around or _varies(code, _parity(code, test), around[-1]):
            continue
        address = code[test].address
        base = address.base if address is not None else ""
        if _varies(code, {(base, test)}, around[-1]) and not _comes_round(code, base, test, around[-1]):
            continue
        same = [i for i in tests if i in around[-1].body and code.flow.same_address(i, test) is not False]
        has_init = any(i in around[-1].body for i in code.having(Op.MBARRIER_INIT))
        if has_init or len({_phase(code, i) for i in same}) > 1:
            continue
        why = f"{line(code[test])} waits in a loop for the same phase each time"
        yield judged(code, "mbarrier-phase", test, why)
        return


def _phase(code: Code, test: int) -> tuple[str, ...]:
    """What its parity is made by: the constant, or the texts of the instructions."""
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
    """The text behind the address: the parity."""
    return code[index].text.partition("]")[2]


def _varies(code: Code, registers: set[tuple[str, int]], loop: CodeLoop) -> bool:
    """Whether a register changes from one turn of the loop to the next."""
    for i in _made_in(code, registers, loop):
        if code[i].op in _NEW_EACH_TIME or any(i in code.sources(register, i) for register in code[i].uses):
            return True
    return False


def _made_in(code: Code, registers: set[tuple[str, int]], loop: CodeLoop) -> set[int]:
    return {i for register, at in registers for i in code.sources(register, at) if i in loop.body}


def _comes_round(code: Code, register: str, at: int, loop: CodeLoop) -> bool:
    """Whether an address is one of a ring's."""
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
