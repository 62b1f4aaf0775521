"""Fields of a Kineto trace: numbers of a sensible size, else None or `NO_ID`, and products of operands.

Example: `aten::addmm` with operands [1024], [8944, 1024], [1024, 1024] is m = 8944, n = 1024, k = 1024.
"""

from decimal import Decimal
from math import prod
from typing import Any

from wavesim.profile.profile_builder import MAX_NS

MAX_SIZE = 1 << 31
NANOSECONDS = 1_000
NO_ID = -1


def nanoseconds(value: Any) -> int | None:
    """Microseconds of the trace as nanoseconds; None unless a number of a sensible size."""
    most = MAX_NS // NANOSECONDS
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not -most < value < most:
        return None
    return round(value * NANOSECONDS)


def quotient_or_none(total: int, value: Any, most: int) -> int | None:
    """A total over a number of the trace, rounded; None unless that is from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 < value <= total:
        return None
    return None if value * most < total else round(total / Decimal(value))


def size_or_none(value: Any, least: int) -> int | None:
    """An integer of at least that, else None."""
    is_good = isinstance(value, int) and not isinstance(value, bool) and least <= value < MAX_SIZE
    return value if is_good else None


def sizes_or_none(value: Any) -> tuple[int, int, int] | None:
    """A grid or block of three positive numbers, else None: AMD writes zeros, or nothing."""
    if not isinstance(value, list) or len(value) != 3:
        return None
    sizes = [size_or_none(item, 1) for item in value]
    return None if None in sizes else (value[0], value[1], value[2])


def identifier(value: Any) -> int:
    """A correlation or external id, or `NO_ID`."""
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else NO_ID


PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::matmul"}
WITH_BIAS_FIRST = {"aten::addmm", "aten::baddbmm"}
MAX_EXTENT = 1 << 40


def is_matmul(name: str) -> bool:
    """Whether an operator of that name is a matrix product."""
    return name in PRODUCTS


def gemm_of(name: str, dims: Any) -> tuple[int, int, int] | None:
    """(m, n, k) with any batch counted into m; None for shapes that are missing or do not fit."""
    operands = dims[1:] if isinstance(dims, list) and name in WITH_BIAS_FIRST else dims
    if not isinstance(operands, list) or len(operands) < 2:
        return None
    left, right = operands[:2]
    for shape in (left, right):
        if not isinstance(shape, list) or not 2 <= len(shape) <= 6:
            return None
        if not all(isinstance(extent, int) and 0 < extent < MAX_EXTENT for extent in shape):
            return None
    if name == "aten::linear":
        right = [right[1], right[0]]
    if left[-1] != right[-2]:
        return None
    return prod(left[:-1]), right[-1], left[-1]
