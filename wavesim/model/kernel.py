"""Kernels: a grid of thread blocks, what one block occupies, and what it computes.

Example: a GEMM of 1024 x 6144 cut into 128 x 256 tiles is a grid of 24 columns by 8 rows; each
of its 192 blocks takes 256 threads and 96 KB of shared memory for as long as it is resident.
Axes are decided once, here: x counts tile columns, y tile rows, z split-K slices.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.epilogue import CacheStore, Rope, layer_operands, layer_words, require_fits
from wavesim.model.regions import Matrix, Read, Region, Write
from wavesim.model.reprs import bytes_text, repr_text
from wavesim.safe_io.bounds import shown

WARP_SIZE = 32
MAX_GRID_X = 2**31 - 1
MAX_GRID_YZ = 65_535
MAX_INTEGER = 2**63 - 1

Carveout = Literal["full", "default"]
Activation = Literal["gelu", "gelu-exact", "relu", "silu", "swiglu", "geglu", "geglu-exact"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
# Of two columns of sums, a gate and a value, one.
GATED: tuple[Activation, ...] = ("swiglu", "geglu", "geglu-exact")
Gates = Literal["interleaved", "halves"]
Order = Literal["row", "column"]  # of a matrix: the one whose elements are neighbours in memory
WaitPlace = Literal["producer-warp", "block-barrier", "before-main-loop", "prefetched"]
WAIT_PLACES: tuple[WaitPlace, ...] = get_args(WaitPlace)


def require_positive(owner: str, **values: int) -> None:
    """Raises `DescriptionError` unless every value is a positive integer of 64 bits."""
    _require_whole(owner, 1, values)


def _require_whole(owner: str, least: int, values: Mapping[str, int]) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise DescriptionError(
                f"{owner}: {name} is {shown(value)}; it must be an integer of at least {least}"
            )
        if value > MAX_INTEGER:
            raise DescriptionError(f"{owner}: {name} is {shown(value)}; it must be at most {MAX_INTEGER:,}")


@dataclass(frozen=True)
class Grid:
    """All blocks of a launch: x tile columns, y tile rows, z split-K slices."""

    x: int
    y: int = 1
    z: int = 1

    def __post_init__(self) -> None:
        require_positive("Grid", x=self.x, y=self.y, z=self.z)
        for name, value, bound in (
            ("x", self.x, MAX_GRID_X),
            ("y", self.y, MAX_GRID_YZ),
            ("z", self.z, MAX_GRID_YZ),
        ):
            if value > bound:
                raise DescriptionError(
                    f"Grid: {name} is {value}; CUDA launches at most {bound}. Use larger tiles"
                )

    @property
    def tiles(self) -> int:
        """Output tiles, each computed by `z` blocks."""
        return self.x * self.y

    @property
    def size(self) -> int:
        """Thread blocks."""
        return self.x * self.y * self.z

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Tiles (x, y) in row-major order."""
        return ((x, y) for y in range(self.y) for x in range(self.x))

    def __str__(self) -> str:
        return f"{self.x} x {self.y}" + (f" x {self.z}" if self.z > 1 else "")


