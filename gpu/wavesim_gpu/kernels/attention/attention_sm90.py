"""Fused attention for Hopper: which tiles exist, and how they are launched.

Example: 12 heads of 1,024 causal queries are 96 tiles of 128 rows, a block each; under `Plan(Persistent())`
they are shared out to 132 blocks, one per SM, in the plan's order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.attention import Attention
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.attention.dropout import DROPOUT, dropout_params
from wavesim_gpu.kernels.attention.reference import attention_reference
from wavesim_gpu.kernels.gemm.sm90.tensor_map import ELEMENT_BYTES, encode_heads
from wavesim_gpu.kernels.stage_backend import (
    OperandPlace,
    Scratch,
    StageBackend,
    combinations,
    require_aligned,
)

HOPPER_CAPABILITY = (9, 0)
TILE_M, OUTPUT_ROWS = 128, 64  # query rows of a tile, and of an MMA warpgroup, which are stored at once
THREADS = 384  # two MMA warpgroups, and one with the producer and epilogue warps
CONTROL_BYTES = 1024  # attention/sm90/shared_memory.cuh, Control: barriers and work tiles, after all buffers
LOG2_E = 1.4426950408889634

# attention/sm90/tile.cuh, AttentionSm90Params.
PARAMS = np.dtype(
    [(name, "V128") for name in ("q", "k", "v", "out")]
    + [("scale_log2", "<f4")]
    + [(name, "<i4") for name in ("length", "keys", "first_key", "row_blocks", "heads", "group")]
    + [(name, "<i4") for name in ("is_persistent", "is_dependent")]
    + [("dropout", DROPOUT), ("padding", "V12")]
)
assert PARAMS.itemsize == 576


@dataclass(frozen=True)
class AttentionTile:
    """`TILE_M` query rows of a head; K and V come in blocks of `tile_n` keys, `depth` of each at once."""

    head_dim: int
    tile_n: int
    depth: int

    @property
    def dynamic_shared_bytes(self) -> int:
        """Q and outputs, the blocks of K and V, barriers."""
        rows = 2 * TILE_M + 2 * self.depth * self.tile_n
        return rows * self.head_dim * ELEMENT_BYTES + CONTROL_BYTES

    def name(self, work: Attention) -> str:
        """The C++ type."""
        flags = (str(flag).lower() for flag in (work.is_causal, work.dropout > 0))
        return f"AttentionTile<{', '.join(map(str, (self.head_dim, self.tile_n, self.depth, *flags)))}>"


TILES = {
    (entry.head_dim, entry.tile_n): entry
    for entry in (AttentionTile(128, 128, depth=2), AttentionTile(64, 128, depth=4))
}


class HopperAttention(StageBackend):
    """TMA, wgmma, warps with roles; a block per tile, or persistent."""

    name = "hopper-attention"
    family = "hopper"
    source = Path(__file__).with_name("attention_sm90.cu")
    works = (Attention,)
    runs = combinations("tile", "persistent")

    def check(self, work: Attention, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for a tile without a kernel, and dropout behind a part of a block."""
        if work.tile_m != TILE_M or (work.head_dim, work.tile_n) not in TILES:
            known = ", ".join(f"{TILE_M}x{n}" for dim, n in TILES if dim == work.head_dim)
            raise DescriptionError(
                f"Attention {work.name}: the tile is {work.tile_m}x{work.tile_n}; backend {self.name!r} has "
                f"{known} for a head_dim of {work.head_dim}. Use one of these"
            )

        if work.dropout and work.is_causal and work.cached % work.tile_n:
            raise DescriptionError(
                f"Attention {work.name}: dropout with {work.cached} cached keys; backend {self.name!r} drops "
                f"only where cached is a multiple of {work.tile_n}. Use backend='portable-attention'"
            )

    def launch(self, work: Attention, plan: Plan, device: Device) -> KernelLaunch:
        """Raises also `DeviceError` for a GPU that is not a Hopper."""
        if device.compute_capability != HOPPER_CAPABILITY:
            major, minor = device.compute_capability
            raise DeviceError(
                f"{device.name} has compute capability {major}.{minor}; backend {self.name!r} needs 9.0 "
                "(wgmma, TMA). Use backend='portable-attention'"
            )
        self.check(work, plan)
        tile = _tile(work)
        return KernelLaunch(
            f"attention_sm90<{tile.name(work)}, {str(work.dtype == 'bf16').lower()}, generated::stage>",
            THREADS,
            tile.dynamic_shared_bytes,
            plan.schedule.block_count(work.grid.size, device.sm_count),
        )

    def stage_arguments(
        self, work: Attention, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`AttentionSm90Params`. Raises `DescriptionError` for misaligned addresses and strides."""
        for name, place in places.items():
            require_aligned(f"Attention {work.name}", name, place)
        tile, record = _tile(work), np.zeros(1, PARAMS)[0]
        for name, rows in (("q", TILE_M), ("k", tile.tile_n), ("v", tile.tile_n), ("out", OUTPUT_ROWS)):
            record[name] = _map(work, name, places[name], rows)
        record["scale_log2"] = work.scale * LOG2_E
        record["length"], record["keys"], record["row_blocks"] = work.length, work.keys, work.row_blocks
        record["first_key"] = -(-work.cached % work.tile_n) if work.is_causal else 0
        record["heads"], record["group"] = work.heads, work.heads // work.kv_heads
        record["is_persistent"] = plan.schedule.is_persistent
        record["is_dependent"] = plan.launch.is_dependent
        record["dropout"] = dropout_params(work.seed, work.dropout)
        return (record,)

    def reference(self, work: Attention, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Out of q, k and v."""
        return {"out": attention_reference(work, arrays["q"], arrays["k"], arrays["v"])}


def _tile(work: Attention) -> AttentionTile:
    return TILES[work.head_dim, work.tile_n]


def _map(work: Attention, name: str, place: OperandPlace, box_rows: int) -> Any:
    """Of an operand's sequences. Keys past the last lie outside, though a cache has room for more."""
    is_key = name in ("k", "v")
    rows, rows_between = (work.keys, work.kv_rows) if is_key else (work.length, work.length)
    columns = work.head_dim * (work.kv_heads if is_key else work.heads)
    strides = (rows_between * place.row_stride, place.row_stride)
    return encode_heads(
        place.address, (work.sequences, rows, columns), (box_rows, work.head_dim), work.dtype, strides
    )
