"""How long a block takes that does little but move bytes: rows of a norm, a copy, the cache of a decode step.

Example: 264 blocks that each move 32 KB share 4.2 TB/s and have 16 GB/s each: 2 us, and 1.5 us of latency
before and after. Where few run, each is bound by the loads that one block keeps in flight.
"""

from dataclasses import dataclass
from typing import ClassVar

from wavesim.model.device import Device
from wavesim.model.kernel import Kernel
from wavesim.model.occupancy import occupancy_of
from wavesim.model.stage import Stage
from wavesim.work.law import BYTES_SHARPNESS, BlockTimes, CostLaw, RunSetting, StageTimes, bent


@dataclass(frozen=True)
class StreamingCosts(CostLaw):
    """The constants of a kind of kernels on a device, as its data file has them.

    All resident blocks move `bytes_per_s` together, one block alone no more than `block_bytes_per_s`;
    `block_ns` is its latency besides: the first load, the reductions, the last store.
    """

    section: ClassVar[str] = "rows"

    bytes_per_s: float
    block_bytes_per_s: float
    block_ns: int

    @property
    def most_bytes_per_s(self) -> float:
        """What one block can move."""
        return self.block_bytes_per_s

    def times(self, stage: Stage, setting: RunSetting) -> StageTimes:
        """All blocks alike."""
        return StageTimes(BlockTimes(loads_ns=self.tile_ns(stage.kernel, setting.device)))

    def tile_ns(self, kernel: Kernel, device: Device) -> int:
        """One block, beside as many of its own kind as are resident."""
        fitting = occupancy_of(device, kernel.block).blocks_per_sm * device.sm_count
        resident = min(kernel.grid.size, fitting)
        own_ns, shared_ns = (
            kernel.bytes_per_block / rate * 1e9
            for rate in (self.block_bytes_per_s, self.bytes_per_s / resident)
        )
        return round(self.block_ns + bent(own_ns, shared_ns, BYTES_SHARPNESS))


class DecodeCosts(StreamingCosts):
    """The same of attention that reads a cache for one query a sequence."""

    section: ClassVar[str] = "decode"