@dataclass(frozen=True)
class Block:
    """What one thread block occupies on an SM from issue to exit."""

    threads: int
    registers: int = 32
    static_shared_bytes: int = 0
    dynamic_shared_bytes: int = 0

    def __post_init__(self) -> None:
        require_positive("Block", threads=self.threads, registers=self.registers)
        shared = {name: getattr(self, name) for name in ("static_shared_bytes", "dynamic_shared_bytes")}
        _require_whole("Block", 0, shared)

    @property
    def warps(self) -> int:
        """Warps of 32 threads, the last one perhaps partly filled."""
        return -(-self.threads // WARP_SIZE)

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory together."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


@dataclass(frozen=True)
class Kernel:
    """A launch: its grid, what each block occupies, and the work of one block.

    `carveout` is the shared-memory carve-out the kernel asks for: "full" (the largest, so that
    other kernels' blocks can be resident beside it) or "default" (the driver's own choice, the smallest
    that holds this kernel's maximum of resident blocks).
    """

    name: str
    grid: Grid
    block: Block
    flops_per_block: int = 0
    bytes_per_block: int = 0
    carveout: Carveout = "full"

    def __post_init__(self) -> None:
        if self.carveout not in ("full", "default"):
            raise DescriptionError(
                f"{self.name}: carveout is {self.carveout!r}; it must be 'full' or 'default'"
            )
        work = {name: getattr(self, name) for name in ("flops_per_block", "bytes_per_block")}
        _require_whole(self.name, 0, work)

    def __repr__(self) -> str:
        block = self.block
        return repr_text(
            "Kernel",
            f"{self.name}: grid {self.grid}, {block.threads} threads, {block.registers} registers, "
            f"{bytes_text(block.shared_bytes)} shared",
        )


@dataclass(frozen=True)
class MainLoop:
    """How a kernel's blocks walk through their work and where they wait; None: its author has not said.

    - `pipeline_depth`: k-blocks in flight, which go on being computed while a later one is waited for.
    - `wait_place`: "producer-warp": a warp that only loads waits, tile by tile, ahead of those that compute;
      "block-barrier": all warps wait at a barrier of the block, tile by tile, and the pipeline drains;
      "before-main-loop": one wait for all tiles that are read, before the first is;
      "prefetched": as the kernels of wavesim do, which load the semaphores' state well ahead of need, so that
      a wait that is over costs nothing.
    - `is_persistent`: as many blocks as fit are launched, and each goes on with the next tile of the grid.
    - `first_checks`: how often a block checks the first semaphore it waits for; 2 where it loads a k-block
      ahead of the loop, and checks again in the loop's first iteration.
    - `tests_each_k_block`: at a block barrier in the main loop, every k-block works out by a division whether
      to wait; False where a counter or an outer loop over the producer's tiles says so.
    """

    pipeline_depth: int | None = None
    wait_place: WaitPlace | None = None
    is_persistent: bool | None = None
    first_checks: int = 1
    tests_each_k_block: bool | None = None

    def __post_init__(self) -> None:
        if self.pipeline_depth is not None:
            require_positive("MainLoop", pipeline_depth=self.pipeline_depth)
        if self.wait_place is not None and self.wait_place not in WAIT_PLACES:
            raise DescriptionError(
                f"MainLoop: wait_place is {shown(self.wait_place)}; it must be "
                f"{', '.join(map(repr, WAIT_PLACES[:-1]))} or {WAIT_PLACES[-1]!r}"
            )
        require_positive("MainLoop", first_checks=self.first_checks)
        for name in ("is_persistent", "tests_each_k_block"):
            value = getattr(self, name)
            if value not in (None, False, True):
                raise DescriptionError(f"MainLoop: {name} is {shown(value)}; it must be True or False")

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of what was not said, of those that matter where the wait is."""
        tests_nothing = self.wait_place not in (None, "block-barrier")
        return tuple(
            item.name
            for item in fields(self)
            if getattr(self, item.name) is None and not (item.name == "tests_each_k_block" and tests_nothing)
        )

    def filled(self, assumed: "MainLoop") -> "MainLoop":
        """The same, with what is assumed where nothing was said."""
        return replace(self, **{name: getattr(assumed, name) for name in self.unknown})


UNKNOWN_LOOP = MainLoop()  # nobody has said anything of it

# One warp that spins until a consumer's producers have started, ahead of the consumer in its stream.
WAIT_KERNEL = Kernel("wait-kernel", Grid(1), Block(threads=32, registers=24))

DEFAULT_GEMM_BLOCK = Block(threads=256, registers=232, dynamic_shared_bytes=98_304)


@dataclass(frozen=True)
class Gemm:
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
    carveout: Carveout = "full"
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
        require_fits(f"Gemm {self.name}", (self.m, self.n), self.activation, self._layer_parts)

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
        activation += layer_words(self._layer_parts)
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
    def _layer_parts(self) -> tuple[bool, Rope | None, CacheStore | None]:
        return self.has_residual, self.rope, self.cache

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
        found = {"a": Matrix(self.m, self.k, self.dtype), "b": b}
        found |= {"b_values": b} if self.has_halves else {}
        found |= {"bias": vector} if self.has_bias else {}
        found |= {"values_bias": vector} if self.has_bias and self.has_halves else {}
        c = Matrix(self.m, self.columns, self.dtype, is_written=True)
        return found | layer_operands(c, self._layer_parts) | {"c": c}

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

    def with_m(self, m: int) -> "Gemm":
        """The same GEMM for another number of rows."""
        return replace(self, m=m)
