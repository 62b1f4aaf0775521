"""What the portable attention kernels have in common: the plans that they run, and where operands are.

Example: K in a cache of 4,096 rows a sequence and 1,024 columns is an address, 1,024 elements from row to row
and 4,096 * 1,024 from one sequence's first row to the next's.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim_gpu.kernels.stage_backend import (
    OperandPlace,
    combinations,
    reasons_of_a_tile_per_block,
    require_aligned,
)

# operand.cuh, Operand.
OPERAND = np.dtype([("data", "<u8"), ("row", "<i8"), ("sequence", "<i8")])
assert OPERAND.itemsize == 24

LOG2_E = 1.4426950408889634  # exponentials are powers of two on the device
DEPENDENT_LAUNCH = (9, 0)  # the first compute capability that has griddepcontrol
PORTABLE_RUNS = combinations("tile")
PORTABLE_REASONS = reasons_of_a_tile_per_block("it has no sum over K to split")


def store_operands(
    record: Any, owner: str, places: Mapping[str, OperandPlace], sequence_rows: Mapping[str, int]
) -> None:
    """Writes the operands into a kernel's parameters; `sequence_rows` are the rows between two sequences.

    Raises `DescriptionError` for an address or a row that 16-byte copies cannot read.
    """
    for name, rows in sequence_rows.items():
        place = places[name]
        require_aligned(owner, name, place)
        record[name] = (place.address, place.row_stride, rows * place.row_stride)


def require_launchable(plan: Plan, device: Device) -> None:
    """Raises `DescriptionError` for dependent launch on a GPU that lacks it."""
    if plan.launch.is_dependent and device.compute_capability < DEPENDENT_LAUNCH:
        major, minor = device.compute_capability
        raise DescriptionError(
            f"{plan.label}: {device.name} has compute capability {major}.{minor}; dependent launch needs 9.0 "
            "(griddepcontrol). Use launch one-stream"
        )
