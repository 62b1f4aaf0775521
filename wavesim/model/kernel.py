"""Kernels: a grid of thread blocks, what one block occupies, and what it computes.

Example: a GEMM of 1024 x 6144 cut into 128 x 256 tiles is a grid of 24 columns by 8 rows; each
of its 192 blocks takes 256 threads and 96 KB of shared memory for as long as it is resident.
Axes are decided once, here: x counts tile columns, y tile rows, z split-K slices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

from wavesim.errors import DescriptionError
from wavesim.model.regions import Matrix, Read, Write
from wavesim.model.reprs import bytes_text, repr_text
from wavesim.safe_io.bounds import shown

WARP_SIZE = 32
MAX_GRID_X = 2**31 - 1
MAX_GRID_YZ = 65_535
MAX_INTEGER = 2**63 - 1
OUTPUT_BYTES = 2  # of an element

Carveout = Literal["full", "default"]
WaitPlace = Literal["producer-warp", "block-barrier", "before-main-loop", "prefetched"]
WAIT_PLACES: tuple[WaitPlace, ...] = get_args(WaitPlace)
T = TypeVar("T")


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


class Work:
    """What a stage computes. A kind of work is a subclass, in a folder of `wavesim/work/`.

    It answers what others need to know of it, so that nobody asks for its class; the answers here are those
    of a kernel of which nothing is known but its launch.

    - `word`: the kind's name in data files and descriptions.
    - `is_bare`: nothing is known of it but its launch. `is_tiled`: it is `TiledWork`.
    - `is_product`: one product of matrices, whose sizes `Stage.gemm` has.
    - `attends`: its queries attend to keys, perhaps of a KV cache.
    - `reads_in_step`: its A, which one stage makes, is read along K in step with that stage's tiles.
    - `multiplies_weights`: it multiplies by what no stage makes, which can be loaded before a wait.
    - `resets_tickets`: its kernels leave the tickets of splits at zero themselves.
    - `ahead_operands`: what a block may load before it waits, as no stage of a run writes it.
    - `main_loop`: what its kernels' main loops are like, where their author has not said it.
    """

    word: ClassVar[str] = ""
    is_bare: ClassVar[bool] = False
    is_tiled: ClassVar[bool] = False
    is_product: ClassVar[bool] = False
    attends: ClassVar[bool] = False
    reads_in_step: ClassVar[bool] = False
    multiplies_weights: ClassVar[bool] = False
    resets_tickets: ClassVar[bool] = False
    ahead_operands: ClassVar[tuple[str, ...]] = ()
    main_loop: ClassVar["MainLoop | None"] = None

    @property
    def kernel(self) -> "Kernel":
        """The launch that computes it."""
        raise NotImplementedError(f"{type(self).__name__} has no kernel; define the property")

    @property
    def output_tile(self) -> tuple[int, int] | None:
        """Rows and columns of a block's output, as traces and recordings state them; None: not known."""
        return None

    @property
    def bytes_of_tile(self) -> int | None:
        """What a tile of its output holds; None: not known."""
        rows, columns = (getattr(self, name, 0) for name in ("tile_m", "columns"))
        return OUTPUT_BYTES * rows * columns or None

    @property
    def read_bytes(self) -> int:
        """Operands of a product that it reads; 0 of others."""
        return 0

    @property
    def panels(self) -> "Panels | None":
        """What its blocks share as they go along K; None: not known."""
        return None

    @property
    def iterations(self) -> int | None:
        """Iterations of a block's main loop; None: not known."""
        return None

    @property
    def looks(self) -> int:
        """Of a kernel that looks at semaphores item after item, the longest tile's items; else 0."""
        return 0

    @property
    def row_weights(self) -> tuple[float, ...]:
        """How much each tile row has to do, where rows differ."""
        return ()

    @property
    def is_read_by_rows(self) -> bool:
        """Whether all tiles of a row read the same of what other stages write."""
        return False

    @property
    def is_shifted(self) -> bool:
        """Whether its tiles read beyond the rows that they write, as a convolution's halo."""
        return False

    @property
    def shared_inputs(self) -> int:
        """Of a collective's stage how many copies of a tile it adds up, from 1; 0 of all others."""
        return 0

    @property
    def shared_with(self) -> tuple[int, ...]:
        """Of a collective's stage the other GPUs that get every tile."""
        return ()

    def made_operands(self, makers: Sequence[T]) -> Mapping[str, T]:
        """Operands that producers make, where nobody names buffers; `makers` in the order of the needs."""
        return {}

    def is_memory_bound(self, device: Any) -> bool | None:
        """Whether a device moves its operands more slowly than it computes; None: not known."""
        return None

    def ahead_bytes(self, x: int, y: int, z: int) -> int:
        """What the block of a tile's split loads of its `ahead_operands`."""
        return 0

    def ahead_copies(self, size: int) -> int:
        """With how many bulk copies so many of those bytes are loaded."""
        return 1

    def awaited_bytes(self, z: int) -> int:
        """What a block of split z loads of what other stages make, once it has waited."""
        return 0

    def held_bytes(self, z: int) -> int:
        """What of that is in shared memory at a time."""
        return self.awaited_bytes(z)

    def prefetch_share(self, device: Any) -> float:
        """The share of a block's work that is loading weights before its first wait."""
        return 0.0

    def with_m(self, m: int, tile_rows: int) -> "Work":
        """The same for another number of rows, in tiles of so many."""
        grid = self.kernel.grid
        return replace(self.kernel, grid=Grid(grid.x, -(-m // tile_rows), grid.z))

    def redrawn(self, seed: int) -> "Work | None":
        """The same with what is known at run time only drawn anew; None where nothing is."""
        return None

    def in_splits(self, count: int) -> "Work | None":
        """The same with its K, or its keys, shared out to so many blocks a tile; None where it cannot be."""
        return None

    def with_splits_for(self, device: Any) -> "Work":
        """The same with as many splits as a device needs to be busy, where it can be split."""
        return self

    def require_agrees(self, own: Any, stages: Sequence[Any], producers: Sequence[str]) -> None:
        """Raises `DescriptionError` where other stages of a pipeline mean something else by what it reads.

        `own` is its stage, `producers` those whose tiles this needs.
        """


class TiledWork(Work):
    """Work that says what its tiles read and write: a `Gemm`, an `Attention`, a `Norm`, a user's own."""

    is_tiled = True

    if TYPE_CHECKING:  # a field of one kind, a property of others

        @property
        def operands(self) -> Mapping[str, Matrix]:
            """All matrices that it reads and writes, by name."""

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """What the block of tile (x, y) and split z reads; weights may be left out."""
        raise NotImplementedError

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """What is written by the time the tile is posted."""
        raise NotImplementedError

    def items(self, x: int, y: int, z: int) -> int:
        """How many work items the block does, at least 1: `Read.at` is below it."""
        return 1


class Panels(NamedTuple):
    """Rows of A that a row of tiles shares, columns of B that a column of tiles shares, and K."""

    rows: int
    columns: int
    k: int


@dataclass(frozen=True)
class Kernel(Work):
    """A launch: its grid, what each block occupies, and the work of one block.

    `carveout` is the shared-memory carve-out the kernel asks for: "default" (the driver's own choice, the
    smallest that holds this kernel's maximum of resident blocks) or "full" (the largest, so that other
    kernels' blocks can be resident beside it), which our kernels and generated code ask for.
    """

    name: str
    grid: Grid
    block: Block
    flops_per_block: int = 0
    bytes_per_block: int = 0
    carveout: Carveout = "default"

    def __post_init__(self) -> None:
        if self.carveout not in ("full", "default"):
            raise DescriptionError(
                f"{self.name}: carveout is {self.carveout!r}; it must be 'full' or 'default'"
            )
        work = {name: getattr(self, name) for name in ("flops_per_block", "bytes_per_block")}
        _require_whole(self.name, 0, work)

    word: ClassVar[str] = "kernel"
    is_bare: ClassVar[bool] = True

    @property
    def kernel(self) -> "Kernel":
        """Itself."""
        return self

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
WAIT_KERNEL = Kernel("wait-kernel", Grid(1), Block(threads=32, registers=24), carveout="full")
