"""A kernel as a list of instructions with labels, and a file as a list of kernels.

Example: a PTX file with two .entry functions gives a Listing of two KernelCodes, of language "ptx".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from wavesim.lint.instruction import Instruction


@dataclass(frozen=True)
class KernelCode:
    """`labels` maps a label to the index of the instruction after it (len(instructions) at the end).

    `parameters` names the kernel's parameters in their order: their sizes in bytes, by name. `threads` is
    what .reqntid or .maxntid says, 0 where nothing does. `is_entry` is False for a device function. `offsets`
    are where the parameters begin among each other in machine code, in bytes, where that is known.
    """

    name: str
    instructions: Sequence[Instruction]
    labels: Mapping[str, int]
    parameters: Mapping[str, int] = field(default_factory=dict)
    threads: int = 0
    is_entry: bool = True
    offsets: Sequence[int] = ()


@dataclass(frozen=True)
class Listing:
    """The kernels of one piece of PTX or machine code. `where` names it; `arch` is such as "sm_90a"."""

    where: str
    language: Literal["ptx", "sass"]
    arch: str
    kernels: Sequence[KernelCode]
    notes: Sequence[str] = ()  # what could not be read, in words
