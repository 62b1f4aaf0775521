"""Decode attention on every GPU from sm_80 on: which heads and blocks of keys it takes, how it is launched.

Example: 16 sequences with 8 KV heads and 2 splits are 256 blocks of 128 threads; each reads half of a
sequence's keys and values of one KV head, for all query heads that share it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses, meets
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Region, View
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.work.attention.decode import AttentionDecode
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.attention.portable_kernel import (
    LOG2_E,
    OPERAND,
    PORTABLE_REASONS,
    PORTABLE_RUNS,
    require_launchable,
    store_operands,
)
from wavesim_gpu.kernels.attention.reference import decode_reference
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch, StageBackend

MOST_GROUP = 16  # query heads of a KV head: rows of the tensor core's tile
MOST_INDEX = 2**31 - 1

# decode.cu, DecodeParams.
PARAMS = np.dtype(
    [(name, OPERAND) for name in ("q", "k", "v", "k_new", "v_new", "out")]
    + [(name, "<u8") for name in ("partials", "tickets", "lengths")]
    + [(name, "<i4") for name in ("length", "tile_n", "group", "is_dependent")]
    + [("scale", "<f4"), ("padding", "<i4")]
)
assert PARAMS.itemsize == 192


@dataclass(frozen=True)
class DecodeConfig:
    """A thread block: its warps, each with a share of the keys of a step and slots for `depth` of these."""

    head_dim: int
    warps: int
    keys_per_warp: int
    depth: int

    @property
    def threads(self) -> int:
        """Threads of a thread block."""
        return 32 * self.warps

    @property
    def dynamic_shared_bytes(self) -> int:
        """The warps' rings of keys and values."""
        return self.warps * self.depth * 2 * self.keys_per_warp * self.head_dim * 2

    def name(self, work: AttentionDecode) -> str:
        """The C++ type."""
        heads = 8 if _group(work) <= 8 else MOST_GROUP
        sizes = (self.head_dim, heads, self.warps, self.keys_per_warp, self.depth)
        return f"DecodeConfig<{', '.join(map(str, sizes))}, {str(work.dtype == 'bf16').lower()}>"


# A warp's step is 8 KB of keys and values in both.
CONFIGS = {
    128: DecodeConfig(128, warps=4, keys_per_warp=16, depth=3),
    64: DecodeConfig(64, warps=4, keys_per_warp=32, depth=3),
}


class PortableDecode(StageBackend):
    """A block per KV head, sequence and split of the keys; the split that comes last combines and posts."""

    name = "portable-decode"
    family = "portable"
    source = Path(__file__).with_name("decode.cu")
    works = (AttentionDecode,)
    runs = PORTABLE_RUNS
    reasons: ClassVar = PORTABLE_REASONS

    def check(self, work: AttentionDecode, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for more query heads of a KV head, or splits, than the kernel takes."""
        owner = f"AttentionDecode {work.name}"
        if _group(work) > MOST_GROUP:
            raise DescriptionError(
                f"{owner}: {_group(work)} query heads share a KV head ({work.heads} / {work.kv_heads}); "
                f"backend {self.name!r} takes at most {MOST_GROUP}. Use kv_heads of at least "
                f"{-(-work.heads // MOST_GROUP)}"
            )
        if work.key_blocks * work.splits > MOST_INDEX:
            raise DescriptionError(
                f"{owner}: splits is {work.splits} with {work.key_blocks} blocks of keys; their product must "
                f"be at most {MOST_INDEX}. Use fewer splits"
            )

    def check_stage(self, pipeline: Pipeline, stage: Stage, plan: Plan) -> None:
        """Raises `DescriptionError` where an earlier stage writes cached keys, which nothing waits for."""
        if not plan.sync.has_semaphores and not plan.launch.is_dependent:
            return
        accesses = Accesses(pipeline)
        for earlier in takewhile(lambda stage_before: stage_before.name != stage.name, pipeline.stages):
            for name, regions in _read_at_once(stage).items():
                if _writes(accesses, earlier, accesses.view(stage.name, name), regions):
                    raise DescriptionError(
                        f"stage {stage.name}: stage {earlier.name} writes {name}, of which backend "
                        f"{self.name!r} reads all but the step's own rows before it waits. Use launch "
                        "one-stream with sync boundary, or runs of their own"
                    )

    def launch(self, work: AttentionDecode, plan: Plan, device: Device) -> KernelLaunch:
        """One block per KV head, sequence and split."""
        self.check(work, plan)
        require_launchable(plan, device)
        config = CONFIGS[work.head_dim]
        expression = f"decode<{config.name(work)}>"
        return KernelLaunch(expression, config.threads, config.dynamic_shared_bytes, work.grid.size)

    def stage_arguments(
        self, work: AttentionDecode, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`DecodeParams`. Raises `DescriptionError` for misaligned addresses and strides."""
        record = np.zeros(1, PARAMS)[0]
        new = {"k_new": 1, "v_new": 1} if work.appends else {}
        rows = {"q": 1, "out": 1, "k": work.kv_rows, "v": work.kv_rows, **new}
        store_operands(record, f"AttentionDecode {work.name}", places, rows)
        record["lengths"] = places["lengths"].address if work.has_lengths else 0
        record["partials"], record["tickets"] = scratch.partials, scratch.tickets
        record["length"], record["tile_n"], record["group"] = work.keys, work.tile_n, _group(work)
        record["is_dependent"] = plan.launch.is_dependent
        record["scale"] = work.scale * LOG2_E
        return (record,)

    def reference(self, work: AttentionDecode, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Out, and with `appends` the cache with the step's own key and value."""
        return decode_reference(work, arrays)

    def partial_bytes(self, work: AttentionDecode, plan: Plan) -> int:
        """Of each split's sums in fp32: a row per query head, its greatest score and its weights' sum."""
        rows = work.grid.size * _group(work)
        return 4 * rows * (work.head_dim + 4) if work.splits > 1 else 0


def _read_at_once(stage: Stage) -> dict[str, list[Region]]:
    """What a block reads before it waits: all rows of the cache but the step's own, and the lengths."""
    work = stage.work
    assert isinstance(work, AttentionDecode), "works"
    width, tops = work.kv_heads * work.head_dim, range(0, work.sequences * work.kv_rows, work.kv_rows)
    cached = [Region(top, top + work.cached, 0, width) for top in tops]
    lengths = {"lengths": [Region(0, work.sequences, 0, 1)]} if work.has_lengths else {}
    return {"k": cached, "v": cached, **lengths}


def _writes(accesses: Accesses, earlier: Stage, view: View, regions: list[Region]) -> bool:
    """Whether a tile of a stage writes any of some regions of an operand that lies at `view`."""
    written = (accesses.writes(earlier.name, tile).get(view.buffer) for tile in _tiles(earlier))
    moved = [region.moved(view.row, view.column) for region in regions]
    return any(meets(result, entry).any() for result in written if result is not None for entry in moved)


def _tiles(stage: Stage) -> Iterator[tuple[int, int]]:
    return ((x, y) for y in range(stage.grid.y) for x in range(stage.grid.x))


def _group(work: AttentionDecode) -> int:
    return work.heads // work.kv_heads
