"""Arithmetic: a function of two operands, element by element, and Python's operators of arrays."""

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ._array import asarray, ndarray, stretched
from ._shapes import Shape, broadcast_shape
from ._types import BOOL, FLOAT, common, dtype


def elementwise(word: Callable[..., Any], first: Any, second: Any, kind: dtype | None = None) -> Any:
    """A function of two operands, element by element; its type is `kind`, or the one that holds both."""
    try:
        if type(second) in NUMBERS and type(first) is ndarray:
            found = kind or (first.dtype if type(second) is not float or first.dtype.kind == "f" else FLOAT)
            return ndarray(loops_of(word).by_number(first.flat, second), first.shape, found)
        return _of_arrays(loops_of(word), asarray(first), asarray(second), kind)
    except ZeroDivisionError:
        return elementwise(divided, first, second, kind)


NUMBERS = {int, float}


class Loops(NamedTuple):
    """One operation over lists: of two, with a number, of each in one with each in a row of the other."""

    of_two: Callable[[list[Any], list[Any]], list[Any]]
    by_number: Callable[[list[Any], Any], list[Any]]
    of_number: Callable[[Any, list[Any]], list[Any]]
    with_rows: Callable[[list[Any], list[list[Any]]], list[Any]]
    of_rows: Callable[[list[list[Any]], list[Any]], list[Any]]


# Comprehensions with the operation written into them; `map` and calls are slow in WebAssembly.
FORMS = (
    "lambda a, b: [{} for x, y in zip(a, b, strict=True)]",
    "lambda a, y: [{} for x in a]",
    "lambda x, b: [{} for y in b]",
    "lambda a, rows: [{} for x, row in zip(a, rows, strict=True) for y in row]",
    "lambda rows, b: [{} for row, y in zip(rows, b, strict=True) for x in row]",
)
SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "eq": "==",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
WRITTEN: dict[Callable[..., Any], str] = {
    **{getattr(operator, name): f"x {sign} y" for name, sign in SIGNS.items()},
    max: "y if y > x else x",
    min: "y if y < x else x",
}


@cache
def _written(word: Callable[..., Any]) -> Loops:
    return Loops(*(eval(form.format(WRITTEN[word])) for form in FORMS))  # noqa: S307  # our own words


def loops_of(word: Callable[..., Any]) -> Loops:
    """The loops of any operation."""
    if word in WRITTEN:
        return _written(word)
    return Loops(
        lambda a, b: list(map(word, a, b)),
        lambda a, y: [word(x, y) for x in a],
        lambda x, b: [word(x, y) for y in b],
        lambda a, rows: [word(x, y) for x, row in zip(a, rows, strict=True) for y in row],
        lambda rows, b: [word(x, y) for row, y in zip(rows, b, strict=True) for x in row],
    )


def _of_arrays(loops: Loops, left: ndarray, right: ndarray, kind: dtype | None) -> ndarray:
    shape = left.shape
    if shape == right.shape:
        flat = loops.of_two(left.flat, right.flat)
    elif not right.shape:
        flat = loops.by_number(left.flat, right.flat[0])
    elif not shape:
        shape, flat = right.shape, loops.of_number(left.flat[0], right.flat)
    else:
        shape = broadcast_shape(shape, right.shape)
        if len(shape) == 2 and left.shape == (shape[0], 1):
            flat = loops.with_rows(left.flat, rows_of(right, shape))
        elif len(shape) == 2 and right.shape == (shape[0], 1):
            flat = loops.of_rows(rows_of(left, shape), right.flat)
        else:
            flat = loops.of_two(stretched(left, shape).flat, stretched(right, shape).flat)
    return ndarray(flat, shape, kind or joint_kind(left, right))


def rows_of(values: ndarray, shape: Shape) -> list[list[Any]]:
    """The rows of a matrix, or one row for all of them."""
    count = shape[1]
    if values.size == count:
        return [values.flat] * shape[0]
    return [values.flat[at : at + count] for at in range(0, values.size, count)]


def joint_kind(left: ndarray, right: ndarray) -> dtype:
    """As NumPy: a lone number takes the array's type, but a float makes floats."""
    if not right.shape and right.dtype.kind in "bi" and left.dtype.kind in "iuf":
        return left.dtype
    if not left.shape and left.dtype.kind in "bi" and right.dtype.kind in "iuf":
        return right.dtype
    if not right.shape and left.dtype.kind == "f" == right.dtype.kind:
        return left.dtype
    return common(left.dtype, right.dtype)


def divided(first: Any, second: Any) -> float:
    """A quotient; infinite or no number where the divisor is zero."""
    try:
        return first / second
    except ZeroDivisionError:
        return math.copysign(math.inf, first) if first else math.nan


def add_operators() -> None:
    """Python's operators of arrays: arithmetic, and comparisons, which give truth values."""
    kinds: dict[str, tuple[Callable[..., Any], dtype | None]] = {
        name: (getattr(operator, name), None) for name in ("add", "sub", "mul", "floordiv", "mod", "pow")
    }
    kinds |= {"truediv": (operator.truediv, FLOAT), "and": (operator.and_, None)}
    kinds |= {name: (getattr(operator, name), BOOL) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    kinds |= {"or": (operator.or_, None), "xor": (operator.xor, None)}
    for name, (word, kind) in kinds.items():

        def forward(self: ndarray, other: Any, word: Any = word, kind: Any = kind) -> Any:
            return elementwise(word, self, other, kind)

        def backward(self: ndarray, other: Any, word: Any = word, kind: Any = kind) -> Any:
            return elementwise(word, other, self, kind)

        setattr(ndarray, f"__{name}__", forward)
        if kind is not BOOL:
            setattr(ndarray, f"__r{name}__", backward)


add_operators()
