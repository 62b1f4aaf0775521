"""Decode attention on every GPU from sm_80 on: which heads and blocks of keys it takes, how it is launched.

Example: 16 sequences with 8 KV heads and 2 splits are 256 blocks of 128 threads; each reads half of a
sequence's keys and values of one KV head, for all query heads that share it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.attention import AttentionDecode
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.attention.operands import LOG2_E, OPERAND, store_operands
from wavesim_gpu.kernels.attention.portable import PORTABLE_REASONS, PORTABLE_RUNS, require_launchable
from wavesim_gpu.kernels.attention.reference import decode_reference
from wavesim_gpu.kernels.stage_backend import KernelLaunch, OperandPlace, Scratch, StageBackend

MOST_GROUP = 16  # query heads of a KV head: rows of the tensor core's tile
MOST_INDEX = 2**31 - 1

# decode.cu, DecodeParams.
PARAMS = np.dtype(
    [(name, OPERAND) for name in ("q", "k", "v", "k_new", "v_new", "out")]
    + [(name, "<u8") for name in ("partials", "tickets", "lengths")]
    + [(name, "<i4") for name in ("length", "capacity", "group", "is_dependent")]
    + [("scale", "<f4"), ("padding", "<i4")]
)
assert PARAMS.itemsize == 192


@dataclass(frozen=True)
class DecodeConfig:
    """A thread block: its warps, each with a share of a block of keys and slots for `depth` of these."""

    head_dim: int
    warps: int
    keys_per_warp: int
    depth: int

    @property
    def tile_n(self) -> int:
        """Keys of a block of keys."""
        return self.warps * self.keys_per_warp

    @property
    def threads(self) -> int:
        """Threads of a thread block."""
        return 32 * self.warps

    @property
    def dynamic_shared_bytes(self) -> int:
        """The warps' rings of keys and values."""
        return self.depth * 2 * self.tile_n * self.head_dim * 2

    def name(self, work: AttentionDecode) -> str:
        """The C++ type."""
        heads = 8 if _group(work) <= 8 else MOST_GROUP
        sizes = (self.head_dim, heads, self.warps, self.keys_per_warp, self.depth)
        return f"DecodeConfig<{', '.join(map(str, sizes))}, {str(work.dtype == 'bf16').lower()}>"


CONFIGS = {
    (one.head_dim, one.tile_n): one
    for one in (
        DecodeConfig(128, warps=4, keys_per_warp=16, depth=3),
        DecodeConfig(64, warps=4, keys_per_warp=16, depth=6),
    )
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
        """Raises `DescriptionError` for a block of keys or a number of heads that no kernel takes."""
        owner = f"AttentionDecode {work.name}"
        if (work.head_dim, work.tile_n) not in CONFIGS:
            known = ", ".join(str(n) for dim, n in CONFIGS if dim == work.head_dim)
            raise DescriptionError(
                f"{owner}: tile_n is {work.tile_n}; with a head_dim of {work.head_dim} backend {self.name!r} "
                f"has {known}. Use one of these"
            )
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

    def launch(self, work: AttentionDecode, plan: Plan, device: Device) -> KernelLaunch:
        """One block per KV head, sequence and split."""
        self.check(work, plan)
        require_launchable(plan, device)
        config = _config(work)
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
        record["partials"], record["tickets"] = scratch.partials, scratch.tickets
        record["length"], record["capacity"], record["group"] = work.keys, work.kv_rows, _group(work)
        record["is_dependent"] = plan.launch.follows == "start"
        record["scale"] = work.scale * LOG2_E
        return (record,)

    def reference(self, work: AttentionDecode, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Out, and with `appends` the cache with the step's own key and value."""
        return decode_reference(work, arrays)

    def partial_bytes(self, work: AttentionDecode, plan: Plan) -> int:
        """Of each split's sums in fp32: a row per query head, its greatest score and its weights' sum."""
        rows = work.grid.size * _group(work)
        return 4 * rows * (work.head_dim + 4) if work.splits > 1 else 0


def _group(work: AttentionDecode) -> int:
    return work.heads // work.kv_heads


def _config(work: AttentionDecode) -> DecodeConfig:
    return CONFIGS[work.head_dim, work.tile_n]
