"""A copy by tiles, the stage with the least to do: how it is launched.

Example: 1,024 x 4,096 elements in tiles of 128 x 128 are 256 blocks of 256 threads.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.rows import Copy
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.rows.row_kernel import (
    ROW_MATRIX,
    ROW_TILES,
    VECTOR,
    RowBackend,
    launch_of,
    matrix_record,
    tiles_record,
)
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch

THREADS = 256

# rows/copy_tiles.cu, CopyParams.
PARAMS = np.dtype(
    [("x", ROW_MATRIX), ("out", ROW_MATRIX), ("tiles", ROW_TILES)]
    + [(name, "<i4") for name in ("columns", "tile_n", "padding")]
)
assert PARAMS.itemsize == 64


class TileCopy(RowBackend):
    """16 bytes a load, four loads of a thread in flight."""

    name = "copy"
    source = Path(__file__).with_name("copy_tiles.cu")
    works = (Copy,)

    def check(self, work: Copy, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for tiles whose rows are no whole vectors."""
        for name in ("columns", "tile_n"):
            if getattr(work, name) % VECTOR:
                raise DescriptionError(
                    f"Copy {work.name}: {name} is {getattr(work, name)}; on the GPU it must be a multiple of "
                    f"{VECTOR}"
                )

    def launch(self, work: Copy, plan: Plan, device: Device) -> KernelLaunch:
        """A block per tile, or persistent ones."""
        self.check(work, plan)
        expression = f"copy_tiles<{THREADS}, generated::stage>"
        return launch_of(expression, THREADS, work.grid.tiles, plan, device)

    def stage_arguments(
        self, work: Copy, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`CopyParams`. Raises `DescriptionError` for misaligned operands."""
        record = np.zeros(1, PARAMS)[0]
        for name in ("x", "out"):
            record[name] = matrix_record(f"Copy {work.name}", name, places[name])
        record["tiles"] = tiles_record(work.m, work.tile_m, plan)
        record["columns"], record["tile_n"] = work.columns, work.tile_n
        return (record,)

    def reference(self, work: Copy, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Out is x."""
        return {"out": arrays["x"]}
