"""A barrier is reached by all the threads that it counts.

Example: `if (threadIdx.x == 0) __syncthreads();` waits for threads that never come.

Source: PTX ISA 9.0, section 9.7.13.1 (barrier).
"""

import re
from collections.abc import Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Op
from wavesim.lint.judging import judged, line

_ORDER = re.compile(r"\.(gt|ge|lt|le|GT|GE|LT|LE)\b")


def judge_barriers(code: Code) -> Iterator[Finding]:
    """Barriers of all the block's threads that one thread of it runs."""
    for i in code.having(Op.BARRIER):
        if code.flow.is_one_thread(i) and code.kernel.threads != 1 and _is_of_all(code, i):
            why = f"one thread reaches the barrier in {line(code[i])}, which waits for all of the block"
            yield judged(code, "divergent-barrier", i, why)
            return
        count = code[i].value or 0
        if (most := _threads_at(code, i)) > count > 0 and count % 32 == 0:
            why = f"{most} threads reach the barrier in {line(code[i])}, which counts {count}"
            yield judged(code, "divergent-barrier", i, why)
            return


def _threads_at(code: Code, index: int) -> int:
    """How many threads run it, where one test of the thread's index against a number says so; else 0."""
    guards = list(code.thread_guards([index]))
    tests = [i for guard in guards for i in code.test_of(guard) if code[i].op is Op.COMPARE]
    if len(guards) != 1 or len(tests) != 1:
        return 0
    found, bound = _ORDER.search(code[tests[0]].text), code[tests[0]].value
    holds = code.outcome(guards[0], index)
    if not found or bound is None or holds is None or holds != (found[1].lower() in ("lt", "le")):
        return 0
    return bound + (found[1].lower() in ("gt", "le"))


def _is_of_all(code: Code, index: int) -> bool:
    """Whether it names no number of threads."""
    return code[index].value is None
