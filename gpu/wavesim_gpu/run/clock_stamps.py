"""The SM clock that a stretch of a stream ran at, from the SMs' own counters.

Example: stamp, kernel, stamp: 700,000 cycles later on each SM, and 480 us later for all, is 1.46 GHz. NVML's
sampled clock is an average over milliseconds and over neighbours; this one belongs to the kernel alone.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function

SOURCE = Path(__file__).with_name("clock_stamp.cu")
BLOCKS_PER_SM = 4  # blocks spread breadth-first, so every SM gets one; spare ones make up for busy SMs


class ClockStamps:
    """Room for `count` stamps on the current GPU."""

    def __init__(self, count: int) -> None:
        self._sms = query().sm_count
        self._stamps = require_cupy().zeros((count, self._sms, 2), np.uint64)
        self._function = load_function(SOURCE, "stamp", Build()).function
        self._made = 0

    def make(self, stream: Any) -> None:
        """Puts the next stamp into a stream; about 2 us."""
        where = self._stamps.data.ptr + self._made * self._stamps.strides[0]
        self._function((self._sms * BLOCKS_PER_SM, 1, 1), (32, 1, 1), (np.uint64(where),), 0, stream)
        self._made += 1

    def clocks_ghz(self) -> list[float]:
        """The mean clock between each stamp and the next, median over SMs; NaN where no SM has both."""
        return mean_clocks(self._stamps[: self._made].get())


def mean_clocks(stamps: np.ndarray[Any, Any]) -> list[float]:
    """`stamps` (count, SMs, 2) of cycles and ns, zeros where an SM made none; count - 1 clocks in GHz."""
    clocks = []
    for before, after in pairwise(stamps):
        is_there = (before[:, 1] > 0) & (after[:, 1] > before[:, 1])
        passed = (after[is_there] - before[is_there]).astype(float)
        clocks.append(float(np.median(passed[:, 0] / passed[:, 1])) if is_there.any() else float("nan"))
    return clocks
