"""NumPy's functions that have the names of Python's own, which nothing below them may lose."""

import builtins
from typing import Any

from ._array import asarray
from ._calculating import of_one

__all__ = ["abs", "all", "any", "isscalar", "max", "mean", "min", "prod", "round", "size", "sum"]

abs = of_one(builtins.abs)


def round(values: Any, digits: int = 0) -> Any:
    """Rounded to so many digits."""
    return of_one(lambda value: builtins.round(value, digits))(values)


def mean(values: Any, axis: int | None = None) -> Any:
    """The mean, along an axis."""
    return asarray(values).mean(axis)


def sum(values: Any, axis: int | None = None) -> Any:
    """The sum, along an axis."""
    return asarray(values).sum(axis)


def max(values: Any, axis: int | None = None) -> Any:
    """The greatest, along an axis."""
    return asarray(values).max(axis)


def min(values: Any, axis: int | None = None) -> Any:
    """The least, along an axis."""
    return asarray(values).min(axis)


def all(values: Any) -> bool:
    """Whether every one is true."""
    return bool(asarray(values).all())


def any(values: Any) -> bool:
    """Whether one is true."""
    return bool(asarray(values).any())


def prod(values: Any) -> Any:
    """The product."""
    return asarray(values).prod()


def size(values: Any) -> int:
    """Elements."""
    return asarray(values).size


def isscalar(value: Any) -> bool:
    """Whether a value is a lone number or text."""
    return isinstance(value, int | float | complex | str | bytes)
