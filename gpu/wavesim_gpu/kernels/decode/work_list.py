"""Which block computes which tiles: the work list of a decode step, made before any launch.

Example: on 132 SMs the 384 tiles of Llama-3-8B's QKV product are three for most blocks and two for the
others, which get more of the tiles behind. Every layer has the same list; the head comes once, behind the
last layer.

The simulator's lists (wavesim/plan/work_lists.py) have the same codes and are dealt out by themselves.

Layout, as the kernel reads it: `items` is one int32 array, `stage << 24 | tile`, block
after block, for each its items of a layer in the order of stages and then those of the head. `first` has a
row for each block: where its items begin, how many a layer has, how many the head has. An item of stage s
waits for all tiles of stage s - 1 (of the layer before, for stage 0) and posts its own words; the producer
loads what the items name in the same order. A tile is `rows` rows of the stage's weights; of `ATTENTION` it
is (sequence * key heads + key head) * splits + split; a tile of `GATE_UP` is eight rows of each.
"""

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim_gpu.kernels.decode.shape import MOST_ITEMS, TILE_ROWS, DecodeShape

QKV, ATTENTION, OUT, GATE_UP, DOWN, HEAD = range(6)
STAGES = ("qkv", "attention", "out", "gate_up", "down", "head")
BY_LOAD = (ATTENTION, DOWN, OUT, QKV, GATE_UP)  # the stage with the most tiles comes last and evens out


@dataclass(frozen=True)
class WorkList:
    """`items` and `first` as the module's docstring says."""

    items: Any
    first: Any

    def of_block(self, block: int) -> list[tuple[int, int]]:
        """A block's items of a layer, (stage, tile)."""
        begin, count, _ = self.first[block]
        return [(int(code) >> 24, int(code) & 0xFFFFFF) for code in self.items[begin : begin + count]]

    def block_of(self, stage: int, tile: int) -> int:
        """The block that computes a tile."""
        at = int(np.flatnonzero(self.items == (stage << 24 | tile))[0])
        return int(np.flatnonzero(self.first[:, 0] <= at)[-1])


def tiles_of(shape: DecodeShape, stage: int, keys: int, vocabulary: int = 0) -> tuple[int, int]:
    """How many tiles a stage has, and the bytes that a tile reads with so many keys."""
    head = TILE_ROWS * shape.hidden * 2
    if stage == ATTENTION:
        splits = shape.batch * shape.kv_heads * shape.splits
        return splits, 4 * shape.head_size * -(-keys // shape.splits)
    return {
        QKV: (shape.qkv_columns // shape.qkv_rows, shape.qkv_rows * shape.hidden * 2),
        OUT: (shape.hidden // shape.out_rows, shape.out_rows * shape.attention_columns * 2),
        GATE_UP: (shape.inner // 8, head),
        DOWN: (shape.hidden // shape.down_rows, shape.down_rows * shape.inner * 2),
        HEAD: (vocabulary // TILE_ROWS, head),
    }[stage]


def share_tiles(shape: DecodeShape, blocks: int, keys: int, vocabulary: int = 0) -> WorkList:
    """Every tile once: no block has more of a stage than an even share, and then the least loaded is next."""
    layer = [list[int]() for _ in range(blocks)]
    load = [0] * blocks
    for stage in BY_LOAD:
        _share_out(layer, load, stage, *tiles_of(shape, stage, keys))
    heads = [list[int]() for _ in range(blocks)]
    if vocabulary:
        _share_out(heads, [0] * blocks, HEAD, *tiles_of(shape, HEAD, keys, vocabulary))
    first, items = [], list[int]()
    for mine, last in zip(layer, heads, strict=True):
        first.append((len(items), len(mine), len(last)))
        items += sorted(mine) + sorted(last)
    most = max(count + last for _, count, last in first)
    if most > MOST_ITEMS:
        raise DescriptionError(
            f"a block would have {most} tiles; it holds {MOST_ITEMS}: use a GPU with more SMs"
        )
    return WorkList(np.array(items, np.int32), np.array(first, np.int32))


def _share_out(lists: list[list[int]], load: list[int], stage: int, tiles: int, tile_bytes: int) -> None:
    most = -(-tiles // len(lists))
    queue = [(bytes_, block, 0) for block, bytes_ in enumerate(load)]
    heapq.heapify(queue)
    for tile in range(tiles):
        bytes_, block, count = heapq.heappop(queue)
        lists[block].append(stage << 24 | tile)
        load[block] = bytes_ + tile_bytes
        if count + 1 < most:
            heapq.heappush(queue, (load[block], block, count + 1))
