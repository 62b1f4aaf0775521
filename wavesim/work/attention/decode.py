"""Attention in decode: one query of each sequence over its cached keys, which splits share out.

Keys go into so many splits that enough thread blocks read at once. Example: 32 sequences with 2 KV heads are
64 tiles; two splits give nearly every one of 132 SMs a block to read. 192 tiles are left whole: the SMs with
two blocks share the bandwidth with those that have one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import MAX_GRID_YZ, Block, Grid, Kernel, TiledWork, require_positive
from wavesim.model.occupancy import occupancy_of
from wavesim.model.regions import ELEMENT_BYTES, Matrix, Read, Region, Write
from wavesim.work.attention import require_heads
from wavesim.work.attention.kv_cache import require_caches_agree

DECODE_BLOCK = Block(threads=128, registers=168, dynamic_shared_bytes=98_304)
SLOTS = 3  # blocks of keys on their way to a thread block at once
TOO_CLOSE = 1.05  # what the estimate cannot tell apart: the fewest splits are taken


@dataclass(frozen=True)
class AttentionDecode(TiledWork):
    """Decode: one query of each sequence attends to `cached` keys and to its own, the KV heads side by side.

    Operands: q (sequences, heads * head_dim), k and v (sequences * kv_rows, kv_heads * head_dim), out as q.
    The step's own key and value are row `cached` of the sequence. With `appends` they are read from k_new
    and v_new (sequences, kv_heads * head_dim) and stored there by the block that reads them. Tile (x, y) is
    KV head x of sequence y, all its query heads; its keys are shared out to `splits` blocks in multiples of
    `tile_n`, the last of which to finish combines them and posts. With `has_lengths`, which needs `appends`,
    sequences differ: operand lengths (sequences, 1), int32, says how many keys each has with its own, from 1
    to cached + 1, and where the new row goes; it is there before the run. Others' outputs are NaN.
    """

    word = "decode"
    attends = True
    ahead_operands = ("k", "v")

    name: str
    sequences: int
    cached: int
    heads: int
    kv_heads: int
    head_dim: int = 128
    splits: int = 1
    tile_n: int = 64
    appends: bool = False
    dtype: Literal["fp16", "bf16"] = "fp16"
    kv_rows: int = 0
    has_lengths: bool = False
    block: Block = field(default=DECODE_BLOCK)

    def __post_init__(self) -> None:
        owner = f"AttentionDecode {self.name}"
        sizes = ("sequences", "heads", "kv_heads", "head_dim", "splits", "tile_n")
        require_positive(owner, **{name: getattr(self, name) for name in sizes})
        if not isinstance(self.cached, int) or self.cached < 0:
            raise DescriptionError(f"{owner}: cached is {self.cached}; it must be an integer of at least 0")
        require_heads(owner, self.heads, self.kv_heads, self.head_dim)
        if self.kv_rows == 0:
            object.__setattr__(self, "kv_rows", self.keys)
        if self.kv_rows < self.keys:
            raise DescriptionError(
                f"{owner}: the cache has {self.kv_rows} rows for a sequence; {self.keys} are read. Use a "
                f"cache of "
                f"at least {self.keys} rows"
            )
        if self.splits > self.key_blocks:
            raise DescriptionError(
                f"{owner}: splits is {self.splits}; {self.keys} keys are {self.key_blocks} blocks of "
                f"{self.tile_n}. Use at most {self.key_blocks}"
            )
        if self.has_lengths and not self.appends:
            raise DescriptionError(
                f"{owner}: has_lengths without appends; where a sequence's new row lies must be known to the "
                "kernel that stores it. Use appends"
            )

    @property
    def keys(self) -> int:
        """Of a sequence, with its own."""
        return self.cached + 1

    @property
    def key_blocks(self) -> int:
        """Blocks of `tile_n` keys, which the splits share out."""
        return -(-self.keys // self.tile_n)

    @property
    def grid(self) -> Grid:
        """KV heads x sequences x splits."""
        return Grid(self.kv_heads, self.sequences, self.splits)

    @property
    def m(self) -> int:
        """Rows of the output."""
        return self.sequences

    @property
    def columns(self) -> int:
        """Of the output."""
        return self.heads * self.head_dim

    @property
    def scale(self) -> float:
        """Of the scores: 1 / sqrt(head_dim)."""
        return float(self.head_dim**-0.5)

    def reading_cache(self, cached: int, capacity: int) -> "AttentionDecode":
        """The same, with all keys in a cache that another kernel fills; `cached` is as here, or 0."""
        if cached not in (0, self.cached):
            raise DescriptionError(
                f"cached is {cached}; decode attention {self.name} has {self.cached}. Give cached to "
                "transformer_layer"
            )
        return replace(self, kv_rows=capacity, appends=False)

    def in_splits(self, count: int) -> "AttentionDecode | None":
        """The same with the keys shared out; None for more splits than there are blocks of keys."""
        return replace(self, splits=count) if count <= self.key_blocks else None

    def with_splits_for(self, device: Device) -> "AttentionDecode":
        """The same with as many splits of the keys as keep a device's memory busy (`best_splits`)."""
        return replace(self, splits=best_splits(self, device))

    @property
    def new_rows(self) -> int:
        """Of a sequence."""
        return 1

    def require_agrees(self, own: Any, stages: Sequence[Any], producers: Sequence[str]) -> None:
        """Raises `DescriptionError` for a product that stores another KV cache than this reads."""
        require_caches_agree(own, stages, producers)

    def blocks_of(self, z: int) -> tuple[int, int]:
        """The blocks of keys, half-open, of split z; the device divides the same way."""
        return self.key_blocks * z // self.splits, self.key_blocks * (z + 1) // self.splits

    def items(self, x: int, y: int, z: int) -> int:
        """Blocks of keys of the split."""
        first, end = self.blocks_of(z)
        return end - first

    @property
    def operands(self) -> Mapping[str, Matrix]:
        """q, k, v and out; with `appends` k_new, v_new and a cache that is written too; perhaps lengths."""
        width = self.kv_heads * self.head_dim
        q = Matrix(self.sequences, self.columns, self.dtype)
        cache = Matrix(self.sequences * self.kv_rows, width, self.dtype, is_written=self.appends)
        new = {name: Matrix(self.sequences, width, self.dtype) for name in ("k_new", "v_new")}
        if not self.appends:
            new = {}
        if self.has_lengths:
            new["lengths"] = Matrix(self.sequences, 1, "int32", scale=0.0)
        out = Matrix(self.sequences, self.columns, self.dtype, is_written=True)
        return {"q": q, "k": cache, "v": cache, **new, "out": out}

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        """The queries of the KV head, its keys and values, the step's own before the last block."""
        group = self.heads // self.kv_heads * self.head_dim
        yield Read("q", Region(y, y + 1, x * group, (x + 1) * group))
        if self.has_lengths:
            yield Read("lengths", Region(y, y + 1, 0, 1))
        left, right = x * self.head_dim, (x + 1) * self.head_dim
        first, end = self.blocks_of(z)
        # Where lengths differ, any row may be another run's.
        cached = self.cached if self.appends and not self.has_lengths else self.keys
        for block in range(first, end):
            top, bottom = block * self.tile_n, min((block + 1) * self.tile_n, cached)
            if top < bottom:
                region = Region(top, bottom, left, right).moved(y * self.kv_rows, 0)
                yield Read("k", region, block - first)
                yield Read("v", region, block - first)
        if self.appends and z == self.splits - 1:
            for name in ("k_new", "v_new"):
                yield Read(name, Region(y, y + 1, left, right), end - first - 1)

    def writes(self, x: int, y: int) -> Iterable[Write]:
        """The outputs of the KV head's query heads; with `appends` its new row of the cache."""
        group = self.heads // self.kv_heads * self.head_dim
        yield Write("out", Region(y, y + 1, x * group, (x + 1) * group))
        if self.appends:
            end, left = y * self.kv_rows + self.keys, x * self.head_dim
            top = end - (self.keys if self.has_lengths else 1)
            for name in ("k", "v"):
                yield Write(name, Region(top, end, left, left + self.head_dim))

    def ahead_bytes(self, x: int, y: int, z: int) -> int:
        """The cached keys and values of a split."""
        first, end = self.blocks_of(z)
        keys = min(end * self.tile_n, self.cached) - min(first * self.tile_n, self.cached)
        return 2 * ELEMENT_BYTES[self.dtype] * keys * self.head_dim

    def ahead_copies(self, size: int) -> int:
        """The keys are a copy, each value is."""
        return 1 + size // (2 * ELEMENT_BYTES[self.dtype] * self.head_dim)

    def awaited_bytes(self, z: int) -> int:
        """The queries of a KV head."""
        return ELEMENT_BYTES[self.dtype] * self.heads // self.kv_heads * self.head_dim

    @property
    def kv_bytes(self) -> int:
        """K and V that are read, once: what bounds the time."""
        per_key = 2 * ELEMENT_BYTES[self.dtype] * self.kv_heads * self.head_dim
        return self.sequences * self.keys * per_key

    @property
    def kernel(self) -> Kernel:
        """The launch; work per block in equal shares."""
        flops = 4 * self.sequences * self.heads * self.head_dim * self.keys
        moved = self.kv_bytes + 2 * ELEMENT_BYTES[self.dtype] * self.sequences * self.columns
        return Kernel(
            self.name, self.grid, self.block, flops // self.grid.size, moved // self.grid.size, "full"
        )


