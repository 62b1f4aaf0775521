"""Products of a few rows that read every weight once: what a decode step does between its attentions.

Example: `StreamedProduct("down", 1, 4096, 14336, split_k=2)` is one row times 4,096 rows of weights, eight a
tile, each in two halves of K: 1,024 items that read 115 KB of weights each and 14 KB of activations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel, TiledWork, require_positive
from wavesim.model.regions import ELEMENT_BYTES, Matrix, Read, Region, Write
from wavesim.safe_io.bounds import shown
from wavesim.work.gemm import ACTIVATIONS, GATED, Activation

SIZES = ("m", "n", "k", "tile_n", "split_k", "input_parts")
MOST_ROWS = 16  # beyond, weights are read more than once, or a GEMM is the better kernel
STREAM_BLOCK = Block(threads=288, registers=168, dynamic_shared_bytes=196_608)
Folded = Literal["none", "rms", "layer"]


@dataclass(frozen=True)
class StreamedProduct(TiledWork):
    """out = activation(norm(x) x weight + bias) + residual, for `m` rows, 1 to 16.

    Operands: x (m, k), weight (n, k), out (m, columns), and where it has them norm_weight (1, k), bias (1, n)
    and residual, as out. Tile (x, 0) is `tile_n` rows of the weights; of its K every split has a part, and
    who reads the output adds them up. Of many rows not all of x fits into shared memory: it is there in
    `input_parts`, one after the other, and so are the weights loaded. A norm is folded into the load of x,
    which every tile then reads whole.
    A gated activation makes one output of each pair of rows, gate and value interleaved.
    """

    word = "streamed"
    multiplies_weights = True
    ahead_operands = ("weight",)

    name: str
    m: int
    n: int
    k: int
    tile_n: int = 8
    split_k: int = 1
    input_parts: int = 1
    norm: Folded = "none"
    activation: Activation | None = None
    has_bias: bool = False
    has_residual: bool = False
    dtype: Literal["fp16", "bf16"] = "bf16"
    block: Block = field(default=STREAM_BLOCK)

    def __post_init__(self) -> None:
        owner = f"StreamedProduct {self.name}"
        require_positive(owner, **{size: getattr(self, size) for size in SIZES})
        if self.m > MOST_ROWS:
            raise DescriptionError(f"{owner}: m is {self.m}; it must be at most {MOST_ROWS}. Use a GEMM")
        if self.split_k > self.k:
            raise DescriptionError(f"{owner}: split_k is {self.split_k}; it must be at most k, {self.k}")
        for name, known in (("norm", get_args(Folded)), ("activation", (None, *ACTIVATIONS))):
            if getattr(self, name) not in known:
                words = ", ".join(map(repr, known))
                raise DescriptionError(f"{owner}: {name} is {shown(getattr(self, name))}; it must be {words}")
        if self.is_gated and (self.n % 2 or self.tile_n % 2):
            raise DescriptionError(
                f"{owner}: n is {self.n} and tile_n {self.tile_n}; with {self.activation} rows of weights "
                "are pairs of gate and value, so both must be even"
            )

    @property
    def grid(self) -> Grid:
        """Tiles of weight rows x 1 x splits of K."""
        return Grid(-(-self.n // self.tile_n), 1, self.split_k)

    @property
    def is_gated(self) -> bool:
        """Whether a gate's and a value's sums make one output."""
        return self.activation in GATED

    @property
    def columns(self) -> int:
        """Of the output."""
        return self.n // 2 if self.is_gated else self.n

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """All of them."""
        out = Matrix(self.m, self.columns, self.dtype, is_written=True)
        weight = Matrix(self.n, self.k, self.dtype, scale=self.k**-0.5)
        return {
            "x": Matrix(self.m, self.k, self.dtype),
            "weight": weight,
            **({"norm_weight": Matrix(1, self.k, self.dtype)} if self.norm != "none" else {}),
            **({"bias": Matrix(1, self.n, self.dtype)} if self.has_bias else {}),
            **({"residual": replace(out, is_written=False)} if self.has_residual else {}),
            "out": out,
        }

    def part(self, z: int) -> tuple[int, int]:
        """The columns of K, half-open, that split z multiplies."""
        return self.k * z // self.split_k, self.k * (z + 1) // self.split_k

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Its part of x, all of it under a norm; its outputs' residual."""
        part = (0, self.k) if self.norm != "none" else self.part(z)
        yield Read("x", Region(0, self.m, *part))
        if self.has_residual:
            yield Read("residual", self._outputs(x))

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its outputs."""
        yield Write("out", self._outputs(x))

    def _outputs(self, x: int) -> Region:
        width = self.tile_n // 2 if self.is_gated else self.tile_n
        return Region(0, self.m, x * width, min((x + 1) * width, self.columns))

    @property
    def output_tile(self) -> tuple[int, int]:
        """Rows, and rows of weights."""
        return self.m, self.tile_n

    @property
    def is_read_by_rows(self) -> bool:
        """All tiles read the same rows of x; a residual's tiles differ."""
        return not self.has_residual and self.split_k == 1

    def in_splits(self, count: int) -> "StreamedProduct | None":
        """The same with K shared out; None under a norm, for which every split would need all of x."""
        return (
            replace(self, split_k=count) if count <= self.k and (count == 1 or self.norm == "none") else None
        )

    def ahead_bytes(self, x: int, y: int, z: int) -> int:
        """The weights of a tile's split."""
        first, end = self.part(z)
        rows = min((x + 1) * self.tile_n, self.n) - x * self.tile_n
        return ELEMENT_BYTES[self.dtype] * rows * (end - first)

    def ahead_copies(self, size: int) -> int:
        """A copy for a row's piece."""
        return self.tile_n

    def awaited_bytes(self, z: int) -> int:
        """Its part of x."""
        first, end = (0, self.k) if self.norm != "none" else self.part(z)
        return ELEMENT_BYTES[self.dtype] * self.m * (end - first)

    def held_bytes(self, z: int) -> int:
        """One of its parts."""
        return -(-self.awaited_bytes(z) // self.input_parts)

    @property
    def weight_bytes(self) -> int:
        """Of all weights."""
        return ELEMENT_BYTES[self.dtype] * self.n * self.k

    @property
    def kernel(self) -> Kernel:
        """The launch, bound by what it reads."""
        moved = self.weight_bytes + ELEMENT_BYTES[self.dtype] * self.m * (self.k + self.columns)
        size = self.grid.size
        return Kernel(
            self.name, self.grid, self.block, 2 * self.m * self.n * self.k // size, moved // size, "full"
        )

    def is_memory_bound(self, device: Device) -> bool:
        """It is, of so few rows."""
        return True
