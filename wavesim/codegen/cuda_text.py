"""Pieces of CUDA text: index expressions, tables and functions, and what all parts of a header are made from.

Example: `Sizes(is_constant=True)` declares `static constexpr int columns = 24` and static functions;
`Sizes(is_constant=False)` declares `int columns` and const member functions with the very same bodies.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from wavesim.codegen.names import Names
from wavesim.codegen.options import PLAIN_STORE, Option, is_used
from wavesim.model.dependency import Index
from wavesim.plan.resolved import ResolvedPlan
from wavesim.plan.semaphores import Edge, SemaphoreArray
from wavesim.safe_io.escaping import literal

INDENT = "    "
OPERATORS = {
    "+": "({} + {})",
    "*": "({} * {})",
    "//": "floor_divided({}, {})",
    "min": "smaller({}, {})",
    "max": "larger({}, {})",
}


def index_text(index: Index) -> str | None:
    """C++ for an index expression in x and y, or None if it has an operator that this does not know."""
    if index.operator == "dim":
        return "x" if index.operands == ("x",) else "y"  # as evaluate() has it
    parts = [index_text(part) if isinstance(part, Index) else literal(part) for part in index.operands]
    if any(part is None for part in parts):
        return None
    if index.operator == "const":
        return parts[0]
    pattern = OPERATORS.get(index.operator)
    return None if pattern is None else pattern.format(*parts)


def table_lines(name: str, numbers: Sequence[int]) -> list[str]:
    """A constant array in the body of a function: NVRTC, nvcc and host compilers all take it."""
    rows = textwrap.wrap(", ".join(map(literal, numbers)), 96)
    return [f"static const int {name}[{len(numbers)}] = {{", *(INDENT + row for row in rows), "};"]


@dataclass(frozen=True)
class Sizes:
    """How a header knows its grids: as constants in it, or as data members that are filled at run time.

    The same lines serve both: formulas say `columns` and `rows`, and only the declarations differ.
    """

    is_constant: bool = True

    def members(self, **values: int) -> str:
        """The declaration of integers of these names."""
        if self.is_constant:
            given = ", ".join(f"{name} = {literal(value)}" for name, value in values.items())
            return f"static constexpr int {given};"
        return f"int {', '.join(values)};"

    def function(self, head: str, body: Sequence[str], *, is_formula: bool = True) -> list[str]:
        """A function of host and device, constexpr unless it looks up a table; unused parameters unnamed."""
        constexpr = "constexpr " if is_formula else ""
        static, const = ("static ", "") if self.is_constant else ("", " const")
        lines = [*(INDENT + line for line in body), "}"]
        return [f"WAVESIM_FUNCTION {static}{constexpr}{quiet(head, body)}{const} {{", *lines]

    def device_function(self, head: str, body: Sequence[str]) -> list[str]:
        """A function of the device only."""
        static, const = ("static ", "") if self.is_constant else ("", " const")
        return [f"__device__ {static}{quiet(head, body)}{const} {{", *(INDENT + line for line in body), "}"]

    def reach(self, struct: str, member: str) -> str:
        """What stands before a member of another struct: its name, or the data member that holds one."""
        return f"{struct}::" if self.is_constant else f"{member}."


def quiet(head: str, body: Sequence[str]) -> str:
    """The head with parameters that the body does not use nameless, so that no compiler warns."""
    text = "\n".join(body)
    name, _, parameters = head.partition("(")
    kept = [
        word
        if re.search(rf"\b{word.split()[-1]}\b", text)
        else " ".join([*word.split()[:-1], f"/* {word.split()[-1]} */"])
        for word in parameters.removesuffix(")").split(", ")
        if word
    ]
    return f"{name}({', '.join(kept)})"


@dataclass(frozen=True)
class HeaderFacts:
    """What every part of a header is written from."""

    resolved: ResolvedPlan
    options: tuple[Option, ...]
    names: Names
    sizes: Sizes
    space: str
    keeps_alignment: bool = True  # of shared arrays whose kernel says none

    @property
    def first_semaphore(self) -> int:
        """Where semaphores begin among the counters: after one per stage and `gave_up`."""
        return len(self.resolved.names) + 1

    def is_used(self, option: str, subject: str) -> bool:
        """Whether an option is used for a stage or dependency."""
        return is_used(self.options, option, subject)

    def has_one_poster(self, array: SemaphoreArray) -> bool:
        """Whether posts to an array are plain stores."""
        return self.is_used(PLAIN_STORE, " -> ".join(array.edges[0]))

    def member(self, edge: Edge, stage: str) -> str:
        """The data member of a stage that holds a dependency, where sizes are known at run time only."""
        producer, consumer = map(self.names.stage, edge)
        return f"to_{consumer}" if edge[0] == stage else f"from_{producer}"

    def reach(self, edge: Edge, stage: str) -> str:
        """What stands before a member of a dependency's struct, as a stage reaches it."""
        return self.sizes.reach(self.names.edge(edge), self.member(edge, stage))
