"""Convolutions by the Hopper GEMM: which tiles exist, and how they are launched.

Example: a 3 x 3 convolution of 128 channels is a product of 18 k-blocks, each the pixels that one filter tap
reads of 64 channels, which TMA gathers from the images; a 1 x 1 convolution of stride 1 is a plain product.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.convolution import Conv2D
from wavesim.work.gemm import Gemm
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.convolution.im2col import (
    IM2COL,
    im2col_map,
    im2col_record,
    partial_bytes,
    require_counted,
)
from wavesim_gpu.kernels.convolution.reference import conv_reference
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import ChainedHopper, Hopper, one_stage_launch
from wavesim_gpu.kernels.gemm.sm90.parameters import (
    LAYER_PARAMS,
    ROW_UNIT,
    layer_record_of,
    record_of,
    require_stride,
)
from wavesim_gpu.kernels.gemm.sm90.tensor_map import PANEL, encode_pixels, encode_weights
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS, TILE_K, WgmmaTile
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch, StageBackend, combinations

# Without clusters: their second block would need a pixel of its own. Two more where 64 filters are all there
# are: 256 rows share a k-block of the weights.
CONV_TILES = {
    (entry.tile_m, entry.tile_n): entry
    for entry in (
        *(replace(item, can_pair_rows=False) for item in TILE_CONFIGS.values() if item.tile_n % PANEL == 0),
        WgmmaTile(2, 2, 64, depth=4, buffers=2),
        WgmmaTile(2, 1, 64, depth=8, buffers=2),
    )
}

# sm90/tile_config.cuh, ConvSm90Params.
CONV_PARAMS = np.dtype(
    {"names": ["layer", "im2col"], "formats": [LAYER_PARAMS, IM2COL], "offsets": [0, 1344], "itemsize": 1408}
)


class HopperConvolution(StageBackend):
    """TMA, wgmma, warps with roles: the Hopper GEMM, whose rows of A are pixels."""

    name = "hopper-convolution"
    family = "hopper"
    source = Hopper.source
    works = (Conv2D,)
    resets_tickets = True
    begins_calls = True
    runs = combinations("tile", "persistent")

    def check(self, work: Conv2D, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for a tile without a kernel, and for more k-blocks than it counts."""
        if (work.tile_m, work.tile_n) not in CONV_TILES or work.tile_k != TILE_K:
            known = ", ".join(f"{m}x{n}x{TILE_K}" for m, n in CONV_TILES)
            raise DescriptionError(
                f"Conv2D {work.name}: the tile is {work.tile_m}x{work.tile_n}x{work.tile_k}; backend "
                f"{self.name!r} has {known}. Use one of these"
            )
        require_counted(work)

    def launch(self, work: Conv2D, plan: Plan, device: Device) -> KernelLaunch:
        """Raises also `DeviceError` for a GPU that is not a Hopper."""
        self.check(work, plan)
        return one_stage_launch(
            self.name, _config(work), work.dtype, _form(work), work.grid.size, plan, device
        )

    def stage_arguments(
        self, work: Conv2D, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """`ConvSm90Params`. Raises `DescriptionError` for misaligned addresses and strides."""
        record = np.zeros(1, CONV_PARAMS)[0]
        record["layer"] = _layer_record(work, plan, places, scratch)
        record["im2col"] = im2col_record(work)
        return (record,)

    def reference(self, work: Conv2D, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """C of a, b and what else it has."""
        return {"c": conv_reference(work, arrays)}

    def partial_bytes(self, work: Conv2D, plan: Plan) -> int:
        """Of fp32 partial sums that split K needs; 0 without."""
        return partial_bytes(work)


class ChainedHopperConvolution(HopperConvolution):
    """The same for chains by dependent launch: blocks do not stay until the kernel before has ended."""

    name = "hopper-convolution-chained"
    source = ChainedHopper.source


def is_plain(work: Conv2D) -> bool:
    """Whether each output reads the one pixel of its own number: a product of matrices."""
    return work.kernel_size == 1 and work.window.keeps_size


def _layer_record(work: Conv2D, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch) -> Any:
    """What a product of as many rows, columns and weights has; with taps, its A and B of its own."""
    product, config = _product(work), _config(work)
    strides = {f"{name}_stride": places[name].row_stride for name in ("c", "residual") if name in places}
    if is_plain(work):
        strides |= {"a_stride": places["a"].row_stride, "b_stride": places["b"].row_stride}
    addresses = {name: place.address for name, place in places.items()}
    given = Addresses(**addresses, **strides, partials=scratch.partials, tickets=scratch.tickets)
    record = record_of(product, config, given)
    record["is_persistent"] = plan.schedule.is_persistent
    record["is_dependent"] = plan.launch.is_dependent
    if not is_plain(work):
        _write_taps(record, work, config, places)
    return layer_record_of(product, record, given)


def _product(work: Conv2D) -> Gemm:
    return Gemm(
        work.name,
        work.pixels,
        work.filters,
        work.depth,
        work.tile_m,
        work.tile_n,
        TILE_K,
        dtype=work.dtype,
        b_order="column",
        carveout="full",
        has_bias=work.has_bias,
        has_residual=work.has_residual,
    )


def _write_taps(record: Any, work: Conv2D, config: WgmmaTile, places: Mapping[str, OperandPlace]) -> None:
    """The maps of the images and of the weights by taps, and whole k-blocks of each."""
    for name, width in (("a", work.channels), ("b", work.depth)):
        require_stride(f"Conv2D {work.name}", name, places[name].row_stride, width)
    # Rows past the last image cost TMA as much as others.
    box = im2col_map(work, min(config.tile_m, -(-work.pixels // ROW_UNIT) * ROW_UNIT))
    images, filters = places["a"], places["b"]
    record["a"] = encode_pixels(images.address, box, work.dtype, images.row_stride)
    taps = (
        work.kernel_size if work.packs_rows else work.window.taps
    )  # a packed row of them is one, of few channels
    size = (work.filters, taps, work.depth // taps)
    record["b"] = encode_weights(filters.address, size, config.tile_n, work.dtype, filters.row_stride)
    record["k"] = work.k_block_count * TILE_K


def _config(work: Conv2D) -> WgmmaTile:
    return CONV_TILES[work.tile_m, work.tile_n]


def _form(work: Conv2D) -> str:
    """The C++ type, sm90/tile_config.cuh."""
    flags = (not is_plain(work), work.activation == "relu", work.has_bias, work.has_residual)
    return f"ConvForm<{', '.join(str(flag).lower() for flag in flags)}>"
