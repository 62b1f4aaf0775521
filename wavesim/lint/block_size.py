"""How many threads a block has, where no bound says so: as the kernel counts them.

Example: `blockIdx.x * 32 + threadIdx.x` numbers the threads of all blocks where a block is one warp.
"""

import re
from collections.abc import Callable, Sequence

from wavesim.lint.instruction import Instruction, Op

_THREAD = re.compile(r"%tid\b|SR_TID")
_BLOCK = re.compile(r"%ctaid\.x|SR_CTAID\.X")
_BY_WARP = re.compile(
    r"\bshl\S* [^;]*, 5\b|\b(mul|mad)\S* [^;]*, 32\b|\bIMAD\S* [^;]*0x20\b|LEA\S* [^;]*0x5\b"
)
_WIDE = re.compile(r"\bWIDE\b|\.[sub]64\b")

Sources = Callable[[str, int], frozenset[int]]


def counts_by_warp(instructions: Sequence[Instruction], sources: Sources) -> bool:
    """Whether wherever a thread's number is added to the block's, the block's is taken 32 times."""
    steps = {_step(instructions, sources, i) for i in range(len(instructions))} - {""}
    return bool(steps) and all(_BY_WARP.search(text) for text in steps)


def _step(instructions: Sequence[Instruction], sources: Sources, index: int) -> str:
    """The text of what multiplies the block's number where the thread's is added; else ""."""
    instruction = instructions[index]
    if instruction.op is not Op.ADD or _WIDE.search(instruction.text) or not 2 <= len(instruction.uses) <= 3:
        return ""
    parts = [sources(used, index) for used in instruction.uses]
    texts = [" ; ".join(instructions[i].text for i in sorted(part)) for part in parts]
    blocks = [text for text in texts if _BLOCK.search(text) and not _THREAD.search(text)]
    is_thread = any(len(part) == 1 and _THREAD.search(texts[i]) for i, part in enumerate(parts))
    return f"{blocks[0]} ; {instruction.text}" if blocks and is_thread else ""
