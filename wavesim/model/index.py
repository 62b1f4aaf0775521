"""Index expressions: affine functions of the consumer's tile coordinates x and y, written as in Python.

Example: `x + 12`, `2 * x + 1`, `3 - y`, `x // 2`, `x - x // 4 * 4`, and `.at_least(0)`, `.at_most(n)`
where a tile at the border has fewer neighbours. Nothing else: a product of coordinates is not
affine, and the generator could not turn it into a formula.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, Union

from wavesim.errors import DescriptionError
from wavesim.model.reprs import repr_text
from wavesim.safe_io.bounds import MOST_TERMS, shown

Operand = Union["Index", int]
LARGEST = 2**31 - 1  # as of a grid
OPERATIONS: dict[str, Callable[..., int]] = {
    "+": operator.add,
    "*": operator.mul,
    "//": operator.floordiv,
    "min": min,
    "max": max,
}


@dataclass(frozen=True)
class Index:
    """An expression over the consumer's x and y: sums, products with and floor division by integers.

    Raises `DescriptionError` for one of more than `MOST_TERMS` terms, or integers beyond 32 bits.
    """

    operator: str
    operands: tuple[Union["Index", int, str], ...]
    terms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        terms = sum(
            part.terms if isinstance(part, Index) else self.operator != "dim" for part in self.operands
        )
        if terms > MOST_TERMS:
            raise DescriptionError(
                f"a tile index has more than {MOST_TERMS} terms; write a shorter expression"
            )
        for part in self.operands:
            if isinstance(part, int) and abs(part) > LARGEST:
                raise DescriptionError(
                    f"tile index has {shown(part)}; integers in it are from {-LARGEST:,} to {LARGEST:,}"
                )
        object.__setattr__(self, "terms", max(1, terms))

    def __add__(self, other: Operand) -> "Index":
        return Index("+", (self, as_index(other)))

    def __radd__(self, other: int) -> "Index":
        return as_index(other) + self

    def __sub__(self, other: Operand) -> "Index":
        return self + (other * -1 if isinstance(other, Index) else -as_index(other).evaluate(0, 0))

    def __rsub__(self, other: int) -> "Index":
        return as_index(other) - self

    def __neg__(self) -> "Index":
        return self * -1

    def __mul__(self, factor: int) -> "Index":
        if not _is_integer(factor):
            raise DescriptionError(f"({self}) * ({factor}) is not affine; multiply by an integer")
        return Index("*", (self, factor))

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> "Index":
        if not _is_integer(divisor) or divisor < 1:
            raise DescriptionError(f"({self}) // ({divisor}): the divisor must be an integer of at least 1")
        return Index("//", (self, divisor))

    def _refuse(self, symbol: str, fix: str) -> NoReturn:
        raise DescriptionError(
            f"{self}: {symbol} is not affine; a tile index is made of +, -, * and // with integers. {fix}"
        )

    def __mod__(self, divisor: object) -> "Index":
        self._refuse("%", f"{self} % n is {self} - {self} // n * n")

    def __truediv__(self, divisor: object) -> "Index":
        self._refuse("/", "Use //")

    def __pow__(self, exponent: object) -> "Index":
        self._refuse("**", "Multiply by an integer")

    def __rfloordiv__(self, dividend: object) -> "Index":
        self._refuse("division by a coordinate", "Divide by an integer")

    __rtruediv__ = __rmod__ = __rfloordiv__

    def __bool__(self) -> bool:
        # `x and y` or `if x` would drop a coordinate without a word.
        raise DescriptionError(f"{self}: a coordinate is no condition; use .at_least and .at_most")

    def at_most(self, bound: Operand) -> "Index":
        """The expression, or the bound if that is smaller: for edge tiles."""
        return Index("min", (self, bound))

    def at_least(self, bound: Operand) -> "Index":
        """The expression, or the bound if that is larger: for edge tiles."""
        return Index("max", (self, bound))

    def evaluate(self, x: int, y: int) -> int:
        """The value for one consumer tile."""
        if self.operator == "dim":
            return x if self.operands[0] == "x" else y
        if self.operator == "const":
            return int(self.operands[0])  # type: ignore[arg-type]  # an integer
        # Once per tile and term, so without anything that takes time.
        left, right = self.operands
        if isinstance(left, Index):
            left = left.evaluate(x, y)
        if isinstance(right, Index):
            right = right.evaluate(x, y)
        return OPERATIONS[self.operator](left, right)

    def uses(self, name: str) -> bool:
        """Whether the value depends on dimension `name`."""
        return any(part.uses(name) if isinstance(part, Index) else part == name for part in self.operands)

    def substituted(self, values: dict[str, "Index"]) -> "Index":
        """The expression with other expressions in place of its dimensions."""
        if self.operator == "dim":
            return values.get(str(self.operands[0]), self)
        parts = [part.substituted(values) if isinstance(part, Index) else part for part in self.operands]
        return Index(self.operator, tuple(parts))

    def __repr__(self) -> str:
        return repr_text("Index", str(self))

    def __str__(self) -> str:
        if self.operator in ("dim", "const"):
            return str(self.operands[0])
        if self.operator in ("min", "max"):
            return f"{self.operator}({self.operands[0]}, {self.operands[1]})"
        left, right = self.operands
        if self.operator == "+" and isinstance(right, Index):
            match right.operator, right.operands:
                case "const", [int(value)] if value < 0:
                    return f"({left} - {-value})"
                case "*", [negated, -1]:
                    return f"({left} - {negated})"
        return f"({left} {self.operator} {right})"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def as_index(value: Operand) -> Index:
    """An integer or expression as an expression."""
    if isinstance(value, Index):
        return value
    if _is_integer(value):
        return Index("const", (value,))
    raise DescriptionError(f"tile index is {value!r}; use x, y, integers, or slices of them")


x = Index("dim", ("x",))
y = Index("dim", ("y",))
