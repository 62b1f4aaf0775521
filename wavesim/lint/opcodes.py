"""What an opcode does to memory, in one form for PTX and machine code, and the opcodes without modifiers.

Example: `plain_opcodes("sass")["PREEXIT"]` is Meaning(Op.GRID_TRIGGER, writes=False).
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from wavesim.lint.instruction import Op, Ordering, Scope, Space


class Meaning(NamedTuple):
    """What an opcode says without its operands.

    `writes` tells whether its first operand is a result (in machine code, whether leading ones are). `width`
    is how many registers a result takes, `read_width` how many each register operand takes.
    """

    op: Op = Op.OTHER
    space: Space = ""
    order: Ordering = ""
    scope: Scope = ""
    bytes: int = 0
    writes: bool = True
    width: int = 1
    read_width: int = 1


@cache
def plain_opcodes(language: Literal["ptx", "sass"]) -> dict[str, Meaning]:
    """The opcodes of `opcodes.toml`."""
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    return {
        name: Meaning(Op[op], writes=kind == "result")
        for kind, names_of in tomllib.loads(text)[language].items()
        for op, names in names_of.items()
        for name in names
    }
