"""Convolutions computed as implicit GEMMs: the images' pixels are rows, the channels columns.

Example: a 3 x 3 convolution of 4 images of 28 x 28 pixels with 128 channels is a GEMM of 3136 rows
(image after image, pixel row after pixel row), 128 columns and a K of 9 x 128. With 128 x 128 tiles its
grid is 1 column by 25 rows, and one tile covers four and a half pixel rows.
Source: CUTLASS, implicit GEMM convolution; cuSync paper, IV-B.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import MAX_GRID_X, Block, Carveout, Grid, Kernel, require_positive
from wavesim.model.reprs import repr_text
from wavesim.model.stage import Stage


@dataclass(frozen=True)
class Conv2D:
    """`images` images of (height, width, channels) to `filters` channels, stride 1, same-size output.

    The filter is `kernel_size` x `kernel_size`, an odd number; borders are padded with zeros. fp16.
    """

    name: str
    images: int
    height: int
    width: int
    channels: int
    filters: int
    tile_m: int
    tile_n: int
    block: Block
    kernel_size: int = 3
    carveout: Carveout = "full"

    def __post_init__(self) -> None:
        names = "images height width channels filters tile_m tile_n kernel_size"
        require_positive(f"Conv2D {self.name}", **{name: getattr(self, name) for name in names.split()})
        if self.kernel_size % 2 == 0:
            raise DescriptionError(
                f"Conv2D {self.name}: kernel_size is {self.kernel_size}; it must be odd to keep "
                "the image's size"
            )

        if self.pixels > MAX_GRID_X:
            raise DescriptionError(
                f"Conv2D {self.name}: {self.pixels:,} pixels; a tile index counts at most {MAX_GRID_X:,}. "
                "Use fewer images"
            )

    def __repr__(self) -> str:
        size = self.kernel_size
        return repr_text(
            "Conv2D",
            f"{self.name}: {self.images} x {self.height} x {self.width} x {self.channels} to {self.filters}, "
            f"filter {size} x {size}, tiles {self.tile_m} x {self.tile_n}",
        )

    @property
    def pixels(self) -> int:
        """Pixels of all images: the implicit GEMM's rows."""
        return self.images * self.height * self.width

    @property
    def depth(self) -> int:
        """The implicit GEMM's K: how many input values each output value sums up."""
        return self.channels * self.kernel_size**2

    @property
    def halo(self) -> int:
        """How many pixels before, and after, a run of pixels its outputs read: the filter's radius in rows
        and columns.
        """
        reach = self.kernel_size // 2
        return reach * self.width + reach

    @property
    def grid(self) -> Grid:
        """Blocks: tiles of channels x tiles of pixels."""
        return Grid(-(-self.filters // self.tile_n), -(-self.pixels // self.tile_m))

    @property
    def kernel(self) -> Kernel:
        """The launch. Memory traffic is images in and out and the filter once, in equal shares."""
        values = self.pixels * (self.channels + self.filters) + self.depth * self.filters
        return Kernel(
            self.name,
            self.grid,
            self.block,
            flops_per_block=2 * self.tile_m * self.tile_n * self.depth,
            bytes_per_block=2 * values // self.grid.size,
            carveout=self.carveout,
        )


def conv_rows(producer: Stage, consumer: Stage) -> Dependency:
    """The strict dependency of a convolution on the one that computes its images, halo included.

    A tile reads the pixels of its rows, those one filter radius above and below, and no pixel of
    another image; all channels of each, in step with its K loop. Raises `DescriptionError` unless
    both convolutions agree on the images.
    """
    first, second = _convolution(producer), _convolution(consumer)
    made, read = (first.images, first.height, first.width, first.filters), _shape(second)
    if made != read:
        raise DescriptionError(
            f"{consumer.name} reads images of {read} but {producer.name} makes {made}; "
            "(images, height, width, channels) must be equal"
        )
    image = second.height * second.width
    begin = y * second.tile_m
    last = (begin + (second.tile_m - 1)).at_most(second.pixels - 1)
    top = (begin - second.halo).at_least(begin // image * image)
    bottom = (last + second.halo).at_most(last // image * image + (image - 1))
    rows = slice(top // first.tile_m, bottom // first.tile_m + 1)
    return Dependency(consumer[x, y], [producer[:, rows]])


def _shape(conv: Conv2D) -> tuple[int, int, int, int]:
    return conv.images, conv.height, conv.width, conv.channels


def _convolution(stage: Stage) -> Conv2D:
    if not isinstance(stage.work, Conv2D):
        raise DescriptionError(f"stage {stage.name} is a {type(stage.work).__name__}, not a Conv2D")
    return stage.work
