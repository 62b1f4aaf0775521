"""Finding places and values.

Example: `searchsorted(edges, times, side="right") - 1` finds each moment's step.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from ._arithmetic import elementwise, joint_kind
from ._array import array, asarray, ndarray, stretched
from ._making import concatenate
from ._shapes import broadcast_shape
from ._types import BOOL, FLOAT, INT

__all__ = [
    "allclose",
    "argpartition",
    "argsort",
    "array_equal",
    "bincount",
    "flatnonzero",
    "isin",
    "lexsort",
    "nonzero",
    "searchsorted",
    "sort",
    "union1d",
    "unique",
    "where",
]


def nonzero(values: Any) -> tuple[ndarray, ...]:
    """For each axis the indices of what is true."""
    return asarray(values).nonzero()


def flatnonzero(values: Any) -> ndarray:
    """Indices of what is true, in one axis."""
    found = [index for index, one in enumerate(asarray(values).flat) if one]
    return ndarray(found, (len(found),), INT)


def where(mask: Any, then: Any = None, otherwise: Any = None) -> Any:
    """Elements of one or the other; with a mask alone, its indices."""
    if then is None and otherwise is None:
        return nonzero(mask)
    chosen, yes, no = asarray(mask), asarray(then), asarray(otherwise)
    shape = broadcast_shape(chosen.shape, yes.shape, no.shape)
    parts = zip(*(stretched(one, shape).flat for one in (chosen, yes, no)), strict=True)
    return ndarray([one if is_so else other for is_so, one, other in parts], shape, joint_kind(yes, no))


def searchsorted(values: Any, wanted: Any, side: str = "left") -> Any:
    """Where each would go so that the order stays."""
    found = asarray(values).flat
    place: Callable[..., int] = bisect_left if side == "left" else bisect_right
    if not isinstance(wanted, ndarray | list | tuple):
        return place(found, wanted)
    one = asarray(wanted)
    return ndarray([place(found, value) for value in one.flat], one.shape, INT)


def argsort(values: Any, kind: str = "stable") -> ndarray:
    """Indices in order of the values; equal ones stay in order."""
    flat = asarray(values).flat
    return ndarray(sorted(range(len(flat)), key=flat.__getitem__), (len(flat),), INT)


def argpartition(values: Any, kth: int, axis: int = -1) -> ndarray:
    """Each row's places, sorted all the way. Of two axes the last."""
    rows = [argsort(row).flat for row in asarray(values)]
    return array(rows)


def lexsort(keys: Sequence[Any]) -> ndarray:
    """Indices in order of the last key, then of the one before."""
    found = list(range(asarray(keys[0]).size))
    for key in keys:  # a sort leaves what is equal in the order of the sorts before
        found.sort(key=asarray(key).flat.__getitem__)
    return ndarray(found, (len(found),), INT)


def sort(values: Any) -> ndarray:
    """In order."""
    one = asarray(values)
    return ndarray(sorted(one.flat), (one.size,), one.dtype)


def unique(
    values: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """Each value once, in order; first places, places of all, numbers of each."""
    one = asarray(values)
    first: dict[Any, int] = {}
    for index, value in enumerate(one.flat):
        first.setdefault(value, index)
    known = sorted(first)
    found: list[ndarray] = [ndarray(known, (len(known),), one.dtype)]
    place = {value: index for index, value in enumerate(known)}
    if return_index:
        found.append(ndarray([first[value] for value in known], (len(known),), INT))
    inverse = [place[value] for value in one.flat]
    if return_inverse:
        found.append(ndarray(inverse, one.shape, INT))
    if return_counts:
        found.append(bincount(ndarray(inverse, (one.size,), INT), minlength=len(known)))
    return found[0] if len(found) == 1 else tuple(found)


def union1d(first: Any, second: Any) -> ndarray:
    """What is in either, in order."""
    found: ndarray = unique(concatenate([asarray(first).ravel(), asarray(second).ravel()]))
    return found


def isin(values: Any, wanted: Any) -> ndarray:
    """Whether each is one of those."""
    one, known = asarray(values), set(asarray(wanted).flat)
    return ndarray([value in known for value in one.flat], one.shape, BOOL)


def bincount(places: Any, weights: Any = None, minlength: int = 0) -> ndarray:
    """How often each index occurs, or the sum of its weights."""
    flat = asarray(places).flat
    found: list[Any] = [0] * max(minlength, max(flat, default=-1) + 1)
    for place, weight in zip(flat, repeat(1) if weights is None else asarray(weights).flat, strict=False):
        found[place] += weight
    return array(found, INT if weights is None else FLOAT)


def array_equal(first: Any, second: Any, equal_nan: bool = False) -> bool:
    """Whether shapes and all elements are the same."""
    one, other = asarray(first), asarray(second)
    pairs = zip(one.flat, other.flat, strict=False)
    same = (a == b or (equal_nan and a != a and b != b) for a, b in pairs)  # noqa: PLR0124  # no number is not itself
    return one.shape == other.shape and all(same)


def allclose(first: Any, second: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether all elements are near each other."""
    near = elementwise(lambda a, b: abs(a - b) <= atol + rtol * abs(b), first, second, BOOL)
    return bool(near.all())
