"""Which pixels, channels and weights a k-block of a convolution reads, in the integers that kernels compute.

Example: of a 3 x 3 convolution of 128 channels in k-blocks of 64, k-block 5 is the second half of the
channels of tap (0, 2). The first output of a tile says where TMA begins, a tap by how much each pixel is
moved. `im2col.cuh` has the same functions for the device.
Source: PTX ISA, im2col mode; CUTLASS, implicit GEMM convolution.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.work.convolution import Conv2D

# im2col.cuh, Im2col.
IM2COL = np.dtype(
    [
        *(
            (name, "<i4")
            for name in (
                "image_outputs",
                "row_outputs",
                "stride",
                "row_padding",
                "column_padding",
                "filter_width",
                "channel_blocks",
            )
        ),
        ("per_tap", "<u4"),
        ("per_row", "<u4"),
    ]
)
MOST_K_BLOCKS = 1 << 16  # that `quotient` divides right
NOWHERE = -1  # a pixel in the padding, or past the last image: zeros


class Pixel(NamedTuple):
    """The pixel that an output's first tap reads, which may lie in the padding."""

    column: int
    row: int
    image: int


class TapBlock(NamedTuple):
    """A k-block: a filter tap by number, row and column, and a block of its channels."""

    number: int
    row: int
    column: int
    channel_block: int


def im2col_record(conv: Conv2D) -> Any:
    """`Im2col` of a convolution, in k-blocks of its `tile_k` channels; a packed row of taps counts as one."""
    window, row_taps = conv.window, 1 if conv.packs_rows else conv.kernel_size
    return np.array(
        (
            window.out_height * window.out_width,
            window.out_width,
            conv.stride,
            window.padding,
            window.left,
            row_taps,
            conv.channel_blocks,
            multiplier(conv.channel_blocks),
            multiplier(row_taps),
        ),
        IM2COL,
    )[()]


def multiplier(divisor: int) -> int:
    """2^32 over a divisor, rounded up, by which `quotient` divides; 0 of 1."""
    return 0 if divisor == 1 else -(-(1 << 32) // divisor)


def quotient(number: int, factor: int) -> int:
    """A number below 2^16 over a divisor below 2^16, by the divisor's multiplier."""
    return number * factor >> 32 if factor else number


def pixel_of(record: Any, output: int) -> Pixel:
    """Where the window of an output begins."""
    image, in_image = divmod(output, int(record["image_outputs"]))
    row, column = divmod(in_image, int(record["row_outputs"]))
    stride = int(record["stride"])
    left, above = int(record["column_padding"]), int(record["row_padding"])
    return Pixel(column * stride - left, row * stride - above, image)


def tap_of(record: Any, k_block: int) -> TapBlock:
    """Which tap and which of its channels a k-block is."""
    number = quotient(k_block, int(record["per_tap"]))
    row = quotient(number, int(record["per_row"]))
    return TapBlock(
        number,
        row,
        number - row * int(record["filter_width"]),
        k_block - number * int(record["channel_blocks"]),
    )


@dataclass(frozen=True)
class Im2colMap:
    """What an im2col tensor map says of images (images, height, width, channels).

    The first tap's pixel goes from `lower` to `upper` beyond the last, (columns, rows), columns before rows,
    in steps of `stride`: over all outputs of an image. A box is `pixels` of these, one after the other, of 64
    channels. With `reach` above 1 that many neighbouring pixels' channels are one pixel's, from each on.
    """

    images: int
    height: int
    width: int
    channels: int
    lower: tuple[int, int]
    upper: tuple[int, int]
    stride: int
    pixels: int
    reach: int = 1

    def walk(self, begin: Pixel, tap: TapBlock) -> NDArray[np.int64]:
        """Numbers of the pixels that TMA loads into a box, `NOWHERE` for zeros."""
        column, row, image = begin
        pixels = np.full(self.pixels, NOWHERE, np.int64)
        for place in range(self.pixels):
            y, x = row + tap.row, column + tap.column
            if image < self.images and 0 <= y < self.height and 0 <= x < self.width:
                pixels[place] = (image * self.height + y) * self.width + x
            column += self.stride
            if column >= self.width + self.upper[0]:
                column, row = self.lower[0], row + self.stride
            if row >= self.height + self.upper[1]:
                row, image = self.lower[1], image + 1
        return pixels


def im2col_map(conv: Conv2D, pixels: int) -> Im2colMap:
    """The map of a convolution's images: the corners take the padding and the filter's reach in."""
    left, above = conv.window.left, conv.window.padding
    return Im2colMap(
        conv.images,
        conv.height,
        conv.width,
        conv.channels,
        (-left, -above),
        (left - (conv.kernel_size - 1), above - (conv.kernel_size - 1)),
        conv.stride,
        pixels,
        conv.kernel_size if conv.packs_rows else 1,
    )


def partial_bytes(work: Conv2D) -> int:
    """Of fp32 partial sums of all splits; 0 where there is one."""
    return 4 * work.grid.size * work.tile_m * work.tile_n if work.split_k > 1 else 0


def require_counted(work: Conv2D) -> None:
    """Raises `DescriptionError` for more k-blocks than im2col.cuh divides right."""
    if work.k_block_count >= MOST_K_BLOCKS:
        raise DescriptionError(
            f"Conv2D {work.name}: {work.channels} channels of {work.window.taps} taps are "
            f"{work.k_block_count} k-blocks of {work.tile_k}; kernels count fewer than {MOST_K_BLOCKS}. Use "
            "fewer channels"
        )
