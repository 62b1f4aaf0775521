"""The matrix product behind a kernel, from the operand shapes that PyTorch's profiler records.

Example: `aten::addmm` with operands [1024], [8944, 1024], [1024, 1024] is m = 8944, n = 1024, k = 1024.
"""

from math import prod
from typing import Any

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
