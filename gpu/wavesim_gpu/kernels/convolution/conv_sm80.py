"""Convolutions on every GPU from sm_80 on: which tiles exist, and how they are launched.

Example: a 7 x 7 convolution of an image's 3 colours, padded to 8 channels, is 49 k-blocks, of each of which a
quarter is data: 16 bytes of a pixel at a time are copied, and zeros for the rest.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.convolution import Conv2D
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.convolution.im2col import IM2COL, im2col_record, partial_bytes, require_counted
from wavesim_gpu.kernels.convolution.reference import conv_reference
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
        MmaTile(64, 64, 32, 2, 2, depth=4, min_blocks=3),
    )
}
POINTERS = ("a", "b", "bias", "residual", "c")
STRIDED = ("a", "b", "c", "residual")
# conv_sm80.cu, ConvSm80Params.
CONV_PARAMS = np.dtype(
    [(name, "<u8") for name in (*POINTERS, "partials", "tickets")]
    + [(f"{name}_stride", "<i8") for name in STRIDED]
    + [("im2col", IM2COL)]
    + [
        (name, "<i4")
        for name in ("images", "height", "width", "channels", "taps", "outputs", "filters", "has_relu", "_")
    ]
)
assert CONV_PARAMS.itemsize == 160


class PortableConvolution(StageBackend):
    """A block per tile and split of K."""

    name = "portable-convolution"
    family = "portable"
    source = Path(__file__).with_name("conv_sm80.cu")
    works = (Conv2D,)
    runs = combinations("tile", has_dependent_launch=False)
    reasons: ClassVar = reasons_of_a_tile_per_block("it splits K into equal parts only (Conv2D.split_k)") | {
        "pdl": "dependent launch needs griddepcontrol, which an sm_80 lacks",
    }

    def check(self, work: Conv2D, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for a tile that no kernel has, and for more k-blocks than it counts."""
        if work.packs_rows:
            raise DescriptionError(
                f"Conv2D {work.name}: packs_rows is True; backend {self.name!r} loads tap by tap. Use "
                "packs_rows=False, or backend 'hopper'"
            )
        tile_among(TILE_CONFIGS, self.name, work)
        require_counted(work)

    def launch(self, work: Conv2D, plan: Plan, device: Device) -> KernelLaunch:
        """A block per tile and split, the same on every device."""
        self.check(work, plan)
        config = tile_among(TILE_CONFIGS, self.name, work)
        is_bf16 = str(work.dtype == "bf16").lower()
        return KernelLaunch(
            f"convolve<{config.name}, {config.min_blocks}, {is_bf16}, generated::stage>",
            config.threads,
            config.dynamic_shared_bytes,
            work.grid.size,
        )

    def stage_arguments(
        self, work: Conv2D, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`ConvSm80Params`. Raises `DescriptionError` for rows that do not begin at 16 bytes."""
        record = np.zeros(1, CONV_PARAMS)[0]
        for name, place in places.items():
            require_aligned(f"Conv2D {work.name}", name, place)
            record[name] = place.address
        for name in STRIDED:
            record[f"{name}_stride"] = places[name].row_stride if name in places else 0
        record["partials"], record["tickets"] = scratch.partials, scratch.tickets
        record["im2col"] = im2col_record(work)
        for name in ("images", "height", "width", "channels", "filters"):
            record[name] = getattr(work, name)
        record["taps"], record["outputs"] = work.window.taps, work.pixels
        record["has_relu"] = work.activation == "relu"
        return (record,)

    def reference(self, work: Conv2D, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """C of a, b and what else it has."""
        return {"c": conv_reference(work, arrays)}

    def partial_bytes(self, work: Conv2D, plan: Plan) -> int:
        """Of fp32 partial sums that split K needs; 0 without."""
        return partial_bytes(work)
