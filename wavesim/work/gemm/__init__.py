"""GEMMs: C = activation(A x B + bias) in output tiles, each a block's, and what an epilogue does besides.

Example: `Gemm("up", 1024, 6144, 12288, 128, 256)` is a grid of 24 tile columns by 8 tile rows; tile (x, y)
reads 128 rows of A, k-block after k-block, and writes 128 x 256 elements of C.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Carveout, Grid, Kernel, Panels, TiledWork, require_positive
from wavesim.model.regions import Matrix, Read, Region, Write
from wavesim.model.reprs import repr_text
from wavesim.safe_io.bounds import shown
from wavesim.work.gemm.epilogue import CacheStore, Rope, require_fits

T = TypeVar("T")
ELEMENT_BYTES = 2  # of an operand
MANY_BLOCKS = 128  # about as many as a large GPU has SMs: with fewer, K is split
LEAST_DEPTH = 256  # of a split's K: four k-blocks of 64
Activation = Literal["gelu", "gelu-exact", "relu", "silu", "swiglu", "geglu", "geglu-exact"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
# Of two columns of sums, a gate and a value, one.
GATED: tuple[Activation, ...] = ("swiglu", "geglu", "geglu-exact")
Gates = Literal["interleaved", "halves"]
Order = Literal["row", "column"]  # of a matrix: the one whose elements are neighbours in memory
DEFAULT_GEMM_BLOCK = Block(threads=256, registers=232, dynamic_shared_bytes=98_304)


@dataclass(frozen=True)
class Gemm(TiledWork):
    """C (m, n) = activation(A (m, k) x B (k, n) + bias (n)), one output tile per block and split-K slice.

    fp16 or bf16 in, fp32 accumulate. Edge tiles in m are allowed: the grid covers them. "gelu" is with tanh,
    "gelu-exact" with erf. A gated activation ("swiglu", "geglu", "geglu-exact") is activation(gate) * value
    of a gate's and a value's column: C has n/2 columns. With `gates` "interleaved" B's columns are a gate,
    a value, a gate, ...; with "halves" gates and values are matrices (k, n/2) of their own, with a bias each,
    and a tile's first half of columns are gates, its second the values that belong to them. `b_order`
    "column" stores B as (n, k), as linear layers store their weights.

    With `has_residual` an operand "residual" (m, columns) is added to the rounded outputs. `rope` rotates
    heads; with `cache` the last columns are K and V, which go to their caches, not to C. Both: no activation.
    """

    word = "gemm"
    is_product = reads_in_step = multiplies_weights = True

    name: str
    m: int
    n: int
    k: int
    tile_m: int
    tile_n: int
    tile_k: int = 32
    split_k: int = 1
    dtype: Literal["fp16", "bf16"] = "fp16"
    activation: Activation | None = None
    block: Block = field(default=DEFAULT_GEMM_BLOCK)
    carveout: Carveout = "default"
    gates: Gates = "interleaved"
    b_order: Order = "row"
    has_bias: bool = False
    has_residual: bool = False
    rope: Rope | None = None
    cache: CacheStore | None = None

    def __post_init__(self) -> None:
        sizes = {
            name: getattr(self, name) for name in ("m", "n", "k", "tile_m", "tile_n", "tile_k", "split_k")
        }
        require_positive(f"Gemm {self.name}", **sizes)
        slices = -(-self.k // self.tile_k)
        if self.split_k > slices:
            raise DescriptionError(
                f"Gemm {self.name}: split_k is {self.split_k}; k={self.k} has only {slices} chunks of "
                f"tile_k={self.tile_k}. Use split_k <= {slices}"
            )
        words: tuple[tuple[str, tuple[object, ...]], ...] = (
            ("dtype", ("fp16", "bf16")),
            ("activation", (None, *ACTIVATIONS)),
            ("gates", get_args(Gates)),
            ("b_order", get_args(Order)),
            ("has_bias", (False, True)),
            ("has_residual", (False, True)),
        )
        for name, known in words:
            if getattr(self, name) not in known:
                raise DescriptionError(
                    f"Gemm {self.name}: {name} is {shown(getattr(self, name))}; it must be "
                    f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
                )
        self._require_pairs()
        require_fits(self)

    def _require_pairs(self) -> None:
        """Raises `DescriptionError` unless columns come in pairs of gate and value where they have to."""
        if self.is_gated and (self.n % 2 or self.tile_n % 2):
            raise DescriptionError(
                f"Gemm {self.name}: n is {self.n} and tile_n {self.tile_n}; with {self.activation} they must "
                "be even, because columns are pairs of gate and value"
            )
        if self.has_halves and not self.is_gated:
            raise DescriptionError(
                f"Gemm {self.name}: gates is 'halves' and activation {self.activation!r}, which has no gate. "
                f"Use gates='interleaved' or activation={' or '.join(map(repr, GATED))}"
            )

    def __repr__(self) -> str:
        split = f", split-K {self.split_k}" if self.split_k > 1 else ""
        activation = f", {self.activation}" if self.activation else ""
        parts = (("residual", self.has_residual), ("RoPE", self.rope), ("KV cache", self.cache))
        activation += "".join(f", {word}" for word, there in parts if there)
        activation += " of halves" if self.has_halves else ""
        bias = ", bias" if self.has_bias else ""
        order = ", column-major B" if self.b_order == "column" else ""
        return repr_text(
            "Gemm",
            f"{self.name}: m {self.m}, n {self.n}, k {self.k}, tiles {self.tile_m} x {self.tile_n} x "
            f"{self.tile_k}{split}, {self.dtype}{order}{bias}{activation}",
        )

    @property
    def grid(self) -> Grid:
        """Blocks: tile columns x tile rows x split-K slices."""
        return Grid(-(-self.n // self.tile_n), -(-self.m // self.tile_m), self.split_k)

    @property
    def columns(self) -> int:
        """Columns of C: n, or half of it after a gated activation; without K's and V's that go to a cache."""
        if self.cache is not None:
            return self.n - 2 * self.cache.columns
        return self.n // 2 if self.is_gated else self.n

    @property
    def is_gated(self) -> bool:
        """Whether a gate's and a value's sums make one output."""
        return self.activation in GATED

    @property
    def has_halves(self) -> bool:
        """Whether gates and values are matrices of their own."""
        return self.gates == "halves"

    @property
    def flops(self) -> int:
        """Useful multiply-adds of the whole GEMM, two operations each."""
        return 2 * self.m * self.n * self.k

    @property
    def kernel(self) -> Kernel:
        """The launch that computes it.

        Edge tiles are counted as full ones, as the tensor cores do; memory traffic is every operand
        once, in equal shares: the L2 serves what several tiles read.
        """
        depth, results = -(-self.k // self.split_k), 2 if self.has_residual else 1
        moved = self.m * self.output_columns * results
        return Kernel(
            self.name,
            self.grid,
            self.block,
            flops_per_block=2 * self.tile_m * self.tile_n * depth,
            bytes_per_block=2 * (self.m * self.k + self.k * self.n + moved) // self.grid.size,
            carveout=self.carveout,
        )

    @property
    def output_columns(self) -> int:
        """Columns of C and of the caches together."""
        return self.n // 2 if self.is_gated else self.n

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """a, b and c as they are stored; with halves b_values, with a bias `bias` (and values_bias).

        Also residual, rope, k_cache and v_cache, where it has them.
        """
        columns = self.n // 2 if self.has_halves else self.n
        shape = (self.k, columns) if self.b_order == "row" else (columns, self.k)
        b = Matrix(*shape, self.dtype, scale=self.k**-0.5)
        vector = Matrix(1, columns, self.dtype)
        result = {"a": Matrix(self.m, self.k, self.dtype), "b": b}
        result |= {"b_values": b} if self.has_halves else {}
        result |= {"bias": vector} if self.has_bias else {}
        result |= {"values_bias": vector} if self.has_bias and self.has_halves else {}
        c = Matrix(self.m, self.columns, self.dtype, is_written=True)
        result |= {"residual": replace(c, is_written=False)} if self.has_residual else {}
        result |= {"rope": self.rope.table} if self.rope else {}
        if self.cache:
            result |= dict.fromkeys(("k_cache", "v_cache"), self.cache.cache(self.m, self.dtype))
        return result | {"c": c}

    def k_blocks(self, split: int) -> tuple[int, int]:
        """The k-blocks, half-open, that a split computes; the device divides the same way."""
        blocks = -(-self.k // self.tile_k)
        return blocks * split // self.split_k, blocks * (split + 1) // self.split_k

    def items(self, x: int, y: int, z: int) -> int:
        """One past the last k-block of its split: `Read.at` counts the k-blocks of all of K."""
        return self.k_blocks(z)[1]

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Its rows of A by k-blocks, then its tile of the residual; nobody makes B, weights, meanwhile."""
        top, bottom = y * self.tile_m, min((y + 1) * self.tile_m, self.m)
        for block in range(*self.k_blocks(z)):
            columns = block * self.tile_k, min((block + 1) * self.tile_k, self.k)
            yield Read("a", Region(top, bottom, *columns), block)
        if self.has_residual:
            yield Read("residual", self._outputs(x, y), self.k_blocks(z)[1] - 1)

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its tile of C, of half the columns after a gated activation; of K and V in their caches."""
        tile = self._outputs(x, y)
        if tile.left < self.columns:
            yield Write("c", tile._replace(right=min(tile.right, self.columns)))
        if self.cache is not None:
            yield from self.cache.writes(tile, self.columns)

    def _outputs(self, x: int, y: int) -> Region:
        """A tile of all outputs, C's and the caches'."""
        width = self.tile_n * self.output_columns // self.n
        top, left = y * self.tile_m, x * width
        bottom, right = min(top + self.tile_m, self.m), min(left + width, self.output_columns)
        return Region(top, bottom, left, right)

    @property
    def output_tile(self) -> tuple[int, int]:
        """Rows and columns of a tile."""
        return self.tile_m, self.tile_n

    @property
    def bytes_of_tile(self) -> int:
        """What a tile of C holds, no more than C."""
        return ELEMENT_BYTES * min(self.tile_m, self.m) * min(self.tile_n, self.columns)

    @property
    def read_bytes(self) -> int:
        """A and B."""
        return ELEMENT_BYTES * (self.k * self.n + self.m * self.k)

    @property
    def panels(self) -> Panels:
        """Rows of A and columns of B that its tiles share."""
        return Panels(self.tile_m, self.tile_n, self.k)

    @property
    def iterations(self) -> int:
        """K-blocks of a block."""
        return -(-self.k // (self.tile_k * self.split_k))

    @property
    def is_read_by_rows(self) -> bool:
        """All tiles of a row read the same rows of A; a residual's tiles differ."""
        return not self.has_residual

    def made_operands(self, makers: Sequence[T]) -> Mapping[str, T]:
        """A, where one stage makes all of it."""
        return {"a": makers[0]} if all(maker == makers[0] for maker in makers) else {}

    def is_memory_bound(self, device: Device) -> bool:
        """Whether the device moves operands and results more slowly than it computes them."""
        moved = ELEMENT_BYTES * (self.m * self.k + self.k * self.n + self.m * self.columns)
        return moved / device.dram_bytes_per_s > self.flops / device.tensor_flops_per_s

    def prefetch_share(self, device: Device) -> float:
        """The share of a block's work, 0 to 1, that is loading what weights it has room for before it waits.

        Room is the block's shared memory, filled with equal depths of K of both operands. 0 where arithmetic
        takes longer than loading, which then hides behind it. Example: a V100 block with two stages of 32 of
        K holds 64 of its 2,048 of K, four fifths of the bytes being weights: 2.5 % of its time.
        """
        if not self.is_memory_bound(device):
            return 0.0
        depth = self.block.shared_bytes / (ELEMENT_BYTES * (self.tile_m + self.tile_n))
        of_weights = self.tile_n / (self.tile_m + self.tile_n)
        return min(1.0, depth * self.split_k / self.k) * of_weights

    def with_splits_for(self, device: Device) -> "Gemm":
        """The same with K split until there is a block per SM."""
        return replace(self, split_k=usual_splits(self.grid.tiles, self.k, device.sm_count))

    def with_m(self, m: int, tile_rows: int = 0) -> "Gemm":
        """The same GEMM for another number of rows, in tiles as high as before."""
        return replace(self, m=m)


def usual_splits(tiles: int, k: int, blocks: int = MANY_BLOCKS) -> int:
    """How many ways K is split so that few tiles become `blocks` or more, each `LEAST_DEPTH` deep."""
    splits = 1
    while tiles * splits < blocks and k >= 2 * LEAST_DEPTH * splits:
        splits *= 2
    return splits
