"""Fused attention: softmax(scale Q K^T) V by blocks of query rows; `decode` has the form for one query.

Example: `Attention("attention", sequences=1, length=1024, heads=12, kv_heads=12, head_dim=128)` is a grid of
12 heads by 8 blocks of 128 query rows. Block (h, i) reads its rows of Q, then K and V block by block; under
the causal mask, block 0 reads one of 8 and block 7 all: its tiles are unequal, and which come first matters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block, Kernel, MainLoop, require_positive
from wavesim.model.regions import ELEMENT_BYTES, Matrix, Read, Region, Write
from wavesim.work.attention.kv_cache import require_caches_agree
from wavesim.work.query_rows import QueryRows

HEAD_DIMS = (64, 128)
ATTENTION_BLOCK = Block(threads=384, registers=168, dynamic_shared_bytes=200_704)


def require_groups(owner: str, heads: int, kv_heads: int) -> None:
    """Raises `DescriptionError` unless as many query heads share each KV head."""
    if heads % kv_heads:
        raise DescriptionError(
            f"{owner}: heads is {heads} and kv_heads {kv_heads}; heads must be a multiple of kv_heads"
        )


def require_cache_rows(owner: str, kv_rows: int, cached: int, length: int) -> None:
    """Raises `DescriptionError` for a cache that the keys do not fit into."""
    if kv_rows < cached + length:
        raise DescriptionError(
            f"{owner}: the cache has {kv_rows} rows for a sequence; cached {cached} + length {length} need "
            f"{cached + length}. Use a cache of at least {cached + length} rows"
        )


def require_heads(owner: str, heads: int, kv_heads: int, head_dim: int) -> None:
    """Raises `DescriptionError` for heads that no kernel computes."""
    require_groups(owner, heads, kv_heads)
    if head_dim not in HEAD_DIMS:
        raise DescriptionError(
            f"{owner}: head_dim is {head_dim}; kernels have {' and '.join(map(str, HEAD_DIMS))}. Pad the "
            f"heads"
        )


def _require_dropout(owner: str, dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise DescriptionError(f"{owner}: dropout is {dropout}; it must be at least 0 and below 1")


@dataclass(frozen=True)
class Attention(QueryRows):
    """Prefill: `length` queries of each sequence attend to `cached` earlier keys and to their own.

    Operands: q (sequences * length, heads * head_dim), k and v (sequences * kv_rows, kv_heads * head_dim),
    out as q. Row t of a sequence's own keys is row `cached + t` of its `kv_rows` (the capacity of a cache;
    by default cached + length). Head h reads KV head h // (heads / kv_heads). `is_causal`: query t sees keys
    up to cached + t. A tile is `tile_m` query rows of one head of one sequence; K and V come in blocks of
    `tile_n` keys, which are the work items. `dropout` drops scores after the softmax, by `seed`, whatever
    the tiles. Raises `DescriptionError` for head sizes without kernel and a cache too short.
    """

    word = "attention"
    attends = True
    main_loop = MainLoop(1, "producer-warp")  # it looks at semaphores block after block of keys

    name: str
    sequences: int
    length: int
    heads: int
    kv_heads: int
    head_dim: int = 128
    cached: int = 0
    is_causal: bool = True
    tile_m: int = 128
    tile_n: int = 128
    dtype: Literal["fp16", "bf16"] = "fp16"
    kv_rows: int = 0
    dropout: float = 0.0
    seed: int = 0
    block: Block = field(default=ATTENTION_BLOCK)

    def __post_init__(self) -> None:
        owner = f"Attention {self.name}"
        sizes = ("sequences", "length", "heads", "kv_heads", "head_dim", "tile_m", "tile_n")
        require_positive(owner, **{name: getattr(self, name) for name in sizes})
        if not isinstance(self.cached, int) or self.cached < 0:
            raise DescriptionError(f"{owner}: cached is {self.cached}; it must be an integer of at least 0")
        require_heads(owner, self.heads, self.kv_heads, self.head_dim)
        _require_dropout(owner, self.dropout)
        if self.kv_rows == 0:
            object.__setattr__(self, "kv_rows", self.keys)
        require_cache_rows(owner, self.kv_rows, self.cached, self.length)

    @property
    def keys(self) -> int:
        """Of a sequence, with those cached."""
        return self.cached + self.length

    @property
    def columns(self) -> int:
        """Of the output."""
        return self.heads * self.head_dim

    @property
    def scale(self) -> float:
        """Of the scores: 1 / sqrt(head_dim)."""
        return float(self.head_dim**-0.5)

    def reading_cache(self, cached: int, capacity: int) -> "Attention":
        """The same, with all keys in a cache, its own among them, behind so many earlier ones."""
        return replace(self, cached=cached, kv_rows=capacity)

    @property
    def new_rows(self) -> int:
        """Of a sequence, which attend and whose keys are new."""
        return self.length

    @property
    def looks(self) -> int:
        """Blocks of keys of the longest tile."""
        return max(self.items(0, y, 0) for y in range(self.grid.y))

    @property
    def row_weights(self) -> tuple[float, ...]:
        """Under the causal mask, blocks of keys that a tile row reads."""
        return tuple(float(self.items(0, y, 0)) for y in range(self.grid.y)) if self.is_causal else ()

    def require_agrees(self, own: Any, stages: Sequence[Any], producers: Sequence[str]) -> None:
        """Raises `DescriptionError` for a product that stores another KV cache than this reads."""
        require_caches_agree(own, stages, producers)

    def keys_of(self, y: int) -> int:
        """How many keys the tiles of row y read."""
        return self.cached + self.query_rows(y)[2] if self.is_causal else self.keys

    def items(self, x: int, y: int, z: int) -> int:
        """Blocks of keys: `Read.at` counts them in ascending order."""
        return -(-self.keys_of(y) // self.tile_n)

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """q, k, v and out."""
        own = Matrix(self.m, self.columns, self.dtype)
        keys = Matrix(self.sequences * self.kv_rows, self.kv_heads * self.head_dim, self.dtype)
        out = Matrix(self.m, self.columns, self.dtype, is_written=True)
        return {"q": own, "k": keys, "v": keys, "out": out}

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """Its rows of Q at once, then K and V block by block."""
        yield Read("q", self._rows_of_head(x, y))
        sequence, keys = y // self.row_blocks, self.keys_of(y)
        left = x // (self.heads // self.kv_heads) * self.head_dim
        for block in range(self.items(x, y, z)):
            top, bottom = block * self.tile_n, min((block + 1) * self.tile_n, keys)
            region = Region(top, bottom, left, left + self.head_dim).moved(sequence * self.kv_rows, 0)
            yield Read("k", region, block)
            yield Read("v", region, block)

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """Its rows of the head's columns."""
        yield Write("out", self._rows_of_head(x, y))

    def _rows_of_head(self, x: int, y: int) -> Region:
        sequence, top, bottom = self.query_rows(y)
        left = x * self.head_dim
        return Region(top, bottom, left, left + self.head_dim).moved(sequence * self.length, 0)

    @property
    def flops(self) -> int:
        """Of the scores that the mask leaves, two products of 2 head_dim operations each."""
        whole = self.length * self.keys
        hidden = self.length * (self.length - 1) // 2 if self.is_causal else 0
        return 4 * self.sequences * self.heads * self.head_dim * (whole - hidden)

    @property
    def kernel(self) -> Kernel:
        """The launch; work per block is the mean over unequal tiles, with the scores that the mask hides."""
        blocks = sum(self.items(0, y, 0) for y in range(self.grid.y)) * self.heads
        flops = 4 * self.tile_m * self.tile_n * self.head_dim * blocks // self.grid.size
        moved = ELEMENT_BYTES[self.dtype] * (
            2 * self.m * self.columns + 2 * self.operands["k"].rows * (self.kv_heads * self.head_dim)
        )
        return Kernel(self.name, self.grid, self.block, flops, moved // self.grid.size, carveout="full")
