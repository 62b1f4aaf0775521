"""Convolutions computed as implicit GEMMs: the outputs' pixels are rows, the filters columns.

Example: a 3 x 3 convolution of 4 images of 28 x 28 pixels with 128 channels is a GEMM of 3136 rows
(image after image, pixel row after pixel row), 128 columns and a K of 9 x 128. With 128 x 128 tiles its
grid is 1 column by 25 rows, and one tile covers four and a half pixel rows.
Source: CUTLASS, implicit GEMM convolution; cuSync paper, IV-B.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

from wavesim.errors import DescriptionError
from wavesim.model.kernel import MAX_GRID_YZ, Block, Carveout, Grid, Kernel, TiledWork, require_positive
from wavesim.model.regions import Matrix, Read, Region, Write
from wavesim.model.reprs import repr_text
from wavesim.safe_io.bounds import shown
from wavesim.work.convolution.window import Tap, Window

T = TypeVar("T")
CHANNEL_UNIT = 8  # 16 bytes: what a pixel's channels are loaded by, and an output's are stored by
MOST_K_BLOCKS = 2**22  # of all tile rows: their pixels are told apart k-block by k-block
SIZES = ("images", "height", "width", "channels", "filters", "tile_m", "tile_n", "tile_k", "split_k")


@dataclass(frozen=True)
class Conv2D(TiledWork):
    """C = relu(convolution of A + bias + residual): `images` of (height, width, channels) to `filters`.

    NHWC; fp16 or bf16 in, fp32 accumulate. The filter is `kernel_size` x `kernel_size`, an odd number, moved
    by a `stride` of 1 or 2 over images with `padding` zeros around them; None keeps the size at stride 1.
    `column_padding` is that to the left and right, None as much. K goes tap by tap, and within a tap by
    k-blocks of `tile_k` channels; with `packs_rows` a k-block is a row of taps, of few channels: neighbouring
    pixels as they lie in memory, so that `column_padding` must be 0. `has_bias`, `has_residual` and
    `activation` ("relu" or None) are its epilogue. With `awaits_halo=False` it reads pixels of other tiles'
    rows without waiting for them, as the published code does. Raises `DescriptionError`.
    """

    word = "convolution"
    multiplies_weights = resets_tickets = True

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
    carveout: Carveout = "default"
    stride: int = 1
    padding: int | None = None
    tile_k: int = 32
    split_k: int = 1
    dtype: Literal["fp16", "bf16"] = "fp16"
    has_bias: bool = False
    has_residual: bool = False
    activation: Literal["relu"] | None = None
    awaits_halo: bool = True
    dilation: int = 1
    groups: int = 1
    column_padding: int | None = None
    packs_rows: bool = False

    def __post_init__(self) -> None:
        owner = f"Conv2D {self.name}"
        require_positive(owner, **{name: getattr(self, name) for name in SIZES})
        try:
            window = self.window
        except DescriptionError as error:
            raise DescriptionError(f"{owner}: {error}") from None
        _require_kernel_takes(self)
        if self.packs_rows:
            _require_packed(self)
        if self.split_k > self.k_block_count:
            raise DescriptionError(
                f"{owner}: split_k is {self.split_k}; {window.taps} taps of {self.channels} channels have "
                f"only {self.k_block_count} k-blocks of {self.tile_k}. Use split_k <= {self.k_block_count}"
            )
        if not (self.awaits_halo or window.keeps_size):
            raise DescriptionError(
                f"{owner}: awaits_halo is False; the published code has stride 1 and outputs as large as the "
                "image. Use awaits_halo=True"
            )
        rows = -(-self.pixels // self.tile_m)
        if rows * self.k_block_count > MOST_K_BLOCKS:
            raise DescriptionError(
                f"{owner}: {rows:,} tile rows of {self.k_block_count:,} k-blocks each; at most "
                f"{MOST_K_BLOCKS:,} in all are enumerated. Use fewer images, or a larger tile"
            )
        if rows > MAX_GRID_YZ:
            raise DescriptionError(
                f"{owner}: {self.pixels:,} pixels are more than {MAX_GRID_YZ:,} tiles of {self.tile_m}. Use "
                "fewer images or larger tiles"
            )

    def __repr__(self) -> str:
        size, window = self.kernel_size, self.window
        moved = "" if self.stride == 1 else f", stride {self.stride}"
        moved += "" if window.padding == size // 2 else f", padding {window.padding}"
        moved += "" if window.left == window.padding else f", {window.left} left and right"
        moved += ", rows packed" if self.packs_rows else ""
        split = f", split-K {self.split_k}" if self.split_k > 1 else ""
        parts = (("bias", self.has_bias), ("residual", self.has_residual), ("relu", self.activation))
        epilogue = "".join(f", {word}" for word, there in parts if there)
        return repr_text(
            "Conv2D",
            f"{self.name}: {self.images} x {self.height} x {self.width} x {self.channels} to {self.filters}, "
            f"filter {size} x {size}{moved}, tiles {self.tile_m} x {self.tile_n}{split}{epilogue}",
        )

    @cached_property
    def window(self) -> Window:
        """Where its taps lie in an image."""
        padding = self.kernel_size // 2 if self.padding is None else self.padding
        return Window(self.height, self.width, self.kernel_size, self.stride, padding, self.column_padding)

    @property
    def out_shape(self) -> tuple[int, int, int, int]:
        """(images, height, width, channels) of its output."""
        return self.images, self.window.out_height, self.window.out_width, self.filters

    @property
    def pixels(self) -> int:
        """Outputs of one filter in all images: the implicit GEMM's rows."""
        return self.images * self.window.out_height * self.window.out_width

    @property
    def depth(self) -> int:
        """The implicit GEMM's K: how many input values each output value sums up."""
        return self.channels * self.window.taps

    @property
    def flops(self) -> int:
        """Useful multiply-adds of the whole convolution, two operations each; zeros of padding count."""
        return 2 * self.pixels * self.filters * self.depth

    @property
    def channel_blocks(self) -> int:
        """K-blocks of a tap."""
        return -(-self.channels // self.tile_k)

    @property
    def k_block_count(self) -> int:
        """K-blocks of all taps."""
        return self.kernel_size if self.packs_rows else self.window.taps * self.channel_blocks

    def k_blocks(self, split: int) -> tuple[int, int]:
        """The k-blocks, half-open, that a split computes."""
        blocks = self.k_block_count
        return blocks * split // self.split_k, blocks * (split + 1) // self.split_k

    @property
    def grid(self) -> Grid:
        """Blocks: tiles of filters x tiles of pixels x splits of K."""
        return Grid(-(-self.filters // self.tile_n), -(-self.pixels // self.tile_m), self.split_k)

    @property
    def kernel(self) -> Kernel:
        """The launch. Edge tiles and k-blocks count as full ones, as the tensor cores do; memory traffic is
        every operand once, in equal shares.
        """
        wide = self.tile_k if self.packs_rows else min(self.tile_k, self.channels)
        depth = wide * self.k_block_count // self.split_k
        moved = sum(matrix.bytes for name, matrix in self.operands.items() if name != "bias")
        return Kernel(
            self.name,
            self.grid,
            self.block,
            flops_per_block=2 * self.tile_m * self.tile_n * depth,
            bytes_per_block=moved // self.grid.size,
            carveout=self.carveout,
        )

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """Matrices a (pixels of the images, channels), b (filters, taps * channels), c (pixels, filters).

        Also bias (1, filters) and residual (as c), where it has them.
        """
        c = Matrix(self.pixels, self.filters, self.dtype, is_written=True)
        return {
            "a": Matrix(self.images * self.height * self.width, self.channels, self.dtype),
            "b": Matrix(self.filters, self.depth, self.dtype, scale=self.depth**-0.5),
            **({"bias": Matrix(1, self.filters, self.dtype)} if self.has_bias else {}),
            **({"residual": replace(c, is_written=False)} if self.has_residual else {}),
            "c": c,
        }

    def items(self, x: int, y: int, z: int) -> int:
        """One past the last k-block of its split: `Read.at` counts the k-blocks of all of K."""
        return self.k_blocks(z)[1]

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Its filters from its first k-block on, its pixels by k-blocks, then its tile of the residual."""
        tile, (first, end) = self._outputs(x, y), self.k_blocks(z)
        yield Read("b", Region(tile.left, tile.right, 0, self.depth), first)
        for number in range(first // self.channel_blocks, -(-end // self.channel_blocks)):
            runs = self._runs(number, tile.top, tile.bottom)
            begin = number * self.channel_blocks
            for block in range(max(first, begin), min(end, begin + self.channel_blocks)):
                left = (block - begin) * self.tile_k
                right = min(left + self.tile_k, self.channels)
                yield from (Read("a", Region(top, bottom, left, right), block) for top, bottom in runs)
        if self.has_residual:
            yield Read("residual", tile, end - 1)

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its tile of C."""
        yield Write("c", self._outputs(x, y))

    @property
    def iterations(self) -> int:
        """K-blocks of a block."""
        return -(-self.k_block_count // self.split_k)

    @property
    def is_read_by_rows(self) -> bool:
        """All tiles of a row read the same pixels; a residual's tiles differ."""
        return not self.has_residual

    @property
    def is_shifted(self) -> bool:
        """Its taps read pixels around its own."""
        return True

    def made_operands(self, makers: Sequence[T]) -> Mapping[str, T]:
        """The images by the producer that is named first, the residual by the second."""
        return dict(zip(("a", "residual"), makers, strict=False))

    def _runs(self, tap: int, top: int, bottom: int) -> list[tuple[int, int]]:
        """Pixels that a tap of a tile's rows reads, or a row of taps; without the halo, those of the same
        rows alone.
        """
        if self.packs_rows:
            firsts = self.window.pixels_read(Tap(tap, 0), top, bottom)
            return [(first, end + self.kernel_size - 1) for first, end in firsts]
        runs = list(self.window.pixels_read(self.window.tap(tap), top, bottom))
        if self.awaits_halo:
            return runs
        own = ((max(first, top), min(end, bottom)) for first, end in runs)
        return [(first, end) for first, end in own if first < end]

    def _outputs(self, x: int, y: int) -> Region:
        top, left = y * self.tile_m, x * self.tile_n
        return Region(top, min(top + self.tile_m, self.pixels), left, min(left + self.tile_n, self.filters))


def _require_packed(conv: Conv2D) -> None:
    """Raises `DescriptionError` unless a row of taps is one k-block of neighbouring pixels."""
    start, most = f"Conv2D {conv.name}:", conv.tile_k // conv.kernel_size
    if conv.channels > most:
        raise DescriptionError(
            f"{start} channels is {conv.channels}; with packs_rows {conv.kernel_size} taps of them must "
            f"fit a k-block of {conv.tile_k}: at most {most}. Use packs_rows=False"
        )
    if conv.window.left:
        raise DescriptionError(
            f"{start} column_padding is {conv.window.left}; with packs_rows it must be 0: images hold "
            "the zeros to their left and right themselves"
        )


def _require_kernel_takes(conv: Conv2D) -> None:
    """Raises `DescriptionError` for what no implicit GEMM of ours computes, with what is possible."""
    for name in ("channels", "filters"):
        value = getattr(conv, name)
        if value % CHANNEL_UNIT:
            raise DescriptionError(
                f"Conv2D {conv.name}: {name} is {value}; it must be a multiple of {CHANNEL_UNIT}, 16 bytes. "
                f"Pad with zeros to {-(-value // CHANNEL_UNIT) * CHANNEL_UNIT}"
            )
    for name, why in (
        ("dilation", "taps are neighbours"),
        ("groups", "every filter reads all channels; describe each group as a convolution of its own"),
    ):
        if getattr(conv, name) != 1:
            raise DescriptionError(
                f"Conv2D {conv.name}: {name} is {shown(getattr(conv, name))}; it must be 1: {why}"
            )
    words: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("dtype", ("fp16", "bf16")),
        ("activation", (None, "relu")),
        ("has_bias", (False, True)),
        ("has_residual", (False, True)),
        ("awaits_halo", (False, True)),
    )
    for name, known in words:
        if getattr(conv, name) not in known:
            raise DescriptionError(
                f"Conv2D {conv.name}: {name} is {shown(getattr(conv, name))}; it must be "
                f"{' or '.join(map(repr, known))}"
            )
