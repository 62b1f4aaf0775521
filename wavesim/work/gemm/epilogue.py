"""What a layer's product does with its outputs: a rotation of heads, a cache that K and V are stored into.

Example: a QKV product of 32 heads and 8 KV heads of 128 columns has `rope=Rope(heads=40, head_dim=128,
rows=1024)`, which rotates Q and K, and `cache=CacheStore(columns=1024, rows=1024, capacity=4096)`: its last
2,048 columns go to the caches of K and V, and C keeps Q's 4,096 alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.regions import MOST_INDEX, Element, Matrix, Region, Write
from wavesim.safe_io.bounds import whole

HEAD_DIMS = (64, 128)  # of which kernels rotate heads
COLUMN_UNIT = 64  # a multiple of which K and V have columns


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding of the first `heads` heads of `head_dim` columns.

    Of a head's columns, each pair (i, i + head_dim / 2) is rotated. Row t of a sequence of `rows` rows has
    position `first` + t. The operand "rope", fp32 of (first + rows, head_dim), holds cosine and sine of a
    position's pairs, one after the other: cos_0, sin_0, cos_1, ... Source: Su et al., "RoFormer", 2021, with
    the pairs of GPT-NeoX and Llama. Raises `DescriptionError` for a head size that no kernel rotates.
    """

    heads: int
    head_dim: int
    rows: int
    first: int = 0

    def __post_init__(self) -> None:
        for name in ("heads", "rows"):
            whole(f"Rope: {name}", getattr(self, name), 1, MOST_INDEX)
        whole("Rope: first", self.first, 0, MOST_INDEX)
        if self.head_dim not in HEAD_DIMS:
            raise DescriptionError(
                f"Rope: head_dim is {self.head_dim}; kernels rotate heads of "
                f"{' and '.join(map(str, HEAD_DIMS))} columns"
            )

    @property
    def columns(self) -> int:
        """That are rotated, the first ones."""
        return self.heads * self.head_dim

    @property
    def table(self) -> Matrix:
        """Cosines and sines by position."""
        return Matrix(self.first + self.rows, self.head_dim, "fp32")


@dataclass(frozen=True)
class CacheStore:
    """The last 2 x `columns` columns of a product are K and V, which are stored into a cache each.

    Operands "k_cache" and "v_cache", (sequences * capacity, columns): row t of the `rows` new ones of a
    sequence becomes row `first` + t of its `capacity`. Raises `DescriptionError` for a cache too short and
    for columns that no kernel stores.
    """

    columns: int
    rows: int
    capacity: int
    first: int = 0

    def __post_init__(self) -> None:
        for name in ("columns", "rows", "capacity"):
            whole(f"CacheStore: {name}", getattr(self, name), 1, MOST_INDEX)
        whole("CacheStore: first", self.first, 0, MOST_INDEX)
        if self.columns % COLUMN_UNIT:
            raise DescriptionError(
                f"CacheStore: columns is {self.columns}; K and V have multiples of {COLUMN_UNIT}"
            )
        if self.first + self.rows > self.capacity:
            raise DescriptionError(
                f"CacheStore: capacity is {self.capacity}; {self.first} cached rows and {self.rows} new ones "
                f"need {self.first + self.rows}"
            )

    def cache(self, m: int, dtype: Element) -> Matrix:
        """K's or V's, for a product of m rows."""
        return Matrix(m // self.rows * self.capacity, self.columns, dtype, is_written=True)

    def writes(self, tile: Region, kept: int) -> Iterable[Write]:
        """Where a tile's K and V go; `tile` is among all columns, of which C has the first `kept`."""
        for number, name in enumerate(("k_cache", "v_cache")):
            first = kept + number * self.columns
            left, right = (min(max(end - first, 0), self.columns) for end in (tile.left, tile.right))
            if left == right:
                continue
            for sequence in range(tile.top // self.rows, -(-tile.bottom // self.rows)):
                top, bottom = (
                    min(max(end - sequence * self.rows, 0), self.rows) for end in (tile.top, tile.bottom)
                )
                moved = sequence * self.capacity + self.first
                yield Write(name, Region(moved + top, moved + bottom, left, right))


def require_fits(gemm: Any) -> None:
    """Raises `DescriptionError` unless a product has the columns and rows of its rope and cache."""
    owner, rope, cache = f"Gemm {gemm.name}", gemm.rope, gemm.cache
    for name, part, columns, unit in (
        ("rope", rope, rope.columns if rope else 0, rope.head_dim if rope else 1),
        ("cache", cache, 2 * cache.columns + 1 if cache else 0, 1),
    ):
        if part is None:
            continue
        if gemm.activation is not None:
            raise DescriptionError(
                f"{owner}: activation is {gemm.activation!r}; with {name} it must be None, because Q, K "
                "and V have none"
            )
        if gemm.n < columns or gemm.n % unit:
            raise DescriptionError(
                f"{owner}: n is {gemm.n}; {part} needs at least {columns}, a multiple of {unit}"
            )
        if gemm.m % part.rows:
            raise DescriptionError(
                f"{owner}: m is {gemm.m}; with {name} it must be a multiple of the {part.rows} rows of a "
                "sequence"
            )
    if cache is not None and gemm.has_residual:
        raise DescriptionError(
            f"{owner}: has_residual is True and cache {cache}; Q, K and V take no residual. Leave one out"
        )
