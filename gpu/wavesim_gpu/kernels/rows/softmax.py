"""Softmax over attention's scores, with mask and dropout: how it is launched.

Example: 12 heads of 1,024 queries and keys in tiles of 16 rows are 768 blocks; a warp holds a row of 1,024.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.rows import Softmax
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.attention.dropout import DROPOUT, dropout_params, kept
from wavesim_gpu.kernels.rows.row_kernel import (
    ROW_MATRIX,
    ROW_TILES,
    RowBackend,
    config_of,
    is_bf16,
    launch_of,
    matrix_record,
    require_vectors,
    tiles_record,
)
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch

# rows/softmax.cu, SoftmaxParams.
PARAMS = np.dtype(
    [("scores", ROW_MATRIX), ("out", ROW_MATRIX), ("tiles", ROW_TILES)]
    + [(name, "<i4") for name in ("heads", "keys", "is_causal")]
    + [("scale", "<f4"), ("dropout", DROPOUT), ("padding", "<i4")]
)
assert PARAMS.itemsize == 88


class RowSoftmax(RowBackend):
    """A row of scores in the registers of a warp or a block, read once."""

    name = "softmax"
    source = Path(__file__).with_name("softmax.cu")
    works = (Softmax,)

    def check(self, work: Softmax, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for rows that are no whole vectors or too long."""
        require_vectors(f"Softmax {work.name}", keys=work.keys)

    def launch(self, work: Softmax, plan: Plan, device: Device) -> KernelLaunch:
        """A block per tile of rows, or persistent ones."""
        self.check(work, plan)
        config, place = config_of(work.keys), work.dropout_place if work.dropout else "none"
        kinds = f"DropoutPlace::{place}, {is_bf16(work.dtype)}"
        expression = f"softmax<{config.name}, {kinds}, generated::stage>"
        return launch_of(expression, config.threads, work.grid.tiles, plan, device)

    def stage_arguments(
        self, work: Softmax, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`SoftmaxParams`. Raises `DescriptionError` for misaligned operands and a seed over 64 bits."""
        record = np.zeros(1, PARAMS)[0]
        for name in ("scores", "out"):
            record[name] = matrix_record(f"Softmax {work.name}", name, places[name])
        record["tiles"] = tiles_record(work.length, work.tile_m, plan)
        record["heads"], record["keys"], record["is_causal"] = work.heads, work.keys, work.is_causal
        record["scale"], record["dropout"] = work.scale, dropout_params(work.seed, work.dropout)
        return (record,)

    def reference(self, work: Softmax, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Out of scores."""
        cupy, heads = require_cupy(), work.sequences * work.heads
        by_query = (work.sequences, work.length, work.heads, work.keys)
        scores = (
            arrays["scores"].reshape(by_query).transpose(0, 2, 1, 3).reshape(heads, work.length, work.keys)
        )
        factors = cupy.float32(1)
        if work.dropout:
            keeps = kept(cupy, work.seed, work.dropout, heads, work.length, work.keys)
            factors = keeps.astype("float32") * cupy.float32(1 / (1 - work.dropout))
        if work.dropout_place == "before":
            scores = scores * factors
        if work.is_causal:
            last = work.keys - work.length + cupy.arange(work.length)
            scores = cupy.where(cupy.arange(work.keys) > last[:, None], cupy.float32("-inf"), scores)
        weights = cupy.exp(cupy.float32(work.scale) * (scores - scores.max(axis=2, keepdims=True)))
        out = weights / weights.sum(axis=2, keepdims=True)
        if work.dropout_place == "after":
            out = out * factors
        by_head = (work.sequences, work.heads, work.length, work.keys)
        return {"out": out.reshape(by_head).transpose(0, 2, 1, 3).reshape(arrays["scores"].shape)}
