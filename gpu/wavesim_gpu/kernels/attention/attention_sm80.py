"""Fused attention on every GPU from sm_80 on: which tiles exist, and how they are launched.

Example: 12 heads of 1,024 causal queries in tiles of 128 rows are 96 blocks of 256 threads.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.attention import Attention
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.attention.dropout import DROPOUT, dropout_params
from wavesim_gpu.kernels.attention.portable_kernel import (
    LOG2_E,
    OPERAND,
    PORTABLE_REASONS,
    PORTABLE_RUNS,
    require_launchable,
    store_operands,
)
from wavesim_gpu.kernels.attention.reference import attention_reference
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch, StageBackend

TILE_ROWS = (64, 128)
STEP_KEYS = 64  # attention_sm80.cu, keys_per_step
THREADS_PER_ROW = 2  # a warp has 16 rows

# attention_sm80.cu, AttentionParams.
PARAMS = np.dtype(
    [(name, OPERAND) for name in ("q", "k", "v", "out")]
    + [(name, "<i4") for name in ("length", "cached", "heads", "group", "row_blocks", "steps_per_item")]
    + [("is_dependent", "<i4"), ("scale", "<f4"), ("dropout", DROPOUT)]
)
assert PARAMS.itemsize == 144


class PortableAttention(StageBackend):
    """A block per head and 64 or 128 query rows; keys come 64 at a time through two slots."""

    name = "portable-attention"
    family = "portable"
    source = Path(__file__).with_name("attention_sm80.cu")
    works = (Attention,)
    runs = PORTABLE_RUNS
    reasons: ClassVar = PORTABLE_REASONS

    def check(self, work: Attention, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for a tile that there is no kernel for."""
        if work.tile_m not in TILE_ROWS or work.tile_n % STEP_KEYS:
            raise DescriptionError(
                f"Attention {work.name}: the tile is {work.tile_m}x{work.tile_n}; backend {self.name!r} has "
                f"a tile_m of {' or '.join(map(str, TILE_ROWS))} and a tile_n in multiples of {STEP_KEYS}. "
                "Use these"
            )

    def launch(self, work: Attention, plan: Plan, device: Device) -> KernelLaunch:
        """One block per tile."""
        self.check(work, plan)
        require_launchable(plan, device)
        flags = (str(entry).lower() for entry in (work.dtype == "bf16", work.is_causal, work.dropout > 0))
        return KernelLaunch(
            f"attention<{work.head_dim}, {work.tile_m}, {', '.join(flags)}>",
            THREADS_PER_ROW * work.tile_m,
            2 * 2 * STEP_KEYS * work.head_dim * 2,  # two slots of keys and values
            work.grid.size,
        )

    def stage_arguments(
        self, work: Attention, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`AttentionParams`. Raises `DescriptionError` for misaligned addresses and strides."""
        record = np.zeros(1, PARAMS)[0]
        rows = {"q": work.length, "k": work.kv_rows, "v": work.kv_rows, "out": work.length}
        store_operands(record, f"Attention {work.name}", places, rows)
        record["length"], record["cached"], record["row_blocks"] = work.length, work.cached, work.row_blocks
        record["heads"], record["group"] = work.heads, work.heads // work.kv_heads
        record["steps_per_item"] = work.tile_n // STEP_KEYS
        record["is_dependent"] = plan.launch.is_dependent
        record["scale"] = work.scale * LOG2_E
        record["dropout"] = dropout_params(work.seed, work.dropout)
        return (record,)

    def reference(self, work: Attention, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Out of q, k and v."""
        return {"out": attention_reference(work, arrays["q"], arrays["k"], arrays["v"])}
