"""The small kernels around the real ones: the wait-kernel, and one that passes time."""

from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.cusync.layout import WAIT_KERNEL_PARAMS
from wavesim_gpu.driver.kernel_launch import KernelLaunch

SOURCE = Path(__file__).with_name("control.cu")
WAIT_LAUNCH = KernelLaunch("wait_for_start", threads=32, dynamic_shared_bytes=0, blocks=1)


def wait_params(producers: tuple[int, ...], times: int = 0) -> Any:
    """The wait-kernel's own parameter: stage indices to wait for, and where to note its start and end."""
    record = np.zeros(1, WAIT_KERNEL_PARAMS)[0]
    record["producers"][: len(producers)] = producers
    record["producer_count"] = len(producers)
    record["times"] = times
    return record
