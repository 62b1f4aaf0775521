"""A co-tenant: a kernel that holds SMs for a while, on a stream of its own or in a process of its own.

Example: `Cotenant().block_producers(0.03)` takes nearly all shared memory of every SM for 30 ms: a
wait-kernel still finds room and waits, the kernel that it waits for does not.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch

SOURCE = Path(__file__).with_name("faults.cu")
LEFT_BYTES = 8 << 10  # of an SM's shared memory: too little for a GEMM, enough for blocks that ask for none


class Cotenant:
    """Holds SMs of the current GPU, on a stream whose blocks are issued before other streams'."""

    def __init__(self) -> None:
        self._device = query()
        self._stream = require_cupy().cuda.Stream(non_blocking=True, priority=-5)
        self._function = load_function(SOURCE, "hold", Build(), self._device.shared_bytes_per_block)

    def block_all(self, duration_s: float, sm_count: int | None = None) -> None:
        """So many SMs, all by default: no other block finds room on them."""
        self._hold(duration_s, sm_count or self._device.sm_count, self._device.shared_bytes_per_block)

    def block_producers(self, duration_s: float) -> None:
        """All SMs, for blocks that need more than a few KB of shared memory; others still find room."""
        reserved = self._device.reserved_shared_bytes_per_block
        left = self._device.shared_bytes_per_sm - reserved - LEFT_BYTES
        self._hold(duration_s, self._device.sm_count, min(left, self._device.shared_bytes_per_block))

    def hold_back(self, duration_s: float) -> None:
        """The caller's current stream: what is queued behind begins all at once, whatever launching takes."""
        self._hold(duration_s, 1, 0, require_cupy().cuda.get_current_stream())

    def _hold(self, duration_s: float, blocks: int, shared_bytes: int, stream: Any = None) -> None:
        shape, arguments = KernelLaunch("hold", 32, shared_bytes, blocks), (np.uint64(duration_s * 1e9),)
        DeviceLaunch(self._function, shape, arguments, 0).enqueue([stream or self._stream])


def main() -> int:
    """Holds every SM again and again, for so many seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--hold-s", type=float, default=0.5, help="how long each kernel holds the SMs")
    options = parser.parse_args()
    cotenant, began = Cotenant(), time.monotonic()
    print("holding", flush=True)  # noqa: T201  # tells the other process to begin
    while time.monotonic() - began < options.seconds:
        cotenant.block_all(options.hold_s)
        require_cupy().cuda.Device().synchronize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
