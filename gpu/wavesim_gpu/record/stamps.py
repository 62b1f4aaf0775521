"""What follows from the stamps that blocks leave: slots, the clock's step and rate, times counted from zero.

Example: three blocks on SM 7, the third starting when the first has ended: slots 0, 1 and 0. The hardware
does not tell slots, so blocks of an SM are laid into the lowest one that is free when they start.
"""

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.model.device import Device


def within(records: NDArray[Any], sm_count: int) -> NDArray[Any]:
    """The records with SMs numbered from 0 where the run had only a part of the GPU.

    The hardware's numbers are of the whole GPU, also in a green context with `sm_count` of them.
    """
    used, numbers = np.unique(records["sm"], return_inverse=True)
    if not len(used) or used[-1] < sm_count or len(used) > sm_count:
        return records
    renumbered = records.copy()
    renumbered["sm"] = numbers
    return renumbered


def from_zero(records: NDArray[Any]) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """The first start, and all starts and ends counted from it."""
    zero = int(records["start_ns"].min())
    start, end = ((records[name] - np.uint64(zero)).astype(np.int64) for name in ("start_ns", "end_ns"))
    return zero, start, end


def tile_cycles(records: NDArray[Any]) -> NDArray[np.int64]:
    """SM cycles from each tile's start to its end."""
    return (records["end_cycles"] - records["start_cycles"]).astype(np.int64)


def timer_step_ns(records: NDArray[Any]) -> int:
    """The step of the GPU's clock, as far as these stamps show it: what divides all their differences."""
    stamps = np.unique(np.concatenate([records["start_ns"], records["end_ns"]]))
    return max(1, int(np.gcd.reduce(np.diff(stamps)))) if len(stamps) > 1 else 1


def clock_mhz(cycles: NDArray[Any], start: NDArray[Any], end: NDArray[Any]) -> float | None:
    """SM cycles over nanoseconds of the blocks; None where no time passed."""
    elapsed = float((end - start).sum())
    return round(float(cycles.sum()) / elapsed * 1000, 1) if elapsed else None


def device_fields(device: Device) -> dict[str, Any]:
    """A device as a trace's header keeps it."""
    return {name: value for name, value in asdict(device).items() if name != "sources"}
