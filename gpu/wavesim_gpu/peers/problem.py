"""A product across ranks, described: its sizes, its collective, and how its tiles are dealt out.

Example: `SharedGemm(2048, 6144, 12288, Collective("reduce-scatter"), ranks=2)` on 128 x 256 tiles: rank 0
keeps rows 0 to 1,023 of the sum, rank 1 the others; each makes the other's rows first and its own last.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from wavesim.errors import DescriptionError
from wavesim.model.collective import Collective
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Gemm, Order
from wavesim.model.pipeline import Pipeline
from wavesim.model.rows import Copy
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan

UNIT = 8  # elements: 16 bytes
TILE_K = 64
GATHERED_COLUMNS = 4  # tiles that a row of tiles of A is sent in


@dataclass(frozen=True)
class SharedGemm:
    """C (m, n) = A (m, k) x B (k, n), fp16 or bf16, summed over the ranks or, for an all-gather, of A's rows.

    Sizes are those of one rank's product: k is a rank's share where sums follow, n where A is gathered.
    `tile_m` and `tile_n` are a Hopper tile. Raises `DescriptionError`.
    """

    m: int
    n: int
    k: int
    collective: Collective
    ranks: int = 2
    dtype: Literal["fp16", "bf16"] = "bf16"
    tile_m: int = 128
    tile_n: int = 256
    split_k: int = 1
    b_order: Order = "row"
    has_bias: bool = False
    group: int = 8

    def __post_init__(self) -> None:
        what = f"SharedGemm {self.m} x {self.n} x {self.k}:"
        for name in ("n", "k"):
            if getattr(self, name) % UNIT:
                raise DescriptionError(
                    f"{what} {name} is {getattr(self, name)}; it must be a multiple of {UNIT}. Pad it"
                )
        if self.tile_n % TILE_K:
            raise DescriptionError(
                f"{what} tile_n is {self.tile_n}; it must be a multiple of {TILE_K}. Use 128 or 256"
            )
        if self.collective.kind != "all-reduce" and self.m % (self.ranks * self.tile_m):
            raise DescriptionError(
                f"{what} m is {self.m}; for {self.collective.kind} over {self.ranks} ranks it must be a "
                f"multiple of {self.ranks * self.tile_m}, whole tiles for each. Pad the rows, or use NCCL"
            )
        if self.has_bias and self.collective.kind != "all-gather":
            raise DescriptionError(f"{what} has a bias, which every rank would add once. Add it afterwards")
        _ = self.gemm

    @property
    def gemm(self) -> Gemm:
        """One rank's product."""
        return Gemm(
            "gemm", self.m, self.n, self.k, self.tile_m, self.tile_n, TILE_K,
            split_k=self.split_k, dtype=self.dtype, b_order=self.b_order, has_bias=self.has_bias,
        )  # fmt: skip

    @property
    def gathers(self) -> bool:
        """Whether A comes from the ranks; else C goes to them."""
        return self.collective.kind == "all-gather"

    @property
    def is_one_shot(self) -> bool:
        """Whether every rank adds up every tile."""
        return self.collective == Collective("all-reduce", "one-shot")

    @property
    def rows(self) -> int:
        """Rows of tiles."""
        return -(-self.m // self.tile_m)

    @property
    def columns(self) -> int:
        """Columns of tiles."""
        return -(-self.n // self.tile_n)

    @property
    def tiles(self) -> int:
        """All of them."""
        return self.rows * self.columns

    @property
    def share(self) -> int:
        """Consecutive rows of tiles that one rank adds up; 0: columns of tiles, in turns."""
        return self.rows // self.ranks if self.collective.kind == "reduce-scatter" else 0

    def first_row(self, rank: int) -> int:
        """The row of tiles that a rank makes first: what others wait for comes before its own."""
        if self.collective.kind == "reduce-scatter":
            return (rank + 1) * self.share % self.rows
        return rank * (self.rows // self.ranks) if self.gathers else 0

    def owner(self, tile_x: int, tile_y: int) -> int:
        """The rank that adds up a tile, as tiles.cuh has it."""
        return tile_x % self.ranks if self.share == 0 else tile_y // self.share % self.ranks

    def made(self, rank: int) -> list[tuple[int, int]]:
        """All tiles (x, y) in the order in which a rank makes them."""
        order = self.plan.order_of("gemm").sequence(self.gemm.grid)
        return [(tile_x, (tile_y + self.first_row(rank)) % self.rows) for tile_x, tile_y in order]

    def added_by(self, rank: int) -> list[int]:
        """Numbers, y * columns + x, of the tiles that a rank adds up, in the order in which it makes them."""
        return [
            tile_y * self.columns + tile_x
            for tile_x, tile_y in self.made(rank)
            if self.is_one_shot or self.owner(tile_x, tile_y) == rank
        ]

    @cached_property
    def gathered(self) -> Copy:
        """A as tiles that are sent: whole rows of tiles, K in a few parts."""
        width = -(-self.k // GATHERED_COLUMNS // TILE_K) * TILE_K
        return Copy("gather", self.m, self.k, self.tile_m, min(width, self.k), dtype=self.dtype)

    @property
    def pipeline(self) -> Pipeline:
        """What one rank's kernel is generated from."""
        gemm = Stage("gemm", self.gemm)
        if not self.gathers:
            return Pipeline("shared gemm", [gemm])
        gather = Stage("gather", self.gathered)
        return Pipeline("gathered gemm", [gather, gemm], [Dependency(gemm[x, y], [gather[:, y]])])

    @property
    def plan(self) -> Plan:
        """Persistent blocks in groups of rows, none of which reaches from one rank's rows into another's."""
        words = "persistent+pdl+tile" if self.gathers else "persistent+one-stream+boundary"
        most = self.rows // self.ranks if self.collective.kind != "all-reduce" else self.rows
        return parse_plan(words, f"grouped:{max(1, min(self.group, most))}")
