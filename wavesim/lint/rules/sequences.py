"""A reader of a sequence lock looks at the number twice, in order, around what it reads.

Example: `do { before = acquire(seq); copy = data; fence; after = relaxed(seq); } while (before != after);`.
Without the fence the second look may be made before the data is read, and a torn copy passes for whole.

Source: Boehm, Can seqlocks get along with programming language memory models? (2012).
"""

import itertools
from collections.abc import Iterable, Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import ACQUIRES, STRONG, Instruction, Op
from wavesim.lint.judging import judged, line
from wavesim.lint.rules.mbarriers import BIT
from wavesim.lint.rules.waiting import is_data_load, is_strong_data
from wavesim.lint.sites import FlagWait


def judge_sequences(code: Code, waits: Iterable[FlagWait]) -> Iterator[Finding]:
    """Looks around data that a fence does not order, or that are not made again."""
    looks = [i for i in code.having(Op.LOAD) if code[i].order in STRONG and code.is_global(i)]
    pairs = list(_pairs(code, looks))
    for first, second in pairs:
        again = [
            loop.body for loop in code.flow.loops if not _ends(code, first, second).isdisjoint(loop.exits)
        ]
        between = [i for i in _data(code, first) if i in code.reach(first) and second in code.reach(i)]
        between = [i for i in between if any(body.issuperset((first, i, second)) for body in again)]
        for i in between:
            if code[i].order not in ACQUIRES and code.flow.path_without(i, second, _is_fence) is not None:
                why = (
                    f"{line(code[second])} looks at the number again, and no fence orders the data that "
                    f"{line(code[i])} reads before it"
                )
                yield judged(code, "seqlock-torn", second, why, (i,))
                return
    for wait in waits if not pairs else ():
        data = [i for i in _data(code, wait.at) if i in code.reach(wait.at) and i not in wait.polls]
        if wait.form == "spin" and data and _is_even(code, wait):
            why = (
                f"{line(code[wait.at])} waits until the number is even, and nothing looks behind "
                f"{line(code[data[0]])} whether it still is the same"
            )
            yield judged(code, "seqlock-torn", wait.at, why, (data[0],))
            return


def _ends(code: Code, first: int, second: int) -> set[int]:
    return set(code.deciders(first)) & set(code.deciders(second))


def _data(code: Code, flag: int) -> list[int]:
    """What is read beside a number: no copy of the number itself."""
    data = [i for i in code.having(Op.LOAD) if is_data_load(code, i) or is_strong_data(code, i)]
    own = code.roots(flag)
    return sorted(i for i in data if code.roots(i) != own or code.flow.same_address(flag, i) is False)


def _pairs(code: Code, looks: list[int]) -> Iterator[tuple[int, int]]:
    """Two looks at one place whose values are compared."""
    for compare in code.having(Op.COMPARE):
        parts = [[i for i in looks if i in code.sources(used, compare)] for used in code[compare].uses]
        for first, second in itertools.product(*parts) if len(parts) == 2 else ():
            before, after = (first, second) if second in code.reach(first) else (second, first)
            if before != after and after in code.reach(before) and code.flow.same_address(before, after):
                yield before, after


def _is_fence(instruction: Instruction) -> bool:
    return instruction.op is Op.FENCE and (instruction.order in ACQUIRES or instruction.order == "")


def _is_even(code: Code, wait: FlagWait) -> bool:
    """Whether only the lowest bit of what is polled ends the spin, and nothing else is made of the value."""
    exits = wait.loop.exits if wait.loop is not None else ()
    tests = [code.test_of(branch) for branch in exits if wait.at in code.test_of(branch)]
    is_bit = bool(tests) and all(any(BIT.search(code[i].text) for i in test) for test in tests)
    return is_bit and all(len([i for i in test if code[i].op is Op.LOAD]) == 1 for test in tests)
