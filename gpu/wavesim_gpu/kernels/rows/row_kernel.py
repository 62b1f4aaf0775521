"""What row kernels have in common: how a row is spread over threads, parameters that say where rows lie.

Example: rows of 4,096 columns are 512 vectors of 16 bytes, four for each of a block's 128 threads; rows of
896 are 112, which a warp holds, so that a block of 128 threads works on four rows at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.stage_backend import OperandPlace, StageBackend, combinations, require_aligned

WARP = 32
VECTOR = 8  # elements of 16 bits in one load
MOST_VECTORS = 4  # of a row in one thread's registers
MOST_THREADS = 512
MOST_COLUMNS = MOST_THREADS * MOST_VECTORS * VECTOR
THREADS_OF_SHORT_ROWS = 128
THREADS_PER_SM = 768  # as many as rows.cuh asks the compiler to leave registers for

# rows/rows.cuh, RowMatrix and RowTiles.
ROW_MATRIX = np.dtype([("data", "<u8"), ("stride", "<i8")])
ROW_TILES = np.dtype(
    [(name, "<i4") for name in ("length", "row_blocks", "tile_m", "is_persistent", "is_dependent")]
)


@dataclass(frozen=True)
class RowConfig:
    """A row is held by `threads_per_row` threads, a warp or the whole block, `vectors` vectors each."""

    threads: int
    threads_per_row: int
    vectors: int

    @property
    def name(self) -> str:
        """The C++ type."""
        return f"RowConfig<{self.threads}, {self.threads_per_row}, {self.vectors}>"


def config_of(columns: int) -> RowConfig:
    """How rows of so many columns are spread: over a warp while that has registers for them."""
    vectors = -(-columns // VECTOR)
    warps = -(-vectors // (MOST_VECTORS * WARP))
    per_row = warps * WARP
    threads = THREADS_OF_SHORT_ROWS if warps == 1 else per_row
    return RowConfig(threads, per_row, -(-vectors // per_row))


class RowBackend(StageBackend):
    """Row kernels, from sm_80 on: a block per tile, or as many as fit, which take tile after tile."""

    family = "portable"
    runs = combinations("tile", "persistent")


def launch_of(expression: str, threads: int, tiles: int, plan: Plan, device: Device) -> KernelLaunch:
    """The launch of a row kernel of so many tiles."""
    slots = device.sm_count * max(1, THREADS_PER_SM // threads)
    return KernelLaunch(expression, threads, 0, plan.schedule.block_count(tiles, slots))


def tiles_record(length: int, tile_m: int, plan: Plan) -> Any:
    """`RowTiles` of sequences of `length` rows."""
    flags = plan.schedule.is_persistent, plan.launch.is_dependent
    return np.array((length, -(-length // tile_m), tile_m, *flags), ROW_TILES)


def matrix_record(owner: str, name: str, place: OperandPlace) -> Any:
    """`RowMatrix` of an operand. Raises `DescriptionError` where 16 bytes cannot be loaded at once."""
    require_aligned(owner, name, place)
    return np.array((place.address, place.row_stride), ROW_MATRIX)


def addresses(owner: str, places: Mapping[str, OperandPlace], *names: str) -> tuple[int, ...]:
    """Of vectors (1, columns), 0 for those that the work has not; checked as `matrix_record` does."""
    return tuple(
        int(matrix_record(owner, name, places[name])["data"]) if name in places else 0 for name in names
    )


def require_vectors(owner: str, **columns: int) -> None:
    """Raises `DescriptionError` unless rows are whole vectors, as many as a block has registers for."""
    for name, value in columns.items():
        if value % VECTOR:
            raise DescriptionError(
                f"{owner}: {name} is {value}; on the GPU it must be a multiple of {VECTOR}. Pad it to "
                f"{-(-value // VECTOR) * VECTOR}"
            )
        if value > MOST_COLUMNS:
            raise DescriptionError(
                f"{owner}: {name} is {value}; a block holds rows of at most {MOST_COLUMNS} in registers. "
                "Split the rows"
            )


def is_bf16(dtype: str) -> str:
    """The template argument."""
    return str(dtype == "bf16").lower()
