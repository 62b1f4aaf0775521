"""RMSNorm and LayerNorm, with the residual that is added before: how they are launched.

Example: 1,024 rows of 4,096 columns in tiles of 8 rows are 128 blocks of 128 threads.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.rows import Norm
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.rows.row_kernel import (
    ROW_MATRIX,
    ROW_TILES,
    RowBackend,
    addresses,
    config_of,
    is_bf16,
    launch_of,
    matrix_record,
    require_vectors,
    tiles_record,
)
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch

MATRICES = ("x", "residual", "sum", "out")

# rows/norm.cu, NormParams.
PARAMS = np.dtype(
    [(name, ROW_MATRIX) for name in MATRICES]
    + [("weight", "<u8"), ("bias", "<u8"), ("tiles", ROW_TILES)]
    + [("columns", "<i4"), ("epsilon", "<f4"), ("padding", "<i4")]
)
assert PARAMS.itemsize == 112


class RowNorm(RowBackend):
    """A row in the registers of a warp or a block, read once."""

    name = "norm"
    source = Path(__file__).with_name("norm.cu")
    works = (Norm,)

    def check(self, work: Norm, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for rows that are no whole vectors or too long."""
        require_vectors(f"Norm {work.name}", columns=work.columns)

    def launch(self, work: Norm, plan: Plan, device: Device) -> KernelLaunch:
        """A block per tile of rows, or persistent ones."""
        self.check(work, plan)
        config = config_of(work.columns)
        kind, has_residual = f"NormKind::{work.kind}", str(work.has_residual).lower()
        expression = f"norm<{config.name}, {kind}, {has_residual}, {is_bf16(work.dtype)}, generated::stage>"
        return launch_of(expression, config.threads, work.grid.tiles, plan, device)

    def stage_arguments(
        self, work: Norm, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`NormParams`. Raises `DescriptionError` for misaligned operands."""
        record, owner = np.zeros(1, PARAMS)[0], f"Norm {work.name}"
        for name in MATRICES:
            if name in places:
                record[name] = matrix_record(owner, name, places[name])
        record["weight"], record["bias"] = addresses(owner, places, "weight", "bias")
        record["tiles"] = tiles_record(work.m, work.tile_m, plan)
        record["columns"], record["epsilon"] = work.columns, work.epsilon
        return (record,)

    def reference(self, work: Norm, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Out of x, residual, weight and bias; also sum, where there is a residual."""
        cupy, h = require_cupy(), arrays["x"]
        if work.has_residual:
            h = h + arrays["residual"]
        centred = h - h.mean(axis=1, keepdims=True) if work.kind == "layer" else h
        variance = (centred * centred).mean(axis=1, keepdims=True)
        out = centred / cupy.sqrt(variance + cupy.float32(work.epsilon)) * arrays["weight"]
        out = out + arrays["bias"] if work.kind == "layer" else out
        return {"out": out, "sum": h} if work.has_residual else {"out": out}
