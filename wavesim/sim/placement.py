"""Where blocks go: what each SM still has room for, and which SM gets the next block.

Example: 132 blocks of a kernel that fits twice on an SM land one on each of 132 SMs; the next 66
make pairs. That is breadth-first placement: the SM with the fewest resident blocks comes first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from wavesim.model.device import Device
from wavesim.model.kernel import Kernel
from wavesim.model.occupancy import allocation, default_carveout, occupancy_of

# Of SMs' numbers: multiples of the golden section, so that neighbours come far apart.
SPREAD, SPREAD_OVER = 40_503, 65_536


@dataclass(frozen=True)
class Footprint:
    """What one block takes from an SM, and the carve-out its kernel asks for.

    `least_carveout_bytes`: a block joins others only on an SM whose carve-out is at least its own
    kernel's default, even where there is room. Source: observed on an NVIDIA H200.
    """

    warps: int
    registers: int
    shared_bytes: int
    carveout_bytes: int
    least_carveout_bytes: int
    blocks_per_sm: int


def footprint(device: Device, kernel: Kernel) -> Footprint:
    """A block's demands on the device. Raises `DescriptionError` if no SM can hold it."""
    limits = occupancy_of(device, kernel.block)
    taken = allocation(device, kernel.block)
    default = default_carveout(device, kernel.block)
    return Footprint(
        warps=taken.warps,
        # A share of the SM rather than a sum of registers: the driver allocates them per quarter of an SM.
        registers=max(taken.registers, device.registers_per_sm // limits.limits["registers"]),
        shared_bytes=taken.shared_bytes,
        carveout_bytes=default if kernel.carveout == "default" else device.shared_bytes_per_sm,
        least_carveout_bytes=default,
        blocks_per_sm=limits.blocks_per_sm,
    )


class SmPool:
    """The room left on every SM. Slots are numbered from 0 and reused, lowest first."""

    def __init__(self, device: Device) -> None:
        count = device.sm_count
        self.resident = [0] * count
        self._warps = [device.max_warps_per_sm] * count
        self._registers = [device.registers_per_sm] * count
        self._shared = [0] * count
        self._carveout = [0] * count
        self._slots = [0] * count  # bit i set: slot i is taken
        self._max_blocks = device.max_blocks_per_sm
        self._candidates: list[tuple[int, int]] = []

    def fits(self, sm: int, block: Footprint) -> bool:
        """Whether the block could be issued to the SM now.

        An SM that holds blocks keeps its carve-out; an idle one takes the newcomer's.
        """
        if not self.resident[sm]:
            return True
        return (
            self.resident[sm] < self._max_blocks
            and self._warps[sm] >= block.warps
            and self._registers[sm] >= block.registers
            and self._carveout[sm] - self._shared[sm] >= block.shared_bytes
            and self._carveout[sm] >= block.least_carveout_bytes
        )

    def offer(self, sms: Iterable[int]) -> None:
        """Makes these SMs the ones that `place` looks at: those where something has changed."""
        self._candidates = [(self.resident[sm], sm) for sm in sms]
        heapify(self._candidates)

    def place(self, block: Footprint) -> tuple[int, int] | None:
        """Takes a slot on the offered SM with the fewest blocks: (sm, slot), or None if none has room."""
        candidates, fits = self._candidates, self.fits
        while candidates:
            sm = candidates[0][1]
            if fits(sm, block):
                slot = self._take(sm, block)
                heapreplace(candidates, (self.resident[sm], sm))
                return sm, slot
            heappop(candidates)
        return None

    def _take(self, sm: int, block: Footprint) -> int:
        if not self.resident[sm]:
            self._carveout[sm] = block.carveout_bytes
        self.resident[sm] += 1
        self._warps[sm] -= block.warps
        self._registers[sm] -= block.registers
        self._shared[sm] += block.shared_bytes
        free = ~self._slots[sm] & (self._slots[sm] + 1)
        self._slots[sm] |= free
        return free.bit_length() - 1

    def release(self, sm: int, slot: int, block: Footprint) -> None:
        """Gives the slot and what the block took back to the SM."""
        self.resident[sm] -= 1
        self._warps[sm] += block.warps
        self._registers[sm] += block.registers
        self._shared[sm] -= block.shared_bytes
        self._slots[sm] ^= 1 << slot
