"""The array: a list of Python numbers in C order, a shape and an element type.

Example: of 24 tiles in 4 rows, `tiles[:, 0]` is a new array of 4. Every selection is a copy: unlike in NumPy,
nothing that is written into a slice reaches the array it came from, and nothing here relies on that.
"""

import math
import operator
from array import array as buffer
from collections.abc import Callable, Iterator
from itertools import chain, compress, product, repeat
from typing import Any

from ._shapes import Shape, broadcast_shape, strides_of
from ._types import BOOL, INT, OBJECT, TEXT, dtype, type_of


class ndarray:
    """An n-dimensional array. Made by `array` and its kin, not by itself."""

    __slots__ = ("dtype", "flags", "flat", "shape")
    __hash__ = None  # type: ignore[assignment]
    flat: list[Any]
    shape: Shape
    dtype: dtype

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __init__(self, flat: list[Any], shape: Shape, kind: dtype) -> None:
        self.flat, self.shape, self.dtype = flat, shape, kind
        self.flags: dict[str, bool] = {}

    @property
    def size(self) -> int:
        """Elements."""
        return len(self.flat)

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def T(self) -> "ndarray":  # noqa: N802
        """Axes the other way round."""
        steps = zip(self.shape[::-1], strides_of(self.shape)[::-1], strict=True)
        places = map(sum, product(*([index * step for index in range(count)] for count, step in steps)))
        return ndarray([self.flat[place] for place in places], self.shape[::-1], self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes when written out."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.flat) if self.ndim == 1 else (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"array({self.tolist()!r}, dtype={self.dtype})"

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    def __contains__(self, value: Any) -> bool:
        return value in self.flat

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._written())

    def _written(self) -> "buffer[Any]":
        return buffer(self.dtype.code, self.flat)

    def item(self) -> Any:
        """The only element."""
        if len(self.flat) != 1:
            raise ValueError("only an array of one element has one value; use .any() or .all()")
        return self.flat[0]

    def tolist(self) -> Any:
        """Nested lists of Python's numbers."""
        if not self.shape:
            return self.flat[0]
        flat: list[Any] = list(self.flat)
        for count in self.shape[:0:-1]:
            flat = (
                [flat[at : at + count] for at in range(0, len(flat), count)]
                if count
                else [[]] * self.shape[0]
            )
        return flat

    def tobytes(self) -> bytes:
        """The elements as the machine has them, in C order."""
        return self._written().tobytes()

    def astype(self, kind: Any, copy: bool = True) -> "ndarray":
        """The same values as another type; floats lose what follows the point, as in NumPy."""
        found = dtype(kind)
        return ndarray(list(self.flat) if found is self.dtype else found.cast(self.flat), self.shape, found)

    def copy(self) -> "ndarray":
        """An array of its own."""
        return ndarray(list(self.flat), self.shape, self.dtype)

    def reshape(self, *shape: Any) -> "ndarray":
        """The same elements by other axes; one may be -1."""
        wanted = list(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
        if -1 in wanted:
            wanted[wanted.index(-1)] = len(self.flat) // max(1, math.prod(n for n in wanted if n != -1))
        if math.prod(wanted) != len(self.flat):
            raise ValueError(f"cannot reshape array of size {self.size} into shape {tuple(wanted)}")
        return ndarray(self.flat, tuple(wanted), self.dtype)

    def ravel(self) -> "ndarray":
        """One axis."""
        return ndarray(list(self.flat), (len(self.flat),), self.dtype)

    flatten = ravel

    # Selecting.

    def __getitem__(self, key: Any) -> Any:
        if len(self.shape) == 1:
            if isinstance(key, ndarray):
                check_mask(key, self.shape)
                flat = self.flat  # a comprehension: calls of C functions by `map` are slow in WebAssembly
                if key.dtype is not BOOL:
                    return ndarray([flat[place] for place in key.flat], key.shape, self.dtype)
                picked = list(compress(flat, key.flat))
                return ndarray(picked, (len(picked),), self.dtype)
            if isinstance(key, slice):
                picked = self.flat[key]
                return ndarray(picked, (len(picked),), self.dtype)
            if isinstance(key, int):
                return self.flat[key]
        places, shape = places_of(self.shape, key)
        if shape is None:
            return self.flat[places[0]]
        return ndarray([self.flat[place] for place in places], shape, self.dtype)

    def __setitem__(self, key: Any, value: Any) -> None:
        places, shape = places_of(self.shape, key)
        values = array(value, self.dtype)
        flat = (
            repeat(values.flat[0], len(places)) if values.size == 1 else stretched(values, shape or ()).flat
        )
        for place, one in zip(places, flat, strict=False):
            self.flat[place] = one

    # Reducing.

    def _reduced(self, whole: Callable[[list[Any]], Any], axis: int | None, kind: dtype | None = None) -> Any:
        """The function of all elements, or of each line along an axis."""
        if axis is None or self.ndim == 1:
            return whole(self.flat)
        axis %= self.ndim
        step, count = strides_of(self.shape)[axis], self.shape[axis]
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        starts = (outer + inner for outer in range(0, self.size, count * step) for inner in range(step))
        found = [whole(self.flat[start : start + count * step : step]) for start in starts]
        return ndarray(found, shape, kind or type_of(found))

    def sum(self, axis: int | None = None) -> Any:
        """Sum; 0 of no elements."""
        return self._reduced(math.fsum if self.dtype.kind == "f" else sum, axis)

    def mean(self, axis: int | None = None) -> Any:
        """Mean."""
        return self._reduced(lambda line: math.fsum(line) / len(line) if line else math.nan, axis)

    def max(self, axis: int | None = None) -> Any:
        """Greatest element. Raises `ValueError` for none."""
        return self._reduced(max, axis, self.dtype)

    def min(self, axis: int | None = None) -> Any:
        """Least element. Raises `ValueError` for none."""
        return self._reduced(min, axis, self.dtype)

    def nonzero(self) -> tuple["ndarray", ...]:
        """For each axis the indices of what is true."""
        true = [index for index, element in enumerate(self.flat) if element]
        found = ndarray(true, (len(true),), INT)
        steps = zip(self.shape, strides_of(self.shape), strict=True)
        return tuple(found // step % count for count, step in steps)

    def any(self, axis: int | None = None) -> Any:
        """Whether one is true."""
        return self._reduced(any, axis, BOOL)

    def all(self, axis: int | None = None) -> Any:
        """Whether every one is true."""
        return self._reduced(all, axis, BOOL)

    def argmax(self, axis: int | None = None) -> Any:
        """Index of the first greatest element."""
        return self._reduced(lambda line: line.index(max(line)), axis, INT)

    def argmin(self, axis: int | None = None) -> Any:
        """Index of the first least element."""
        return self._reduced(lambda line: line.index(min(line)), axis, INT)

    def prod(self) -> Any:
        """Product."""
        return math.prod(self.flat)

    def cumsum(self, axis: int | None = None) -> "ndarray":
        """Running sums, along an axis."""
        from ._calculating import add  # noqa: PLC0415  # which calculates with arrays

        return add.accumulate(self if axis is not None else self.ravel(), axis or 0)

    def round(self, digits: int = 0) -> "ndarray":
        """Rounded to so many digits, halves to even."""
        return ndarray(self.dtype.cast(round(one, digits) for one in self.flat), self.shape, self.dtype)

    # Calculating; Python's own words for the operators.

    def __neg__(self) -> "ndarray":
        return ndarray(list(map(operator.neg, self.flat)), self.shape, self.dtype)

    def __abs__(self) -> "ndarray":
        return ndarray(list(map(abs, self.flat)), self.shape, self.dtype)

    def __invert__(self) -> "ndarray":
        inverse: Callable[[Any], Any] = operator.not_ if self.dtype is BOOL else operator.invert
        return ndarray(list(map(inverse, self.flat)), self.shape, self.dtype)

    def __matmul__(self, other: "ndarray") -> Any:
        if other.ndim != 1:
            raise TypeError("this page's part of NumPy multiplies matrices with vectors only")
        return self._reduced(lambda line: sum(map(operator.mul, line, other.flat)), -1)


def array(
    value: Any, dtype_: Any = None, *, dtype: Any = None, copy: bool = True, order: str = "C"
) -> ndarray:
    """An array of numbers, nested sequences of them, or another array; a copy."""
    kind = _kind(dtype if dtype is not None else dtype_)
    if isinstance(value, ndarray):
        return value.astype(kind or value.dtype)
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return ndarray((kind or type_of([value])).cast([value]), (), kind or type_of([value]))
    flat, shape = _nested(list(value), is_whole=kind is OBJECT)
    found = kind or type_of(flat)
    if found is OBJECT and {type(one) for one in flat} <= {str, int, float, bool}:
        found = TEXT
    return ndarray(found.cast(flat), shape, found)


def asarray(value: Any, dtype: Any = None) -> ndarray:
    """The array itself where it is of that type, else a new one."""
    if isinstance(value, ndarray) and (dtype is None or value.dtype == dtype):
        return value
    return array(value, dtype=dtype)


def _kind(what: Any) -> dtype | None:
    return None if what is None else dtype(what)


def _nested(values: list[Any], *, is_whole: bool) -> tuple[list[Any], Shape]:
    """Elements and shape of nested sequences. Raises `ValueError` where rows differ in length."""
    is_row = [issubclass(kind, list | tuple | ndarray) for kind in set(map(type, values))]
    if not any(is_row):
        return values, (len(values),)
    if all(is_row):
        rows = [
            (one.flat, one.shape) if isinstance(one, ndarray) else _nested(list(one), is_whole=is_whole)
            for one in values
        ]
        shapes = {shape for _, shape in rows}
        if len(shapes) == 1:
            return list(chain.from_iterable(flat for flat, _ in rows)), (len(values), *shapes.pop())
    if not is_whole:
        raise ValueError("the rows of an array are all of one length")
    return values, (len(values),)


def stretched(values: ndarray, shape: Shape) -> ndarray:
    """The array with axes of length one repeated up to a shape."""
    if values.shape == shape:
        return values
    if values.size == 1:
        return ndarray(values.flat * math.prod(shape), shape, values.dtype)
    own = (1,) * (len(shape) - values.ndim) + values.shape
    if broadcast_shape(own, shape) != shape:
        raise ValueError(f"an array of shape {values.shape} does not stretch to {shape}")
    if own[1:] == shape[1:]:
        return ndarray(values.flat * shape[0], shape, values.dtype)
    if own == (*shape[:-1], 1):
        count = shape[-1]
        return ndarray([one for one in values.flat for _ in range(count)], shape, values.dtype)
    steps = [0 if size == 1 else step for size, step in zip(own, strides_of(own), strict=True)]
    places = map(
        sum, product(*([index * step for index in range(n)] for n, step in zip(shape, steps, strict=True)))
    )
    return ndarray([values.flat[place] for place in places], shape, values.dtype)


# Which selects by arrays.
from ._selection import check_mask, places_of  # noqa: E402
