"""Making arrays, and putting them together."""

import math
from array import array as buffer
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain, pairwise
from itertools import repeat as repeated
from typing import Any

from ._array import array, asarray, ndarray, stretched
from ._shapes import strides_of
from ._types import BOOL, FLOAT, INT, OBJECT, common, type_of
from ._types import dtype as _dtype

__all__ = [
    "append",
    "arange",
    "ascontiguousarray",
    "broadcast_to",
    "column_stack",
    "concatenate",
    "copyto",
    "delete",
    "diff",
    "empty",
    "empty_like",
    "flip",
    "frombuffer",
    "full",
    "hstack",
    "indices",
    "linspace",
    "ones",
    "ones_like",
    "repeat",
    "stack",
    "tile",
    "zeros",
    "zeros_like",
]

ascontiguousarray = asarray


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape)) if isinstance(shape, tuple | list) else (int(shape),)


def full(shape: Any, value: Any, dtype: Any = None) -> ndarray:
    """One value everywhere, or a row of them in every row."""
    one = array(value, dtype)
    return stretched(one, _shape(shape)).copy()


def zeros(shape: Any, dtype: Any = FLOAT) -> ndarray:
    """Zeros."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = FLOAT) -> ndarray:
    """Ones."""
    return full(shape, 1, dtype)


def empty(shape: Any, dtype: Any = FLOAT) -> ndarray:
    """Zeros too, as nothing is gained by less."""
    return full(shape, None if _dtype(dtype) is OBJECT else 0, dtype)


def zeros_like(values: Any) -> ndarray:
    """Zeros of the same shape and type."""
    one = asarray(values)
    return zeros(one.shape, one.dtype)


def ones_like(values: Any) -> ndarray:
    """Ones of the same shape and type."""
    one = asarray(values)
    return ones(one.shape, one.dtype)


def empty_like(values: Any) -> ndarray:
    """Zeros of the same shape and type."""
    return zeros_like(values)


def arange(first: Any, until: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    """Numbers at even distances, without the last."""
    low, high = (0, first) if until is None else (first, until)
    count = max(0, math.ceil((high - low) / step))
    return array([low + index * step for index in range(count)], dtype or type_of([low, high, step]))


def linspace(first: float, last: float, count: int = 50) -> ndarray:
    """`count` numbers at even distances, with the last."""
    step = (last - first) / max(1, count - 1)
    found = [float(first + index * step) for index in range(count)]
    return ndarray([*found[:-1], float(last)] if count > 1 else found, (count,), FLOAT)


def indices(shape: Sequence[int], dtype: Any = int) -> ndarray:
    """For each axis an array of the shape with each element's index on it."""
    steps = strides_of(tuple(shape))
    size = math.prod(shape)
    flat = [at // step % count for count, step in zip(shape, steps, strict=True) for at in range(size)]
    return array(ndarray(flat, (len(shape), *shape), INT), dtype)


def frombuffer(data: bytes, dtype: Any = FLOAT) -> ndarray:
    """The numbers in bytes."""
    kind = _dtype(dtype)
    found = buffer(kind.code)
    found.frombytes(data)
    return ndarray(kind.cast(found.tolist()), (len(found),), kind)


def copyto(values: ndarray, more: Any, where: Any = True) -> None:
    """Overwrites, where a mask says so."""
    values[asarray(where) if isinstance(where, ndarray) else ...] = (
        asarray(more)[where] if isinstance(where, ndarray) else more
    )


def broadcast_to(values: Any, shape: Any) -> ndarray:
    """Stretched to a shape."""
    return stretched(asarray(values), _shape(shape))


def concatenate(parts: Iterable[Any], axis: int = 0) -> ndarray:
    """Parts behind each other along an axis."""
    found = [asarray(part) for part in parts]
    if not found:
        raise ValueError("need at least one array to concatenate")
    kind = reduce(common, (one.dtype for one in found))
    if axis % max(1, found[0].ndim) == 0:
        flat: list[Any] = []
        for one in found:  # which copies whole lists, and not each element
            flat += one.flat
        flat = flat if all(one.dtype is kind for one in found) else kind.cast(flat)
        return ndarray(flat, (sum(map(len, found)), *found[0].shape[1:]), kind)
    rows = [concatenate(row).flat for row in zip(*found, strict=True)]
    return array(rows, kind)


def stack(parts: Iterable[Any], axis: int = 0) -> ndarray:
    """Parts beside each other along a new axis, the first or the last."""
    found = [asarray(part) for part in parts]
    joined = array(found, reduce(common, (one.dtype for one in found)))
    if axis == 0:
        return joined
    if joined.ndim != 2:
        raise TypeError("this page's part of NumPy stacks vectors only")
    return joined.T


def column_stack(parts: Iterable[Any]) -> ndarray:
    """Vectors as the columns of a matrix."""
    return stack(parts, axis=1)


def hstack(parts: Iterable[Any]) -> ndarray:
    """Parts beside each other."""
    found = [asarray(part) for part in parts]
    return concatenate(found, axis=0 if found[0].ndim == 1 else 1)


def append(values: Any, more: Any) -> ndarray:
    """One axis, with more behind."""
    return concatenate([asarray(values).ravel(), asarray(more).ravel()])


def delete(values: Any, where: int) -> ndarray:
    """A vector without one element."""
    one = asarray(values)
    where %= one.size
    return ndarray(one.flat[:where] + one.flat[where + 1 :], (one.size - 1,), one.dtype)


def repeat(values: Any, counts: Any, axis: int | None = None) -> ndarray:
    """Each element, or each row, so many times."""
    one, times = asarray(values), asarray(counts)
    rows = range(len(one)) if one.shape else [0]
    each = times.flat * len(rows) if times.size == 1 and len(rows) != 1 else times.flat
    places = list(chain.from_iterable(map(repeated, rows, each)))
    if not one.shape:
        return ndarray(one.flat * len(places), (len(places),), one.dtype)
    if one.ndim > 1 and axis != 0:
        raise TypeError("this page's part of NumPy repeats whole rows, axis=0")
    return one[ndarray(places, (len(places),), INT)]


def tile(values: Any, counts: Sequence[int]) -> ndarray:
    """A matrix repeated downwards and sideways."""
    one, (down, across) = asarray(values), counts
    rows = [list(row) * across for row in one]
    return array(rows * down, one.dtype)


def flip(values: Any, axis: int | None = None) -> ndarray:
    """The other way round along an axis."""
    one = asarray(values)
    return one[tuple(slice(None, None, -1 if axis in (None, at) else None) for at in range(one.ndim))]


def diff(values: Any, prepend: Any = None, append: Any = None) -> ndarray:
    """From each element to the next."""
    one = asarray(values)
    ends = [asarray([end]) if end is not None else one[:0] for end in (prepend, append)]
    flat = concatenate([ends[0], one, ends[1]]).flat
    found = [after - before for before, after in pairwise(flat)]
    return ndarray(found, (len(found),), one.dtype if one.dtype is not BOOL else INT)
