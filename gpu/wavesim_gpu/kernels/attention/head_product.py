"""The products of attention by five kernels on every GPU from sm_80 on: batched over heads, mma.sync and
cp.async.

Example: `HeadProducts().launch(work, plan, device)` is 12 x 8 x 8 blocks of 128 threads for the scores of 12
heads of 1,024 queries and keys; head_product.cu is the kernel.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.attention.head_product import HeadProduct
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.gemm.sm80.gemm import MmaTile, tile_among
from wavesim_gpu.kernels.stage_backend import (
    OperandPlace,
    Scratch,
    StageBackend,
    combinations,
    reasons_of_a_tile_per_block,
    require_aligned,
)

# By tile_m, tile_n and tile_k.
TILE_CONFIGS = {
    (entry.tile_m, entry.tile_n, entry.tile_k): entry
    for entry in (
        MmaTile(128, 128, 32, 2, 2, depth=4, min_blocks=2),
        MmaTile(128, 64, 32, 2, 2, depth=4, min_blocks=3),
    )
}
# head_product.cu, HeadRows and HeadProductParams.
HEAD_ROWS = np.dtype([("data", "<u8"), ("row", "<i8"), ("sequence", "<i8")])
OPERANDS = ("a", "b", "cache", "out")
SIZES = (
    "length",
    "keys",
    "cached",
    "head_dim",
    "group",
    "row_blocks",
    "column_blocks",
    "has_cache",
    "is_dependent",
)
HEAD_PRODUCT_PARAMS = np.dtype(
    [(name, HEAD_ROWS) for name in OPERANDS] + [(name, "<i4") for name in SIZES] + [("scale", "<f4")]
)
assert HEAD_PRODUCT_PARAMS.itemsize == 136


class HeadProducts(StageBackend):
    """A block per tile; A and B are waited for tile by tile."""

    name = "head-product"
    source = Path(__file__).with_name("head_product.cu")
    works = (HeadProduct,)
    runs = combinations("tile")
    reasons: ClassVar = reasons_of_a_tile_per_block("it does not split K")

    def check(self, work: HeadProduct, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for a tile that no kernel has."""
        tile_among(TILE_CONFIGS, self.name, work)

    def launch(self, work: HeadProduct, plan: Plan, device: Device) -> KernelLaunch:
        """A block per tile, the same on every device."""
        self.check(work, plan)
        config = tile_among(TILE_CONFIGS, self.name, work)
        is_bf16 = str(work.dtype == "bf16").lower()
        return KernelLaunch(
            f"head_product<{config.name}, {config.min_blocks}, Product::{work.product}, {is_bf16}, "
            "generated::stage>",
            config.threads,
            config.dynamic_shared_bytes,
            work.grid.size,
        )

    def stage_arguments(
        self, work: HeadProduct, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`HeadProductParams`. Raises `DescriptionError` for rows that do not begin at 16 bytes."""
        record = np.zeros(1, HEAD_PRODUCT_PARAMS)[0]
        for name, place in places.items():
            require_aligned(f"HeadProduct {work.name}", name, place)
            rows = work.kv_rows if name == "cache" else work.length
            record[name] = (place.address, place.row_stride, rows * place.row_stride)
        for name in ("length", "keys", "cached", "head_dim", "row_blocks", "column_blocks", "scale"):
            record[name] = getattr(work, name)
        record["group"] = work.heads // work.kv_heads
        record["has_cache"] = work.kv_rows > 0
        record["is_dependent"] = plan.launch.is_dependent
        return (record,)

    def reference(self, work: HeadProduct, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The products head by head, and the cache with the run's own rows behind those cached."""
        shape, group = (work.sequences, work.length), work.heads // work.kv_heads
        a = arrays["a"].reshape(*shape, work.heads, work.k)
        b = arrays["b"].reshape(*shape, -1)
        written = {}
        if work.kv_rows:
            cache = arrays["cache"].copy().reshape(work.sequences, work.kv_rows, -1)
            cache[:, work.cached : work.keys] = b
            written["cache"] = cache.reshape(arrays["cache"].shape)
            b = cache[:, : work.keys]
        keys = b.reshape(work.sequences, work.keys, work.kv_heads, work.head_dim).repeat(group, axis=2)
        queries, keys = a.transpose(0, 2, 1, 3), keys.transpose(0, 2, 1, 3)
        product = queries @ (keys.transpose(0, 1, 3, 2) if work.product == "scores" else keys)
        out = (work.scale * product).transpose(0, 2, 1, 3).reshape(work.m, work.columns)
        return {"out": out, **written}
