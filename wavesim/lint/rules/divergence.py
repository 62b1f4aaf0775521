"""A barrier is reached by all the threads that it counts.

Example: `if (threadIdx.x == 0) __syncthreads();` waits for threads that never come.

Source: PTX ISA 9.0, section 9.7.13.1 (barrier).
"""

from collections.abc import Iterator

from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Op
from wavesim.lint.judging import judged, line


def judge_barriers(code: Code) -> Iterator[Finding]:
    """Barriers of all the block's threads that one thread of it runs."""
    for i in code.having(Op.BARRIER):
        if code.flow.is_one_thread(i) and code.kernel.threads != 1 and _is_of_all(code, i):
            why = f"one thread reaches the barrier in {line(code[i])}, which waits for all of the block"
            yield judged(code, "divergent-barrier", i, why)
            return


def _is_of_all(code: Code, index: int) -> bool:
    """Whether it names no number of threads."""
    return code[index].value is None