def best_splits(work: AttentionDecode, device: Device) -> int:
    """The fewest splits whose estimated time is within `TOO_CLOSE` of the shortest, whatever `work.splits`.

    Assumed: the blocks that are resident share the memory's bandwidth, of which one block cannot use more
    than an SM's part. A wave begins with empty slots, and combining takes about as long as filling these.
    """
    slots = device.sm_count * occupancy_of(device, work.block).blocks_per_sm
    most = min(work.key_blocks, MAX_GRID_YZ)
    times = {splits: _time(work, device.sm_count, slots, splits) for splits in range(1, most + 1)}
    bound = TOO_CLOSE * min(times.values())
    return min(splits for splits, time in times.items() if time <= bound)


def _time(work: AttentionDecode, sm_count: int, slots: int, splits: int) -> float:
    """In bytes of one SM's part of the bandwidth."""
    waves, rest = divmod(work.sequences * work.kv_heads * splits, slots)
    shares = (waves * slots + (max(rest, sm_count) if rest else 0)) / sm_count
    block = work.tile_n * 2 * ELEMENT_BYTES[work.dtype] * work.head_dim
    reading = shares * -(-work.key_blocks // splits) * block
    filling = (waves + (rest > 0) + (splits > 1)) * SLOTS * block
    sums = splits * (work.heads // work.kv_heads) * work.head_dim * ELEMENT_BYTES["fp32"]
    return reading + filling + (sums if splits > 1 else 0)
