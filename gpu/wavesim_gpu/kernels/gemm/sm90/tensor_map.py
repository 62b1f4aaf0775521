"""Tensor maps: how TMA is told of a matrix and of the boxes it will move.

Example: A (m, k) in boxes of 128 x 64 becomes 128 opaque bytes that travel to the kernel as a parameter; the
kernel then names a box by its corner alone, and what lies outside the matrix reads as zeros.
"""

from typing import Any

import numpy as np

from wavesim.errors import CompileError, DeviceError
from wavesim_gpu.driver.compiler import INSTALL
from wavesim_gpu.kernels.convolution.im2col import Im2colMap

ELEMENT_BYTES = 2
PANEL = 64  # columns of one swizzled piece of shared memory, 128 bytes
NO_MAP = np.zeros(1, "V128")[0]


def encode(address: int, size: tuple[int, int], box: tuple[int, int], dtype: str, stride: int = 0) -> Any:
    """A row-major fp16 or bf16 matrix, (rows, columns), in boxes of (rows, columns), as a 128-byte `np.void`.

    Boxes are 64 columns wide and swizzled by 128 bytes. `stride` is from row to row in elements, 0 if dense.
    Raises `DeviceError` with the driver's word.
    """
    (rows, columns), (box_rows, box_columns) = size, box
    return _encode(address, (columns, rows), (stride or columns,), (box_columns, box_rows), dtype)


