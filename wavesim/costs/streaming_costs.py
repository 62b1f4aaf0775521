"""How long a block takes that does little but move bytes: rows of a norm, a copy, the cache of a decode step.

Example: 264 blocks that each move 32 KB share 4.2 TB/s and have 16 GB/s each: 2 us, and 1.5 us of latency
before and after. Where few run, each is bound by the loads that one block keeps in flight.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from wavesim.costs.constants import UNITS
from wavesim.costs.device_costs import own_file
from wavesim.costs.product_costs import bent
from wavesim.model.device import Device
from wavesim.model.kernel import Kernel
from wavesim.model.occupancy import occupancy_of

SHARPNESS = 3  # of the bend between what one block and what all of them can move


@dataclass(frozen=True)
class StreamingCosts:
    """The constants of a kind of kernels on a device, as its data file has them.

    All resident blocks move `bytes_per_s` together, one block alone no more than `block_bytes_per_s`;
    `block_ns` is its latency besides: the first load, the reductions, the last store.
    """

    bytes_per_s: float
    block_bytes_per_s: float
    block_ns: int

    def tile_ns(self, kernel: Kernel, device: Device) -> int:
        """One block, beside as many of its own kind as are resident."""
        fitting = occupancy_of(device, kernel.block).blocks_per_sm * device.sm_count
        resident = min(kernel.grid.size, fitting)
        own_ns, shared_ns = (
            kernel.bytes_per_block / rate * 1e9
            for rate in (self.block_bytes_per_s, self.bytes_per_s / resident)
        )
        return round(self.block_ns + bent(own_ns, shared_ns, SHARPNESS))


@cache
def streaming_costs_of(device_name: str, section: str) -> StreamingCosts | None:
    """Those of `section` ("rows", "decode") of a device's file; None where none were timed on it."""
    constants = own_file(device_name).constants
    values: dict[str, Any] = {
        key: constants[f"{section}.{key}"].value for key in UNITS[section] if f"{section}.{key}" in constants
    }
    return StreamingCosts(**values) if values else None
