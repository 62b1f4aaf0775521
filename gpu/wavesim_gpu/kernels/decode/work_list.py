"""The work list of a decode step as the kernel reads it: the plan's own, of a pipeline that the step's shape
describes.

Example: on 132 SMs the 384 tiles of Llama-3-8B's QKV product are three for most blocks and two for the
others, which get more of the tiles behind. Every layer has the same list; the head comes once, behind the
last layer.

Layout, as the kernel reads it: `items` is one int32 array, `stage << 24 | tile`, block after block, for each
its items of a layer in the order of stages and then those of the head. `first` has a row for each block:
where its items begin, how many a layer has, how many the head has. An item of stage s waits for all tiles of
stage s - 1 (of the layer before, for stage 0) and posts its own words; the producer loads what the items name
in the same order. A tile is `rows` rows of the stage's weights; of `ATTENTION` it is (sequence * key heads +
key head) * splits + split; a tile of `GATE_UP` is eight rows of each.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.megakernel import Megakernel
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync
from wavesim.plan.sync import Semaphores
from wavesim.plan.work_lists import STAGE_SHIFT, lists_of_plan
from wavesim.workloads.decode_steps import decode_step, in_a_row
from wavesim.workloads.models import Model, TransformerShape
from wavesim_gpu.kernels.decode.shape import KEYS_OF_WARP, MOST_ITEMS, TILE_ROWS, DecodeShape

QKV, ATTENTION, OUT, GATE_UP, DOWN, HEAD = range(6)
STAGES = ("qkv", "attention", "out", "gate_up", "down", "head")


@dataclass(frozen=True)
class WorkList:
    """`items` and `first` as the module's docstring says."""

    items: Any
    first: Any

    def of_block(self, block: int) -> list[tuple[int, int]]:
        """A block's items of a layer, (stage, tile)."""
        begin, count, _ = self.first[block]
        return [
            (int(code) >> STAGE_SHIFT, int(code) & 0xFFFFFF) for code in self.items[begin : begin + count]
        ]

    def block_of(self, stage: int, tile: int) -> int:
        """The block that computes a tile."""
        at = int(np.flatnonzero(self.items == (stage << STAGE_SHIFT | tile))[0])
        return int(np.flatnonzero(self.first[:, 0] <= at)[-1])


def pipeline_of(shape: DecodeShape, keys: int, layers: int = 1) -> Pipeline:
    """What a step of that shape computes with so many keys, its own among them, as `simulate` takes it."""
    heads = shape.heads, shape.kv_heads, shape.head_size
    layer = TransformerShape(*heads, 1, "rms", "qkv" if shape.has_bias else "none", True, 1, "")
    rows = {"qkv": shape.qkv_rows, "out": shape.out_rows, "up": TILE_ROWS, "down": shape.down_rows}
    model = Model("decoder", shape.hidden, shape.inner, "swiglu", "bf16", "", layer)
    cached = max(keys, KEYS_OF_WARP * shape.splits) - 1
    step = decode_step(model, shape.batch, cached, splits={"attention": 1}, tile_rows=rows)
    changes = {
        "attention": {"tile_n": KEYS_OF_WARP, "splits": shape.splits},
        "down": {"input_parts": shape.parts},
    }
    works: Any = {stage.name: stage.work for stage in step.stages}
    changed = {
        stage.name: replace(stage, work=replace(works[stage.name], **changes.get(stage.name, {})))
        for stage in step.stages
    }
    return in_a_row(step.with_stages(changed), layers)


def plan_of(shape: DecodeShape) -> Plan:
    """How the kernel of that shape runs it."""
    slots = shape.ring_slots
    chunk = 2 * TILE_ROWS * shape.slot_columns
    in_flight = shape.in_flight if shape.in_flight < slots else 0
    schedule = Megakernel(slots * chunk, chunk, shape.groups, in_flight=in_flight, placement=shape.placement)
    return Plan(schedule, sync=Semaphores(GridSync()))


def share_tiles(shape: DecodeShape, device: Device, keys: int, vocabulary: int = 0) -> WorkList:
    """The plan's list of a layer for a block on every SM, and the tiles of the head, shared out evenly."""
    lists = lists_of_plan(pipeline_of(shape, keys), plan_of(shape), device)
    heads = [list[int]() for _ in lists.items]
    sizes = [[2 * TILE_ROWS * shape.hidden] * (vocabulary // TILE_ROWS)]
    for tile, block in enumerate(Megakernel().places(sizes, len(heads))[0]):
        heads[block].append(HEAD << STAGE_SHIFT | tile)
    first, items = [], list[int]()
    for begin, end, last in zip(lists.first, lists.first[1:], heads, strict=False):
        first.append((len(items), int(end - begin), len(last)))
        items += [*lists.codes[begin:end].tolist(), *last]
    most = max(count + last for _, count, last in first)
    if most > MOST_ITEMS:
        raise DescriptionError(
            f"a block would have {most} tiles; it holds {MOST_ITEMS}: use a GPU with more SMs"
        )
    return WorkList(np.array(items, np.int32), np.array(first, np.int32))
