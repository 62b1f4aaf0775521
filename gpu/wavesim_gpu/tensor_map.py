"""Tensor maps: how the copy engine is told of a matrix and of the boxes it will move.

Picture: A (m, k) in boxes of 128 x 64 becomes 128 opaque bytes that travel to the kernel as a parameter; the
kernel then names a box by its corner alone, and what lies outside the matrix reads as zeros.
"""

from typing import Any

import numpy as np

from wavesim.errors import CompileError, DeviceError
from wavesim_gpu.compiler import INSTALL

ELEMENT_BYTES = 2


def encode(address: int, size: tuple[int, int], box: tuple[int, int], dtype: str) -> Any:
    """A row-major fp16 or bf16 matrix, (rows, columns), in boxes of (rows, columns), as a 128-byte `np.void`.

    Boxes are 64 columns wide and swizzled by 128 bytes. Raises `DeviceError` with the driver's word.
    """
    try:
        from cuda.bindings import driver  # noqa: PLC0415  # an optional package, named in the error
    except ImportError as error:
        raise CompileError(f"cuda-bindings is not installed ({error}); {INSTALL}") from error
    kinds = driver.CUtensorMapDataType
    kind = (
        kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16 if dtype == "fp16" else kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    )
    (rows, columns), (box_rows, box_columns) = size, box
    status, tensor_map = driver.cuTensorMapEncodeTiled(
        kind,
        2,
        address,
        [driver.cuuint64_t(columns), driver.cuuint64_t(rows)],
        [driver.cuuint64_t(columns * ELEMENT_BYTES)],
        [driver.cuuint32_t(box_columns), driver.cuuint32_t(box_rows)],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(status) != 0:
        raise DeviceError(
            f"no tensor map for {rows} x {columns} in boxes of {box_rows} x {box_columns}: {status.name}"
        )
    return np.array([int(word) for word in tensor_map.opaque], np.uint64).view("V128")[0]
