"""A product across ranks, described: its sizes, its collective, and how its tiles are dealt out.

Example: `SharedGemm(2048, 6144, 12288, Collective("reduce-scatter"), ranks=2)` on 128 x 256 tiles: rank 0
keeps rows 0 to 1,023 of the sum, rank 1 the others; each makes the other's rows first and its own last.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import require_positive
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.work.collective import Collective
from wavesim.work.gemm import Gemm, Order
from wavesim.work.rows import Copy, Norm
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS
from wavesim_gpu.peers.layout import MAX_RANKS

SIZES = ("m", "n", "k", "ranks", "tile_m", "tile_n", "split_k", "group")
UNIT = 8  # elements: 16 bytes
TILE_K = 64
GATHERED_COLUMNS = 4  # tiles that a row of tiles of A is sent in
MOST_NORM_COLUMNS = 16_384  # that the threads of a block hold in registers, four vectors each


@dataclass(frozen=True)
class NormedGemm:
    """What follows an all-reduce in a chain: a residual is added, RMSNorm, and a product (m, n) of its rows.

    `unit_rows` rows are normed at a time.
    """

    n: int
    unit_rows: int = 8
    epsilon: float = 1e-5


@dataclass(frozen=True)
class SharedGemm:
    """C (m, n) = A (m, k) x B (k, n), fp16 or bf16, summed over the ranks or, for an all-gather, of A's rows.

    Sizes are those of one rank's product: k is a rank's share where sums follow, n where A is gathered.
    `tile_m` and `tile_n` are a Hopper tile. `chunk_rows` rows of tiles belong together: they are added up by
    one rank, in turns (all-reduce; 0: columns of tiles are), and copied at once. Raises `DescriptionError`.
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
    chunk_rows: int = 0
    following: NormedGemm | None = None

    def __post_init__(self) -> None:
        require_positive("SharedGemm", **{name: getattr(self, name) for name in SIZES})
        what = f"SharedGemm {self.m} x {self.n} x {self.k}:"
        if not 2 <= self.ranks <= MAX_RANKS:
            raise DescriptionError(f"{what} ranks is {self.ranks}; it must be 2 to {MAX_RANKS}")
        for name in ("n", "k"):
            if getattr(self, name) % UNIT:
                raise DescriptionError(
                    f"{what} {name} is {getattr(self, name)}; it must be a multiple of {UNIT}. Pad it"
                )
        if self.tile_n % TILE_K:
            raise DescriptionError(
                f"{what} tile_n is {self.tile_n}; it must be a multiple of {TILE_K}. Use 128 or 256"
            )
        if (self.tile_m, self.tile_n) not in TILE_CONFIGS:
            known = ", ".join(f"{m}x{n}" for m, n in TILE_CONFIGS if n % TILE_K == 0)
            raise DescriptionError(
                f"{what} the tile is {self.tile_m}x{self.tile_n}; there are {known}. Use one of these"
            )
        if self.collective.kind != "all-reduce" and self.m % (self.ranks * self.tile_m):
            raise DescriptionError(
                f"{what} m is {self.m}; for {self.collective.kind} over {self.ranks} ranks it must be a "
                f"multiple of {self.ranks * self.tile_m}, whole tiles for each. Pad the rows, or use NCCL"
            )
        self._require_chunks(what)
        if self.following is not None:
            self._require_following(what, self.following)
        _ = self.gemm

    def _require_chunks(self, what: str) -> None:
        rows = self.rows // self.ranks if self.collective.kind == "reduce-scatter" else self.rows
        if not 0 <= self.chunk_rows <= rows:
            raise DescriptionError(f"{what} chunk_rows is {self.chunk_rows}; it must be 0 to {rows}")
        if self.chunk_rows and (self.gathers or self.is_one_shot):
            raise DescriptionError(
                f"{what} chunk_rows is {self.chunk_rows}; only two-shot all-reduce and reduce-scatter have "
                "rows that one rank adds up. Use 0"
            )
        if self.chunk_rows and self.collective.kind == "reduce-scatter" and rows % self.chunk_rows:
            raise DescriptionError(
                f"{what} chunk_rows is {self.chunk_rows}; it must divide a rank's {rows} rows of tiles"
            )

    def _require_following(self, what: str, following: NormedGemm) -> None:
        if self.collective.kind != "all-reduce" or self.chunk_rows == 0:
            raise DescriptionError(
                f"{what} is followed by a norm, which takes whole rows of sums on every rank. Use a two-shot "
                "all-reduce with chunk_rows=1 or more"
            )
        if following.n < 1 or following.n % UNIT or self.n > MOST_NORM_COLUMNS:
            raise DescriptionError(
                f"{what} is followed by a norm of {self.n} columns and a product with n = {following.n}; n "
                f"must be a multiple of {UNIT}, and a norm has at most {MOST_NORM_COLUMNS} columns"
            )
        if self.m % self.tile_m or following.unit_rows < 1 or self.tile_m % following.unit_rows:
            raise DescriptionError(
                f"{what} is followed by a norm of {following.unit_rows} rows at a time; they must divide "
                f"tile_m, {self.tile_m}, and tile_m must divide m. Pad the rows"
            )

    @property
    def gemm(self) -> Gemm:
        """One rank's product."""
        return Gemm(
            "gemm", self.m, self.n, self.k, self.tile_m, self.tile_n, TILE_K,
            split_k=self.split_k, dtype=self.dtype, b_order=self.b_order, has_bias=self.has_bias,
            carveout="full",
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
        return self.rows // self.ranks if self.collective.kind == "reduce-scatter" else self.chunk_rows

    def first_row(self, rank: int) -> int:
        """The row of tiles that a rank makes first: what others wait for comes before its own."""
        if self.gathers:
            return rank * (self.rows // self.ranks)
        first = (rank + 1) % self.ranks * self.share
        return first if first < self.rows else 0

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

    def chunks_sent(self, rank: int) -> list[tuple[int, int, int]]:
        """(owner, first row of tiles, rows) of the chunks that a rank makes for others, in the order in which
        it has made all of one.
        """
        height = self.chunk_rows or self.share
        last = {tile_y // height: at for at, (_, tile_y) in enumerate(self.made(rank))}
        chunks = [
            (self.owner(0, number * height), number * height, min(height, self.rows - number * height))
            for number in sorted(last, key=lambda number: last[number])
        ]
        return [chunk for chunk in chunks if chunk[0] != rank]

    def parts_sent(self, rank: int, parts: int) -> list[tuple[int, int, int]]:
        """(rank, first column of tiles of A, columns) of what the copy engine takes of an all-gather's own
        rows: one part of K to all others, then the next.
        """
        columns = self.gathered.grid.x
        edges = [columns * part // parts for part in range(parts + 1)]
        others = [(rank + step) % self.ranks for step in range(1, self.ranks)]
        return [(to, first, end - first) for first, end in pairwise(edges) for to in others]

    def units_normed_by(self, rank: int) -> list[int]:
        """Numbers of the units of rows that a rank norms, in the order in which it makes their tiles."""
        assert self.following is not None
        parts = self.tile_m // self.following.unit_rows
        rows = dict.fromkeys(tile_y for _, tile_y in self.made(rank) if self.owner(0, tile_y) == rank)
        return [tile_y * parts + part for tile_y in rows for part in range(parts)]

    @property
    def next_gemm(self) -> Gemm | None:
        """The product that follows, of all normed rows."""
        if self.following is None:
            return None
        return Gemm(
            "gemm", self.m, self.following.n, self.n, self.tile_m, self.tile_n, TILE_K,
            dtype=self.dtype, b_order=self.b_order, carveout="full",
        )  # fmt: skip

    @property
    def next_pipeline(self) -> Pipeline:
        """What that product's kernel is generated from: a tile waits for all units of its rows."""
        assert self.following is not None
        assert self.next_gemm is not None
        unit_rows, parts = self.following.unit_rows, self.tile_m // self.following.unit_rows
        norm = Norm("norm", self.m, self.n, unit_rows, dtype=self.dtype)
        normed = View("normed")  # of the norm's two outputs it is this one that is read
        norm_stage = Stage("norm", norm, buffers={"out": normed})
        gemm = Stage("gemm", self.next_gemm, buffers={"a": normed})
        return Pipeline(
            "normed gemm",
            [norm_stage, gemm],
            [Dependency(gemm[x, y], [norm_stage[0, parts * y : parts * y + parts]])],
        )

    @property
    def next_plan(self) -> Plan:
        """As of an all-gather's product: tiles are waited for one by one."""
        return parse_plan("persistent+pdl+tile", f"grouped:{max(1, min(self.group, self.chunk_rows))}")

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
        """Persistent blocks in groups of rows. Where sums follow none reaches from one rank's rows into
        another's, unless groups were too few rows; of an all-gather the last of a rank's may.
        """
        words = "persistent+pdl+tile" if self.gathers else "persistent+one-stream+boundary"
        most = self.rows // self.ranks if self.collective.kind != "all-reduce" else self.rows
        if self.chunk_rows:
            most = self.chunk_rows  # all of a chunk before the next
        return parse_plan(words, f"grouped:{_group(min(self.group, most), self.share)}")


def in_halves(problem: SharedGemm) -> SharedGemm:
    """The same, for two ranks of which each adds half of the rows; of a reduce-scatter they are its own."""
    if problem.collective.kind != "all-reduce":
        return problem
    return replace(problem, chunk_rows=-(-problem.rows // 2))


def _group(most: int, share: int) -> int:
    """Rows in a group: so many that no group reaches into another rank's rows, unless it were too few."""
    whole = [rows for rows in range(most, most // 2, -1) if share % rows == 0]
    return max(1, whole[0] if whole else most)


def turns_of(problem: SharedGemm, ahead: int) -> tuple[int, int]:
    """Of two ranks that exchange: how many of the other's tiles come first, and how many places it has.

    They take turns only where both have as many rows, in whole groups, and K is not split.
    """
    half = problem.rows // 2 * problem.columns * problem.split_k
    grid = problem.plan.order_of("gemm").sequence(problem.gemm.grid)
    first = [tile_y < problem.rows // 2 for _, tile_y in grid]
    is_even = problem.rows % 2 == 0 and problem.split_k == 1 and all(first[:half])
    return (min(ahead, half) if ahead and is_even else half), half
