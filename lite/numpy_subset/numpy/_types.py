"""Element types: what an array holds, how wide it is when written out, and which of two a result has.

Example: `dtype("int16")` and `dtype(int16)` are one object; an array of it is written as two bytes an
element. Elements themselves are Python's own numbers, so that sums of integers are exact and never overflow.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "bool_",
    "dtype",
    "float32",
    "float64",
    "floating",
    "generic",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "integer",
    "issubdtype",
    "number",
    "object_",
    "str_",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


class generic:
    """Base of the scalar types."""

    __slots__ = ()


class number(generic):
    """Integers and floats."""

    __slots__ = ()


class integer(number):
    """Integers of any width."""

    __slots__ = ()


class floating(number):
    """Floats of any width."""

    __slots__ = ()


def _scalar(name: str, python: type, base: type) -> type:
    """A type whose values are Python's own numbers, so that `isinstance(int64(3), int)` holds."""
    return type(name, (python, base), {"__slots__": (), "item": python})


int8, int16, int32, int64 = (_scalar(f"int{8 * width}", int, integer) for width in (1, 2, 4, 8))
uint8, uint16, uint32, uint64 = (_scalar(f"uint{8 * width}", int, integer) for width in (1, 2, 4, 8))
float32, float64 = (_scalar(f"float{8 * width}", float, floating) for width in (4, 8))


class bool_(generic):
    """Truth values, which are Python's."""

    def __new__(cls, value: Any = False) -> bool:  # type: ignore[misc]  # bool cannot be subclassed
        return bool(value)


class str_(str, generic):
    """Texts."""

    __slots__ = ()


class object_(generic):
    """Anything."""


def _round_to_single(values: Iterable[Any]) -> list[float]:
    return array("f", values).tolist()


def _listed(convert: Callable[[Any], Any]) -> Callable[[Iterable[Any]], list[Any]]:
    return lambda values: list(map(convert, values))


class dtype:
    """One of the known element types; `dtype(x)` finds it by name, by scalar type or by Python type."""

    __slots__ = ("cast", "code", "itemsize", "kind", "name", "rank", "type")
    name: str
    kind: str
    code: str
    itemsize: int
    rank: int
    type: type
    cast: Callable[[Iterable[Any]], list[Any]]

    def __new__(cls, what: Any = None) -> "dtype":  # noqa: PYI034  # the one that is known
        if isinstance(what, dtype):
            return what
        if isinstance(what, list):
            return RECORD
        try:
            return _FOUND[what.lstrip("<>|=") if isinstance(what, str) else what]
        except (KeyError, TypeError):
            raise TypeError(f"element type {what!r} is not in this page's part of NumPy") from None

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __eq__(self, other: object) -> bool:
        try:
            return dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)  # a copy is the one that is known

    def __repr__(self) -> str:
        return f"dtype('{self.name}')"

    def __str__(self) -> str:
        return self.name

    def newbyteorder(self, order: str) -> "dtype":
        """Itself: only little-endian machines run a browser."""
        if order not in "<=":
            raise TypeError("this page's part of NumPy is little-endian")
        return self


_FOUND: dict[Any, dtype] = {}


def _known(rank: int, scalar: type, kind: str, code: str, short: str, *more: Any) -> dtype:
    found = object.__new__(dtype)
    found.name, found.kind, found.code, found.rank, found.type = scalar.__name__, kind, code, rank, scalar
    found.name = found.name.rstrip("_")
    found.itemsize = array(code).itemsize if code else 8
    casts = {"b": bool, "i": int, "u": int, "f": float, "U": str}
    found.cast = _listed(casts[kind]) if kind in casts else list
    for key in (scalar, found.name, short, *more):
        _FOUND[key] = found
    return found


BOOL = _known(0, bool_, "b", "B", "b1", bool, "?")
SIGNED = [
    _known(rank, scalar, "i", code, f"i{1 << rank >> 1}", *more)
    for rank, (scalar, code, more) in enumerate(
        ((int8, "b", ()), (int16, "h", ()), (int32, "i", ()), (int64, "q", (int,))), start=1
    )
]
UNSIGNED = [
    _known(rank, scalar, "u", code, f"u{1 << rank >> 1}")
    for rank, (scalar, code) in enumerate(
        ((uint8, "B"), (uint16, "H"), (uint32, "I"), (uint64, "Q")), start=1
    )
]
INT = SIGNED[-1]
SINGLE, FLOAT = _known(5, float32, "f", "f", "f4"), _known(6, float64, "f", "d", "f8", float, None)
SINGLE.cast = _round_to_single
TEXT, OBJECT = _known(7, str_, "U", "", "U", str), _known(8, object_, "O", "", "O", object)


def _no_records(_: Iterable[Any]) -> list[Any]:
    raise TypeError("this page's part of NumPy can name a record's type, but holds no array of records")


RECORD = _known(9, type("void", (generic,), {}), "V", "", "V")
RECORD.cast = _no_records


def common(first: dtype, second: dtype) -> dtype:
    """The type that holds both: the wider, and a float where either is one."""
    if first is second:
        return first
    if {first.kind, second.kind} == {"i", "u"}:
        return INT
    if SINGLE in (first, second) and min(first.rank, second.rank) > 2 and "f" in (first.kind, second.kind):
        return max(first, second, FLOAT, key=lambda kind: kind.rank)
    return max(first, second, key=lambda kind: kind.rank)


def type_of(values: Iterable[Any]) -> dtype:
    """The narrowest of truth value, integer, float, text and object that holds every value."""
    kinds = set(map(type, values))
    if kinds <= {bool}:
        return BOOL if kinds else FLOAT
    if all(issubclass(kind, int) for kind in kinds):
        return INT
    if all(issubclass(kind, int | float) for kind in kinds):
        return FLOAT
    return TEXT if all(issubclass(kind, str) for kind in kinds) else OBJECT


def issubdtype(first: Any, second: Any) -> bool:
    """Whether an element type is of a scalar type, such as `integer`."""
    return issubclass(dtype(first).type, second)


class iinfo:
    """Least and greatest value of an integer type."""

    def __init__(self, kind: Any) -> None:
        found = dtype(kind)
        bits = 8 * found.itemsize
        self.min, self.max = (
            (-1 << bits - 1, (1 << bits - 1) - 1) if found.kind == "i" else (0, (1 << bits) - 1)
        )
