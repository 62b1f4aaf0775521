"""Arithmetic: a function of two operands, element by element, and Python's operators of arrays."""

import math
import operator
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from ._array import asarray, ndarray, stretched
from ._shapes import broadcast_shape
from ._types import BOOL, FLOAT, common, dtype


def elementwise(word: Callable[..., Any], first: Any, second: Any, kind: dtype | None = None) -> Any:
    """A function of two operands, element by element; its type is `kind`, or the one that holds both."""
    try:
        if type(second) in NUMBERS and type(first) is ndarray:
            found = kind or (first.dtype if type(second) is not float or first.dtype.kind == "f" else FLOAT)
            whole = OF_LISTS.get(word)
            flat = whole[1](first.flat, second) if whole else list(map(word, first.flat, repeat(second)))
            return ndarray(flat, first.shape, found)
        return _of_arrays(word, asarray(first), asarray(second), kind)
    except ZeroDivisionError:
        return elementwise(divided, first, second, kind)


NUMBERS = {int, float}
# Most elements go through these, of two lists or of a list and a number; `map` is slow in WebAssembly.
OF_LISTS: dict[Callable[..., Any], tuple[Callable[..., list[Any]], Callable[..., list[Any]]]] = {
    operator.add: (lambda a, b: [x + y for x, y in zip(a, b, strict=True)], lambda a, y: [x + y for x in a]),
    operator.sub: (lambda a, b: [x - y for x, y in zip(a, b, strict=True)], lambda a, y: [x - y for x in a]),
    operator.mul: (lambda a, b: [x * y for x, y in zip(a, b, strict=True)], lambda a, y: [x * y for x in a]),
    operator.truediv: (
        lambda a, b: [x / y for x, y in zip(a, b, strict=True)],
        lambda a, y: [x / y for x in a],
    ),
    operator.eq: (lambda a, b: [x == y for x, y in zip(a, b, strict=True)], lambda a, y: [x == y for x in a]),
}


def _of_arrays(word: Callable[..., Any], left: ndarray, right: ndarray, kind: dtype | None) -> ndarray:
    values: Iterable[Any]
    if left.shape == right.shape:
        whole = OF_LISTS.get(word)
        shape = left.shape
        values = whole[0](left.flat, right.flat) if whole else map(word, left.flat, right.flat)
    elif not right.shape:
        shape, values = left.shape, map(word, left.flat, repeat(right.flat[0]))
    elif not left.shape:
        shape, values = right.shape, map(word, repeat(left.flat[0]), right.flat)
    else:
        shape = broadcast_shape(left.shape, right.shape)
        values = map(word, stretched(left, shape).flat, stretched(right, shape).flat)
    flat = values if isinstance(values, list) else list(values)
    return ndarray(flat, shape, kind or joint_kind(left, right))


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