def encode_tiles(
    address: int, size: tuple[int, int], tile_columns: int, box_rows: int, dtype: str, stride: int = 0
) -> Any:
    """The same matrix as (rows, tiles, tile_columns), in boxes of (box_rows, 1, 64) that end with their tile.

    Only of whole tiles; all zeros where there is none.
    """
    rows, columns = size
    if columns < tile_columns:
        return NO_MAP
    sizes = (tile_columns, columns // tile_columns, rows)
    return _encode(address, sizes, (tile_columns, stride or columns), (PANEL, 1, box_rows), dtype)


def encode_panels(
    address: int, size: tuple[int, int], tile_columns: int, box_rows: int, dtype: str, stride: int = 0
) -> Any:
    """The same matrix as (tiles, panels, rows, 64), in boxes of (1, panels, box_rows, 64): all of a tile.

    Only of the first `tiles_in_panels` tiles; all zeros where there is none.
    """
    rows, columns = size
    tiles = tiles_in_panels(columns, tile_columns)
    if not tiles:
        return NO_MAP
    panels = -(-tile_columns // PANEL)
    return _encode(
        address,
        (PANEL, rows, panels, tiles),
        (stride or columns, PANEL, tile_columns),
        (PANEL, box_rows, panels, 1),
        dtype,
    )


def encode_heads(
    address: int, size: tuple[int, int, int], box: tuple[int, int], dtype: str, strides: tuple[int, int]
) -> Any:
    """Sequences of rows, (sequences, rows, columns), as (sequences, panels, rows, 64).

    Boxes are (1, columns / 64, rows, 64) for a `box` of (rows, columns). `strides` are from sequence to
    sequence and from row to row, in elements. Rows past a sequence's end lie outside.
    """
    (sequences, rows, columns), (box_rows, box_columns) = size, box
    return _encode(
        address,
        (PANEL, rows, columns // PANEL, sequences),
        (strides[1], PANEL, strides[0]),
        (PANEL, box_rows, box_columns // PANEL, 1),
        dtype,
    )


def encode_sequences(
    address: int,
    size: tuple[int, int, int],
    strides: tuple[int, int],
    box_rows: int,
    dtype: str,
    *,
    outside_is_nan: bool = False,
) -> Any:
    """Matrices of (sequences, rows, columns) in boxes of (1, box_rows, 64), which end with their sequence.

    `strides` are from sequence to sequence and from row to row, in elements.
    """
    sequences, rows, columns = size
    sizes, box = (columns, rows, sequences), (PANEL, box_rows, 1)
    return _encode(address, sizes, strides[::-1], box, dtype, outside_is_nan=outside_is_nan)


def encode_weights(
    address: int, size: tuple[int, int, int], box_filters: int, dtype: str, stride: int
) -> Any:
    """Filters of (filters, taps, channels), in boxes of (box_filters, 1, 64): of one tap each.

    `stride` is from filter to filter, in elements. Channels past a tap's last are zeros.
    """
    filters, taps, channels = size
    return _encode(address, (channels, taps, filters), (channels, stride), (PANEL, 1, box_filters), dtype)


def encode_pixels(address: int, images: Im2colMap, dtype: str, stride: int) -> Any:
    """Images (images, height, width, channels), from which TMA gathers pixels of 64 channels each.

    `stride` is from pixel to pixel, in elements. Pixels in the padding and channels past the last are zeros.
    Where a pixel reaches over its neighbours, they overlap in memory: one begins at every column that has
    room behind it.
    """
    columns = images.width - (images.reach - 1)
    sizes = (images.channels * images.reach, columns, images.height, images.images)
    strides = (stride, images.width * stride, images.height * images.width * stride)
    return _encode_im2col(address, sizes, strides, images, dtype)


def tiles_in_panels(columns: int, tile_columns: int) -> int:
    """How many tiles of a row lie inside the matrix when each is filled up to whole panels of 64 columns."""
    filled = -(-tile_columns // PANEL) * PANEL
    return max(0, (columns - filled) // tile_columns + 1)


def _encode(
    address: int,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    dtype: str,
    *,
    outside_is_nan: bool = False,
) -> Any:
    """Innermost first; `strides` in elements, of all dimensions but the innermost."""
    driver = _driver()
    result = driver.cuTensorMapEncodeTiled(
        *_memory(driver, address, sizes, strides, dtype),
        [driver.cuuint32_t(size) for size in box],
        [driver.cuuint32_t(1) for _ in sizes],
        *_layout(driver, outside_is_nan=outside_is_nan),
    )
    return _opaque(result, sizes, " x ".join(map(str, reversed(box))))


def _encode_im2col(
    address: int, sizes: tuple[int, ...], strides: tuple[int, ...], images: Im2colMap, dtype: str
) -> Any:
    """Innermost first, as `_encode`.

    Older drivers set a word wrong for images below 128 KiB; a Hopper does not read it.
    """
    driver = _driver()
    encoded = driver.cuTensorMapEncodeIm2col(
        *_memory(driver, address, sizes, strides, dtype),
        list(images.lower),
        [images.upper[0] + images.reach - 1, images.upper[1]],
        PANEL,
        images.pixels,
        [driver.cuuint32_t(step) for step in (1, images.stride, images.stride, 1)],
        *_layout(driver),
    )
    return _opaque(encoded, sizes, f"{images.pixels} pixels")


def _driver() -> Any:
    try:
        from cuda.bindings import driver  # noqa: PLC0415  # an optional package, named in the error
    except ImportError as error:
        raise CompileError(f"cuda-bindings is not installed ({error}); {INSTALL}") from error
    return driver


def _memory(
    driver: Any, address: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: str
) -> tuple[Any, ...]:
    """Element type, rank, address, sizes and strides in bytes."""
    kinds = driver.CUtensorMapDataType
    kind = (
        kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16 if dtype == "fp16" else kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
    )
    return (
        kind,
        len(sizes),
        address,
        [driver.cuuint64_t(size) for size in sizes],
        [driver.cuuint64_t(stride * ELEMENT_BYTES) for stride in strides],
    )


def _layout(driver: Any, *, outside_is_nan: bool = False) -> tuple[Any, ...]:
    """In shared memory, and zeros, or NaN, for what lies outside."""
    fills = driver.CUtensorMapFloatOOBfill
    nan = fills.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    return (
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        nan if outside_is_nan else fills.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )


def _opaque(result: tuple[Any, Any], sizes: tuple[int, ...], boxes: str) -> Any:
    """The 128 bytes. Raises `DeviceError` with the driver's word."""
    status, tensor_map = result
    if int(status) != 0:
        raise DeviceError(
            f"no tensor map for {' x '.join(map(str, reversed(sizes)))} in boxes of {boxes}: {status.name}"
        )
    return np.array([int(word) for word in tensor_map.opaque], np.uint64).view("V128")[0]
