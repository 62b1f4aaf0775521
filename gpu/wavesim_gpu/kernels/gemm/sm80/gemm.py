"""The portable tensor-core GEMM: which tile shapes exist, what a block of each occupies, how to launch one.

Example: `config_of(gemm)` finds the tile configuration of a described `Gemm`; its `threads` and
`dynamic_shared_bytes` are what the description's `Block` should say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.cusync.layout import GEMM_PARAMS
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses, AddressField, GemmBackend, Operand
from wavesim_gpu.kernels.stage_backend import combinations, reasons_of_a_tile_per_block

POINTERS: tuple[Operand, ...] = ("a", "b", "c", "partials", "tickets")
ROW_UNIT = 8  # elements in one 16-byte copy


@dataclass(frozen=True)
class MmaTile:
    """A tile, warps along m and n, pipeline depth, and the blocks that must fit on an SM."""

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    depth: int
    min_blocks: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def dynamic_shared_bytes(self) -> int:
        """The pipeline: a k-block of A and one of B per slot."""
        return self.depth * 2 * self.tile_k * (self.tile_m + self.tile_n)

    @property
    def name(self) -> str:
        """The C++ type."""
        sizes = (self.tile_m, self.tile_n, self.tile_k, self.warps_m, self.warps_n, self.depth)
        return f"TileConfig<{', '.join(map(str, sizes))}>"


def tile_among(tiles: Mapping[tuple[int, int, int], MmaTile], backend: str, work: Any) -> MmaTile:
    """Of some work, by tile_m, tile_n and tile_k. Raises `DescriptionError` where no kernel has it."""
    size = (work.tile_m, work.tile_n, work.tile_k)
    if size not in tiles:
        known = ", ".join("x".join(map(str, tile)) for tile in tiles)
        tile = "x".join(map(str, size))
        raise DescriptionError(
            f"{type(work).__name__} {work.name}: the tile is {tile}; backend {backend!r} has {known}. "
            "Use one of these"
        )
    return tiles[size]


TILE_CONFIGS = {
    (entry.tile_m, entry.tile_n, entry.tile_k): entry
    for entry in (
        MmaTile(128, 256, 32, 2, 4, depth=4, min_blocks=1),
        MmaTile(256, 128, 32, 4, 2, depth=4, min_blocks=1),
        MmaTile(128, 128, 32, 2, 2, depth=4, min_blocks=2),
        MmaTile(64, 64, 32, 2, 2, depth=4, min_blocks=3),
        MmaTile(128, 256, 64, 2, 4, depth=4, min_blocks=1),
        MmaTile(256, 128, 64, 4, 2, depth=4, min_blocks=1),
        MmaTile(128, 128, 64, 2, 2, depth=3, min_blocks=2),
    )
}


class Portable(GemmBackend):
    """A block per tile and split of K, on every GPU from sm_80 on."""

    name = family = "portable"
    source = Path(__file__).with_name("gemm.cu")
    tiles = tuple(TILE_CONFIGS)
    activations = (None, "gelu")
    runs = combinations("tile", has_dependent_launch=False)
    reasons: ClassVar = reasons_of_a_tile_per_block("it splits K into equal parts only (Gemm.split_k)") | {
        "pdl": "dependent launch needs griddepcontrol, which an sm_80 lacks",
    }

    def multiples(self, gemm: Gemm) -> Mapping[str, int]:
        return {"n": ROW_UNIT, "k": gemm.tile_k}

    def launch(self, gemm: Gemm, plan: Plan, device: Device) -> KernelLaunch:  # the same on every device
        """One block per tile and split."""
        self.check(gemm, plan)
        config = config_of(gemm)
        return KernelLaunch(expression_of(gemm), config.threads, config.dynamic_shared_bytes, gemm.grid.size)

    def arguments(self, gemm: Gemm, plan: Plan, addresses: Addresses) -> tuple[Any, ...]:
        """`GemmParams`. Raises `DescriptionError` for strides: its operands are dense."""
        dense = {"a_stride": gemm.k, "b_stride": gemm.n, "c_stride": gemm.columns}
        for name, width in dense.items():
            stride = getattr(addresses, name)
            if stride not in (0, width):
                raise DescriptionError(
                    f"Gemm {gemm.name}: {name} is {stride} elements; backend {self.name!r} takes dense rows "
                    f"of {width}. Use a contiguous copy, or backend='hopper'"
                )
        record = np.zeros(1, GEMM_PARAMS)[0]
        for name in POINTERS:
            record[name] = getattr(addresses, name)
        record["m"], record["n"], record["k"] = gemm.m, gemm.n, gemm.k
        return (record,)

    def address_fields(self, gemm: Gemm, plan: Plan) -> list[AddressField]:
        assert GEMM_PARAMS.fields is not None
        return [AddressField(GEMM_PARAMS.fields[name][1], "pointer", name) for name in POINTERS]


def config_of(gemm: Gemm) -> MmaTile:
    """The configuration of a GEMM's tile, which is one of `Portable.tiles`."""
    return TILE_CONFIGS[gemm.tile_m, gemm.tile_n, gemm.tile_k]


def expression_of(gemm: Gemm) -> str:
    """The template instance that computes a GEMM in one of `Portable.tiles`."""
    config, flags = config_of(gemm), (gemm.dtype == "bf16", gemm.activation == "gelu")
    is_bf16, has_gelu = (str(flag).lower() for flag in flags)
    return f"gemm<{config.name}, {config.min_blocks}, {is_bf16}, {has_gelu}>"
