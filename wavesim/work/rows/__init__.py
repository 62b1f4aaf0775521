"""Row kernels: what works on whole rows between a layer's products. Add and norm, softmax, copy.

Example: `Norm("norm", m=1024, columns=4096, tile_m=8, has_residual=True)` is a grid of 1 x 128 tiles: h = x +
residual, out = h / rms(h) * weight, eight rows at a time. A tile needs whole rows of the product before it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block, Grid, Kernel, TiledWork, require_positive
from wavesim.model.regions import ELEMENT_BYTES, Matrix, Read, Region, Write
from wavesim.work.query_rows import QueryRows

COPY_BLOCK = Block(threads=256, registers=64)
WARP, VECTOR_COLUMNS, VECTORS_PER_THREAD = 32, 8, 4  # 16 bytes are a vector
SHORT_ROW_THREADS = 128  # of a block whose warps have a row each
ROW_REGISTERS = 80  # as many as let 768 threads live on an SM
NormKind = Literal["rms", "layer"]
DropoutPlace = Literal["after", "before"]


def row_block(columns: int) -> Block:
    """Of a kernel that keeps whole rows in registers: a row in a warp if it fits, else in the block."""
    warps = -(-columns // (WARP * VECTOR_COLUMNS * VECTORS_PER_THREAD))
    return Block(SHORT_ROW_THREADS if warps == 1 else warps * WARP, ROW_REGISTERS)


@dataclass(frozen=True)
class Norm(TiledWork):
    """out = norm(h) * weight (+ bias), h = x (+ residual), by rows; h is kept as `sum` with a residual.

    Operands: x, residual, sum, out (m, columns), weight and bias (1, columns). "rms" divides by the root of
    the mean square, "layer" subtracts the mean first and adds a bias. fp32 inside. `sum` may be the
    residual's own buffer.
    """

    word = "norm"

    name: str
    m: int
    columns: int
    tile_m: int = 1
    kind: NormKind = "rms"
    has_residual: bool = True
    dtype: Literal["fp16", "bf16"] = "fp16"
    epsilon: float = 1e-5
    block: Block | None = None

    def __post_init__(self) -> None:
        require_positive(f"Norm {self.name}", m=self.m, columns=self.columns, tile_m=self.tile_m)
        if self.kind not in ("rms", "layer"):
            raise DescriptionError(f"Norm {self.name}: kind is {self.kind!r}; it must be 'rms' or 'layer'")

    @property
    def grid(self) -> Grid:
        """One column of row blocks."""
        return Grid(1, -(-self.m // self.tile_m))

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """All of them, with a residual and a bias where it has them."""
        rows = Matrix(self.m, self.columns, self.dtype)
        made = Matrix(self.m, self.columns, self.dtype, is_written=True)
        vector = Matrix(1, self.columns, self.dtype)
        return {
            "x": rows,
            **({"residual": rows, "sum": made} if self.has_residual else {}),
            "weight": vector,
            **({"bias": vector} if self.kind == "layer" else {}),
            "out": made,
        }

    def _rows(self, y: int) -> Region:
        return Region(y * self.tile_m, min((y + 1) * self.tile_m, self.m), 0, self.columns)

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Whole rows."""
        yield Read("x", self._rows(y))
        if self.has_residual:
            yield Read("residual", self._rows(y))

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Whole rows."""
        yield Write("out", self._rows(y))
        if self.has_residual:
            yield Write("sum", self._rows(y))

    @property
    def moved_bytes(self) -> int:
        """Read and written in all."""
        return sum(operand.bytes for operand in self.operands.values())

    @property
    def kernel(self) -> Kernel:
        """The launch, bound by what it moves."""
        block = self.block or row_block(self.columns)
        return Kernel(
            self.name, self.grid, block, bytes_per_block=self.moved_bytes // self.grid.size, carveout="full"
        )


@dataclass(frozen=True)
class Softmax(QueryRows):
    """Softmax over the keys of attention's scores, of `sequences` x `heads` matrices (length, keys).

    out = softmax(scale * scores). Operands: scores and out, both (sequences * length, heads * keys): a row
    holds all heads of a query. Tile (x, y) is head x, `tile_m` query rows of one sequence, as in `Attention`.
    Dropout "after" the softmax, or "before" it as the paper's text has it; the mask hides keys after a
    query's own.
    """

    word = "softmax"

    name: str
    sequences: int
    length: int
    heads: int
    keys: int
    tile_m: int = 128
    is_causal: bool = True
    dropout: float = 0.0
    dropout_place: DropoutPlace = "after"
    seed: int = 0
    scale: float = 1.0
    dtype: Literal["fp16", "bf16"] = "fp16"
    block: Block | None = None

    def __post_init__(self) -> None:
        owner = f"Softmax {self.name}"
        sizes = ("sequences", "length", "heads", "keys", "tile_m")
        require_positive(owner, **{name: getattr(self, name) for name in sizes})
        if self.keys < self.length:
            raise DescriptionError(f"{owner}: keys is {self.keys}; it must be at least length, {self.length}")
        if not 0 <= self.dropout < 1:
            raise DescriptionError(f"{owner}: dropout is {self.dropout}; it must be at least 0 and below 1")

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """The scores and what is made of them."""
        rows, columns = self.m, self.heads * self.keys
        return {
            "scores": Matrix(rows, columns, self.dtype),
            "out": Matrix(rows, columns, self.dtype, is_written=True),
        }

    def _rows(self, x: int, y: int) -> Region:
        sequence, top, bottom = self.query_rows(y)
        return Region(top, bottom, x * self.keys, (x + 1) * self.keys).moved(sequence * self.length, 0)

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """All keys of its rows."""
        yield Read("scores", self._rows(x, y))

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """All keys of its rows."""
        yield Write("out", self._rows(x, y))

    @property
    def kernel(self) -> Kernel:
        """The launch, bound by what it moves."""
        moved = sum(operand.bytes for operand in self.operands.values())
        block = self.block or row_block(self.keys)
        return Kernel(self.name, self.grid, block, bytes_per_block=moved // self.grid.size, carveout="full")


@dataclass(frozen=True)
class Copy(TiledWork):
    """out = x, by tiles of `tile_m` x `tile_n`."""

    word = "copy"

    name: str
    m: int
    columns: int
    tile_m: int = 128
    tile_n: int = 128
    dtype: Literal["fp16", "bf16"] = "fp16"
    block: Block = field(default=COPY_BLOCK)

    def __post_init__(self) -> None:
        sizes = {name: getattr(self, name) for name in ("m", "columns", "tile_m", "tile_n")}
        require_positive(f"Copy {self.name}", **sizes)

    @property
    def grid(self) -> Grid:
        """Tile columns x tile rows."""
        return Grid(-(-self.columns // self.tile_n), -(-self.m // self.tile_m))

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """What is read and what is written."""
        return {
            "x": Matrix(self.m, self.columns, self.dtype),
            "out": Matrix(self.m, self.columns, self.dtype, is_written=True),
        }

    def _tile(self, x: int, y: int) -> Region:
        top, left = y * self.tile_m, x * self.tile_n
        return Region(top, min(top + self.tile_m, self.m), left, min(left + self.tile_n, self.columns))

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Its tile."""
        yield Read("x", self._tile(x, y))

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its tile."""
        yield Write("out", self._tile(x, y))

    @property
    def kernel(self) -> Kernel:
        """The launch, bound by what it moves."""
        moved = 2 * self.m * self.columns * ELEMENT_BYTES[self.dtype]
        return Kernel(
            self.name, self.grid, self.block, bytes_per_block=moved // self.grid.size, carveout="full"
        )
