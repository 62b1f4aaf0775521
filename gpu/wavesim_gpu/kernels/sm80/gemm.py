"""The portable tensor-core GEMM: which tile shapes exist, what a block of each occupies, how to launch one.

Example: `variant(gemm)` finds the template instance for a described `Gemm`; its shape's `threads` and
`dynamic_shared_bytes` are what the description's `Block` should say. `PORTABLE` is what the runner launches.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim_gpu.cusync.layout import GEMM_PARAMS
from wavesim_gpu.kernels.backend import Addresses, KernelLaunch

SOURCE = Path(__file__).with_name("gemm.cu")
SPLIT_ALIGNMENT = 8  # halves in one 16-byte copy


@dataclass(frozen=True)
class Shape:
    """One tile shape: warps along m and n, pipeline stages, and the blocks that must fit on an SM."""

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    min_blocks: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def dynamic_shared_bytes(self) -> int:
        """The ring of stages, each a chunk of A and a chunk of B."""
        return self.stages * 2 * self.tile_k * (self.tile_m + self.tile_n)

    @property
    def name(self) -> str:
        """The C++ type."""
        sizes = (self.tile_m, self.tile_n, self.tile_k, self.warps_m, self.warps_n, self.stages)
        return f"TileConfig<{', '.join(map(str, sizes))}>"


SHAPES = {
    (shape.tile_m, shape.tile_n, shape.tile_k): shape
    for shape in (
        Shape(128, 256, 32, 2, 4, stages=4, min_blocks=1),
        Shape(256, 128, 32, 4, 2, stages=4, min_blocks=1),
        Shape(128, 128, 32, 2, 2, stages=4, min_blocks=2),
        Shape(64, 64, 32, 2, 2, stages=4, min_blocks=3),
        Shape(128, 256, 64, 2, 4, stages=4, min_blocks=1),
        Shape(256, 128, 64, 4, 2, stages=4, min_blocks=1),
        Shape(128, 128, 64, 2, 2, stages=3, min_blocks=2),
    )
}


@dataclass(frozen=True)
class Variant:
    """A template instance: tile shape, element type, activation."""

    shape: Shape
    dtype: str
    activation: str | None

    @property
    def expression(self) -> str:
        """The instance's C++ name."""
        is_bf16, has_gelu = (str(flag).lower() for flag in (self.dtype == "bf16", self.activation == "gelu"))
        return f"gemm<{self.shape.name}, {self.shape.min_blocks}, {is_bf16}, {has_gelu}>"


def variant(gemm: Gemm) -> Variant:
    """The instance that computes a described GEMM.

    Raises `DescriptionError` for a tile shape that is not compiled, or sizes the copies cannot take.
    """
    key = (gemm.tile_m, gemm.tile_n, gemm.tile_k)
    if key not in SHAPES:
        known = ", ".join("x".join(map(str, shape)) for shape in SHAPES)
        raise DescriptionError(
            f"Gemm {gemm.name}: the tile is {'x'.join(map(str, key))}; the GPU's kernels "
            f"have {known}. Use one of these"
        )
    for name, size, unit in (("n", gemm.n, SPLIT_ALIGNMENT), ("k", gemm.k, gemm.tile_k)):
        if size % unit:
            raise DescriptionError(
                f"Gemm {gemm.name}: {name} is {size}; on the GPU it must be a multiple of {unit}. Pad it to "
                f"{-(-size // unit) * unit}"
            )
    if gemm.activation not in (None, "gelu"):
        raise DescriptionError(
            f"Gemm {gemm.name}: activation is {gemm.activation!r}; the GPU's kernels have None and 'gelu'. "
            "Leave it out and apply it outside"
        )
    return Variant(SHAPES[key], gemm.dtype, gemm.activation)


@dataclass(frozen=True)
class Portable:
    """The family: one block per tile and split-K slice, on every GPU from sm_80 on."""

    name: str = "portable"
    source: Path = SOURCE
    is_persistent: bool = False
    is_dependent: bool = False
    takes_semaphores: bool = True

    def check(self, gemm: Gemm) -> None:
        """Raises `DescriptionError` for a GEMM that it cannot compute."""
        variant(gemm)

    def launch(self, gemm: Gemm, device: Device) -> KernelLaunch:  # the same on every device
        """One block per tile and slice."""
        chosen = variant(gemm)
        shape = chosen.shape
        return KernelLaunch(chosen.expression, shape.threads, shape.dynamic_shared_bytes, gemm.grid.size)

    def arguments(self, gemm: Gemm, addresses: Addresses) -> tuple[Any, ...]:
        """`GemmParams`."""
        record = np.zeros(1, GEMM_PARAMS)[0]
        for name, value in asdict(addresses).items():
            record[name] = value
        record["m"], record["n"], record["k"] = gemm.m, gemm.n, gemm.k
        return (record,)

    def partial_bytes(self, gemm: Gemm) -> int:
        """Bytes of fp32 partial sums that split-K keeps; 0 without it."""
        return 4 * gemm.grid.size * gemm.tile_m * gemm.tile_n if gemm.split_k > 1 else 0


PORTABLE = Portable()
