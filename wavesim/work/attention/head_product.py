"""The two products of attention by five kernels, batched over heads and sequences: scores and context.

Example: `HeadProduct("scores", "scores", sequences=1, length=1024, heads=12, kv_heads=12)` multiplies each
head's 1,024 queries by its 1,024 keys: a grid of 12 heads x 8 blocks of keys by 8 blocks of queries. The
context multiplies what the softmax makes of them by the values. Both operands may be made by the same run, so
a tile waits for both. What a causal mask would hide is computed too, as in the cuSync paper's kernels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block, Grid, Kernel, require_positive
from wavesim.model.regions import ELEMENT_BYTES, Matrix, Read, Region, Write
from wavesim.work.attention import require_cache_rows, require_groups
from wavesim.work.query_rows import QueryRows

Product = Literal["scores", "context"]
ROW_UNIT = 8  # elements that are loaded at once
READ_TOGETHER = (
    4  # k-blocks whose operands are said to be read at the first: about a tile of whoever makes them
)
HEAD_PRODUCT_BLOCK = Block(threads=128, registers=216, static_shared_bytes=128, dynamic_shared_bytes=65_536)


@dataclass(frozen=True)
class HeadProduct(QueryRows):
    """The product "scores" is scale Q K^T by heads; "context" is P V, of weights P over all keys.

    Operands of the scores: a (sequences * length, heads * head_dim), b (sequences * length, kv_heads *
    head_dim), out (sequences * length, heads * keys): a row of it holds all heads of a query. Of the context:
    a and out the other way round. b are the run's own keys or values; head h reads KV head h // (heads /
    kv_heads). With a cache of `kv_rows` rows a sequence, operand `cache` (sequences * kv_rows, kv_heads *
    head_dim) holds `cached` earlier ones, and tiles of a sequence's last rows store the run's own behind
    them. A tile is `tile_m` query rows by `tile_n` columns of one head of one sequence. Raises
    `DescriptionError` for head sizes and numbers of keys without kernel, and a cache too short.
    """

    word = "head_product"

    name: str
    product: Product
    sequences: int
    length: int
    heads: int
    kv_heads: int
    head_dim: int = 128
    cached: int = 0
    kv_rows: int = 0
    tile_m: int = 128
    tile_n: int = 0
    tile_k: int = 32
    dtype: Literal["fp16", "bf16"] = "fp16"
    block: Block = field(default=HEAD_PRODUCT_BLOCK)

    def __post_init__(self) -> None:
        owner = f"HeadProduct {self.name}"
        if self.product not in get_args(Product):
            raise DescriptionError(f"{owner}: product is {self.product!r}; it must be 'scores' or 'context'")
        if self.tile_n == 0:
            object.__setattr__(self, "tile_n", 128 if self.product == "scores" or self.head_dim > 64 else 64)
        sizes = ("sequences", "length", "heads", "kv_heads", "head_dim", "tile_m", "tile_n", "tile_k")
        require_positive(owner, **{name: getattr(self, name) for name in sizes})
        for name in ("cached", "kv_rows"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 0:
                raise DescriptionError(
                    f"{owner}: {name} is {getattr(self, name)}; it must be an integer of at least 0"
                )
        self._require_kernel(owner)

    def _require_kernel(self, owner: str) -> None:
        """Raises `DescriptionError` for heads and keys that no kernel takes, and a cache too short."""
        require_groups(owner, self.heads, self.kv_heads)
        if self.head_dim % ROW_UNIT:
            raise DescriptionError(
                f"{owner}: head_dim is {self.head_dim}; it must be a multiple of {ROW_UNIT}. Pad the heads"
            )
        if self.keys % ROW_UNIT:
            raise DescriptionError(
                f"{owner}: cached {self.cached} + length {self.length} are {self.keys} keys; they must be a "
                f"multiple of {ROW_UNIT}, so that each head's scores begin at 16 bytes. Pad the sequences"
            )
        if self.cached or self.kv_rows:
            require_cache_rows(owner, self.kv_rows, self.cached, self.length)

    @property
    def keys(self) -> int:
        """Of a sequence, with those cached."""
        return self.cached + self.length

    @property
    def k(self) -> int:
        """Products that are summed up for an output."""
        return self.head_dim if self.product == "scores" else self.keys

    @property
    def n(self) -> int:
        """Columns of a head's output."""
        return self.keys if self.product == "scores" else self.head_dim

    @property
    def columns(self) -> int:
        """Of the output."""
        return self.heads * self.n

    @property
    def scale(self) -> float:
        """Of the scores: 1 / sqrt(head_dim); of the context 1."""
        return float(self.head_dim**-0.5) if self.product == "scores" else 1.0

    @property
    def column_blocks(self) -> int:
        """Tiles of a head side by side: blocks of keys of the scores."""
        return -(-self.n // self.tile_n)

    @property
    def grid(self) -> Grid:
        """Heads' tiles side by side x sequences' row blocks."""
        return Grid(self.heads * self.column_blocks, self.sequences * self.row_blocks)

    def items(self, x: int, y: int, z: int) -> int:
        """K-blocks: `Read.at` counts them."""
        return -(-self.k // self.tile_k)

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """a, b and out; with `kv_rows` cache too, which is written where the run's own rows are."""
        width = self.kv_heads * self.head_dim
        cache = Matrix(max(1, self.sequences * self.kv_rows), width, self.dtype, is_written=True)
        return {
            "a": Matrix(self.m, self.heads * self.k, self.dtype),
            "b": Matrix(self.m, width, self.dtype),
            **({"cache": cache} if self.kv_rows else {}),
            "out": Matrix(self.m, self.columns, self.dtype, is_written=True),
        }

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """By a few k-blocks its rows of A and what it multiplies them by, of the cache and of b."""
        head, block = divmod(x, self.column_blocks)
        sequence, top, bottom = self.query_rows(y)
        left = block * self.tile_n, min((block + 1) * self.tile_n, self.n)
        for at in range(0, self.items(x, y, z), READ_TOGETHER):
            part = at * self.tile_k, min((at + READ_TOGETHER) * self.tile_k, self.k)
            rows = Region(top, bottom, *part).moved(sequence * self.length, head * self.k)
            yield Read("a", rows, at)
            keys, columns = (left, part) if self.product == "scores" else (part, left)
            yield from self._keys_read(sequence, head, Region(*keys, *columns), at)

    def _keys_read(self, sequence: int, head: int, region: Region, at: int) -> Iterable[Read]:
        """A region of the sequence's keys and of a head's columns, as parts of the cache and of b."""
        column = head // (self.heads // self.kv_heads) * self.head_dim
        old = region._replace(bottom=min(region.bottom, self.cached))
        own = region._replace(top=max(region.top, self.cached))
        if old.top < old.bottom:
            yield Read("cache", old.moved(sequence * self.kv_rows, column), at)
        if own.top < own.bottom:
            yield Read("b", own.moved(sequence * self.length - self.cached, column), at)

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its tile of the output, and the run's own rows into the cache where it stores them."""
        head, block = divmod(x, self.column_blocks)
        sequence, top, bottom = self.query_rows(y)
        left, right = block * self.tile_n, min((block + 1) * self.tile_n, self.n)
        yield Write("out", Region(top, bottom, left, right).moved(sequence * self.length, head * self.n))
        group = self.heads // self.kv_heads
        is_last = bottom == self.length and head % group == 0
        if self.kv_rows and is_last and (self.product == "scores" or block == 0):
            first, end = (left, right) if self.product == "scores" else (0, self.keys)
            own = Region(max(first, self.cached), end, 0, self.head_dim)
            if own.top < own.bottom:
                yield Write("cache", own.moved(sequence * self.kv_rows, head // group * self.head_dim))

    @property
    def flops(self) -> int:
        """Of all scores, masked or not."""
        return 2 * self.sequences * self.length * self.heads * self.head_dim * self.keys

    @property
    def kernel(self) -> Kernel:
        """The launch; edge tiles count as whole ones, and a tile's operands as read by it alone."""
        moved = ELEMENT_BYTES[self.dtype] * (
            (self.tile_m + self.tile_n) * self.k + self.tile_m * min(self.tile_n, self.n)
        )
        flops = 2 * self.tile_m * self.tile_n * self.k
        return Kernel(self.name, self.grid, self.block, flops, moved, carveout="full")
