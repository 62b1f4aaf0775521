"""Grouped GEMMs: the experts of a mixture of experts, whose rows the router decides, and the weighted sum.

Example: `GroupedGemm("gate_up", tokens=256, experts=128, top_k=8, n=1536, k=2048, tile_m=64, tile_n=256,
activation="swiglu")` multiplies 2,048 rows, about 16 of each expert, by that expert's weights. A tile has
rows of one expert only, so that 128 experts take 128 blocks of rows or more, of 64 rows and fewer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel, TiledWork, require_positive
from wavesim.model.regions import ELEMENT_BYTES, Matrix, Read, Region, Write
from wavesim.safe_io.bounds import shown
from wavesim.work.grouped.routing import ExpertOrder, Routing

T = TypeVar("T")
GROUPED_BLOCK = Block(threads=256, registers=168, dynamic_shared_bytes=222_208)
COMBINE_BLOCK = Block(threads=128, registers=40)
GatedActivation = Literal["swiglu"]


class RowBlock(NamedTuple):
    """Rows `top` up to `bottom`, all of one expert: of its `blocks`, this is `number`."""

    top: int
    bottom: int
    blocks: int
    number: int

    @property
    def rows(self) -> int:
        """How many."""
        return self.bottom - self.top


@dataclass(frozen=True)
class GroupedGemm(TiledWork):
    """out = activation(x x weight of the row's expert), for rows sorted by expert.

    Operands: x (rows, k), weight (experts * n, k), out (rows, columns). Rows are `tokens` times `top_k`, as
    `Routing` has them. Tile (x, y) is row block y, `tile_m` rows of an expert or the rest of them, and
    `tile_n` columns; experts come the longest first, or by number. Raises `DescriptionError`.
    """

    word = "grouped"
    multiplies_weights = True
    reads_in_step = True
    is_read_by_rows = True
    ahead_operands = ("weight",)

    name: str
    tokens: int
    experts: int
    top_k: int
    n: int
    k: int
    tile_m: int = 64
    tile_n: int = 256
    skew: float = 0.0
    seed: int = 0
    counts: Sequence[int] = ()
    expert_order: ExpertOrder = "longest"
    activation: GatedActivation | None = None
    dtype: Literal["fp16", "bf16"] = "bf16"
    block: Block = field(default=GROUPED_BLOCK)

    def __post_init__(self) -> None:
        owner = f"GroupedGemm {self.name}"
        require_positive(owner, **{size: getattr(self, size) for size in ("n", "k", "tile_m", "tile_n")})
        object.__setattr__(self, "counts", tuple(self.counts))
        for name, known in (
            ("activation", (None, *get_args(GatedActivation))),
            ("expert_order", get_args(ExpertOrder)),
        ):
            if getattr(self, name) not in known:
                words = ", ".join(map(repr, known))
                raise DescriptionError(f"{owner}: {name} is {shown(getattr(self, name))}; it must be {words}")
        try:
            _ = self.routing
        except DescriptionError as error:
            raise DescriptionError(f"{owner}: {error}") from None
        if self.activation and (self.n % 2 or self.tile_n % 2):
            raise DescriptionError(
                f"{owner}: n is {self.n}, tile_n {self.tile_n}; gates and values need even ones"
            )

    @property
    def routing(self) -> Routing:
        """Who computes which rows."""
        return Routing(self.tokens, self.experts, self.top_k, self.skew, self.seed, self.counts)

    @cached_property
    def row_blocks(self) -> tuple[RowBlock, ...]:
        """In the order of their tiles."""
        blocks, top = [], 0
        for rows in self.routing.in_order(self.expert_order):
            count = -(-rows // self.tile_m)
            for index in range(count):
                first = top + index * self.tile_m
                blocks.append(RowBlock(first, min(first + self.tile_m, top + rows), count, index))
            top += rows
        return tuple(blocks)

    @property
    def grid(self) -> Grid:
        """Tile columns x row blocks."""
        return Grid(-(-self.n // self.tile_n), len(self.row_blocks))

    @property
    def columns(self) -> int:
        """Of the output."""
        return self.n // 2 if self.activation else self.n

    @property
    def m(self) -> int:
        """Rows of all experts."""
        return self.routing.rows

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """All of them."""
        return {
            "x": Matrix(self.m, self.k, self.dtype),
            "weight": Matrix(self.experts * self.n, self.k, self.dtype, scale=self.k**-0.5),
            "out": Matrix(self.m, self.columns, self.dtype, is_written=True),
        }

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Its rows of x."""
        block = self.row_blocks[y]
        yield Read("x", Region(block.top, block.bottom, 0, self.k))

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its outputs."""
        block, width = self.row_blocks[y], self.tile_n * self.columns // self.n
        right = min((x + 1) * width, self.columns)
        yield Write("out", Region(block.top, block.bottom, x * width, right))

    @property
    def output_tile(self) -> tuple[int, int]:
        """Rows and columns of a full tile."""
        return self.tile_m, self.tile_n

    def made_operands(self, makers: Sequence[T]) -> Mapping[str, T]:
        """x, where one stage makes all of it."""
        return {"x": makers[0]} if all(maker == makers[0] for maker in makers) else {}

    @property
    def touched(self) -> int:
        """Experts that have rows."""
        return sum(block.number == 0 for block in self.row_blocks)

    @property
    def weight_bytes(self) -> int:
        """Of the touched experts."""
        return ELEMENT_BYTES[self.dtype] * self.touched * self.n * self.k

    @property
    def read_bytes(self) -> int:
        """Weights and rows."""
        return self.weight_bytes + ELEMENT_BYTES[self.dtype] * self.m * self.k

    @property
    def flops(self) -> int:
        """Of the rows that there are."""
        return 2 * self.m * self.n * self.k

    @property
    def kernel(self) -> Kernel:
        """The launch; what a block does is a mean over unequal tiles."""
        moved, size = self.read_bytes + ELEMENT_BYTES[self.dtype] * self.m * self.columns, self.grid.size
        return Kernel(self.name, self.grid, self.block, self.flops // size, moved // size, "full")

    def is_memory_bound(self, device: Device) -> bool:
        """Whether the device reads weights more slowly than it multiplies."""
        return self.read_bytes / device.dram_bytes_per_s > self.flops / device.tensor_flops_per_s

    def ahead_bytes(self, x: int, y: int, z: int) -> int:
        """The weights of a tile's columns."""
        return ELEMENT_BYTES[self.dtype] * min(self.tile_n, self.n - x * self.tile_n) * self.k

    def prefetch_share(self, device: Device) -> float:
        """Of a block's work, weights that fit into its shared memory."""
        if not self.is_memory_bound(device):
            return 0.0
        row = ELEMENT_BYTES[self.dtype] * (self.tile_m + self.tile_n)
        of_weights = self.tile_n / (self.tile_m + self.tile_n)
        return min(1.0, self.block.shared_bytes / row / self.k) * of_weights

    def redrawn(self, seed: int) -> "GroupedGemm | None":
        """The same routed by another draw; None where all counts are known."""
        return replace(self, seed=seed) if self.routing.is_drawn else None

    def with_m(self, m: int, tile_rows: int = 0) -> "GroupedGemm":
        """The same for another number of tokens, drawn anew."""
        return replace(self, tokens=m, counts=())

    def require_agrees(self, own: Any, stages: Sequence[Any], producers: Sequence[str]) -> None:
        """Raises `DescriptionError` where what makes x routes its rows otherwise."""
        for stage in stages:
            blocks = getattr(stage.work, "row_blocks", None)
            if stage.name in producers and blocks is not None and blocks != self.row_blocks:
                raise DescriptionError(
                    f"{own.name} has {len(self.row_blocks)} blocks of rows, {stage.name} {len(blocks)}, or "
                    "of other rows; give both the same tokens, experts, top_k, skew, seed, counts and tile_m"
                )


@dataclass(frozen=True)
class Combine(TiledWork):
    """out = the weighted sum of each token's `top_k` rows of made, (tokens * top_k, columns), fp32 inside.

    Tile (0, y) is `tile_m` tokens; their rows may be any.
    """

    word = "combine"

    name: str
    tokens: int
    top_k: int
    columns: int
    tile_m: int = 1
    dtype: Literal["fp16", "bf16"] = "bf16"
    block: Block = field(default=COMBINE_BLOCK)

    def __post_init__(self) -> None:
        sizes = ("tokens", "top_k", "columns", "tile_m")
        require_positive(f"Combine {self.name}", **{name: getattr(self, name) for name in sizes})

    @property
    def grid(self) -> Grid:
        """A column of token blocks."""
        return Grid(1, -(-self.tokens // self.tile_m))

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """What the experts made, and the sums."""
        return {
            "made": Matrix(self.tokens * self.top_k, self.columns, self.dtype),
            "out": Matrix(self.tokens, self.columns, self.dtype, is_written=True),
        }

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Any rows: which ones is known at run time."""
        yield Read("made", Region(0, self.tokens * self.top_k, 0, self.columns))

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its tokens."""
        yield Write("out", Region(y * self.tile_m, min((y + 1) * self.tile_m, self.tokens), 0, self.columns))

    def made_operands(self, makers: Sequence[T]) -> Mapping[str, T]:
        """All rows, where one stage makes them."""
        return {"made": makers[0]} if all(maker == makers[0] for maker in makers) else {}

    @property
    def kernel(self) -> Kernel:
        """The launch, bound by what it moves."""
        moved = ELEMENT_BYTES[self.dtype] * self.tokens * (self.top_k + 1) * self.columns
        return Kernel(
            self.name, self.grid, self.block, bytes_per_block=moved // self.grid.size, carveout="full"
        )

    def is_memory_bound(self, device: Device) -> bool:
        """It is."""
        return True
