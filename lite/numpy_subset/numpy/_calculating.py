"""Functions of each element, of two operands, and along the elements."""

import math
import operator
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate, pairwise, repeat
from typing import Any

from ._arithmetic import elementwise
from ._array import array, asarray, ndarray
from ._types import BOOL, FLOAT, INT, dtype

__all__ = [
    "add",
    "ceil",
    "clip",
    "cumsum",
    "divide",
    "exp",
    "floor",
    "interp",
    "isfinite",
    "isnan",
    "log",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "median",
    "minimum",
    "percentile",
    "rint",
    "sqrt",
    "ufunc",
]


class ufunc:
    """A function of two operands that also runs along an axis and gathers at places."""

    def __init__(self, word: Callable[..., Any], kind: dtype | None = None) -> None:
        self._word, self._kind = word, kind

    def __call__(self, first: Any, second: Any) -> Any:
        found = elementwise(self._word, first, second, self._kind)
        return found if found.shape else found.item()

    def at(self, values: ndarray, places: Any, more: Any) -> None:
        """Gathers into the array at each place, one after the other."""
        where = asarray(places).flat
        what = asarray(more)
        flat = values.flat
        for place, one in zip(where, repeat(what.flat[0]) if what.size == 1 else what.flat, strict=False):
            flat[place] = self._word(flat[place], one)

    def accumulate(self, values: Any, axis: int = 0) -> ndarray:
        """Along an axis, what has been gathered so far."""
        one = asarray(values)
        kind = INT if one.dtype is BOOL else one.dtype
        if one.ndim == 1:
            return ndarray(list(accumulate(one.flat, self._word)), one.shape, kind)
        if axis % one.ndim:
            return self.accumulate(one.T).T
        rows = accumulate(list(one), self)
        return array(list(rows), kind)

    def reduce(self, values: Any) -> Any:
        """The first axis gathered into one."""
        found = None
        for one in values:
            found = one if found is None else self(found, one)
        return found


def _and(one: Any, other: Any) -> bool:
    return bool(one and other)


def _or(one: Any, other: Any) -> bool:
    return bool(one or other)


add, maximum, minimum, divide = ufunc(operator.add), ufunc(max), ufunc(min), ufunc(operator.truediv, FLOAT)
logical_and, logical_or = ufunc(_and, BOOL), ufunc(_or, BOOL)


def of_one(word: Callable[[Any], Any], kind: dtype | None = None) -> Callable[[Any], Any]:
    """The function of each element, and of a lone number."""

    def found(values: Any) -> Any:
        if not isinstance(values, ndarray | list | tuple):
            return word(values) if kind is None else kind.cast([word(values)])[0]
        one = asarray(values)
        flat = map(word, one.flat)
        return ndarray(list(flat) if kind is None else kind.cast(flat), one.shape, kind or one.dtype)

    return found


floor, ceil, rint = of_one(math.floor, FLOAT), of_one(math.ceil, FLOAT), of_one(round, FLOAT)
log, log2, log10, sqrt, exp = (
    of_one(word, FLOAT) for word in (math.log, math.log2, math.log10, math.sqrt, math.exp)
)
isnan, isfinite = of_one(math.isnan, BOOL), of_one(math.isfinite, BOOL)
logical_not = of_one(operator.not_, BOOL)


def clip(values: Any, low: Any, high: Any) -> Any:
    """Not below one bound, not above the other; None is no bound."""
    found = values if low is None else maximum(values, low)
    return found if high is None else minimum(found, high)


def cumsum(values: Any, axis: int | None = None) -> ndarray:
    """Running sums."""
    return asarray(values).cumsum(axis)


def interp(wanted: Any, places: Any, values: Any) -> Any:
    """Values between known places on straight lines, and the ends' beyond."""
    x, y, one = asarray(places).flat, asarray(values).flat, asarray(wanted)
    steps = zip(pairwise(x), pairwise(y), strict=True)
    slopes = [(high - low) / (after - at) if after > at else 0.0 for (at, after), (low, high) in steps]
    last = len(slopes)
    before = [bisect_right(x, at) - 1 for at in one.flat]
    found = [
        y[k] + slopes[k] * (at - x[k]) if 0 <= k < last else y[max(0, k)]
        for k, at in zip(before, one.flat, strict=True)
    ]
    flat = FLOAT.cast(found)
    return ndarray(flat, one.shape, FLOAT) if one.shape else flat[0]


def percentile(values: Any, wanted: Any) -> Any:
    """Between the two nearest ranks on a straight line."""
    flat = sorted(asarray(values).flat)

    def at(share: float) -> float:
        rank = share / 100 * (len(flat) - 1)
        low = min(math.floor(rank), len(flat) - 1)
        return float(flat[low] + (flat[min(low + 1, len(flat) - 1)] - flat[low]) * (rank - low))

    return of_one(at, FLOAT)(wanted)


def median(values: Any) -> float:
    """The middle."""
    return float(percentile(values, 50))
