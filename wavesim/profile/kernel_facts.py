"""One shape of a profile: occupancy, waves, tail loss, and the reason if its tiles cannot be known.

Example: flash_fwd_kernel, 5 x 16 x 16 blocks of 128 threads with 255 registers and 48 KB: two per SM, so 264
at once on an H100 and 4.85 waves; 3 % of its slot time is lost in the last one.
"""

from dataclasses import dataclass
from math import ceil

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.occupancy import Occupancy, occupancy_of
from wavesim.profile.kernel_names import KernelName, parsed_name
from wavesim.profile.profile import LaunchShape
from wavesim.profile.wave_model import Waves

COMMUNICATION = "communication"
PERSISTENT = "persistent"
GROUPED = "grouped"
NO_LAUNCH = "no grid or resources"
BLIND_WORDS = {
    COMMUNICATION: "communication: waits for other devices",
    PERSISTENT: "persistent: blocks stay and take tile after tile, the grid hides them",
    GROUPED: "grouped products of one wave: how many tiles a block takes, only the data says",
    NO_LAUNCH: "launch not recorded: no grid, registers or known device",
}


@dataclass(frozen=True)
class KernelFacts:
    """What is known of a shape. `waves` is None where `blind` says why it can't be known.

    `filled_share`: of the slots that its last waves leave empty, what kernels of other streams filled.
    """

    shape: LaunchShape
    name: KernelName
    device: Device | None
    count: int
    total_ns: int
    occupancy: Occupancy | None
    waves: Waves | None
    blind: str | None
    filled_share: float = 0.0

    @property
    def mean_ns(self) -> float:
        """Time of one launch."""
        return self.total_ns / self.count if self.count else 0.0

    @property
    def tail_loss_ns(self) -> float:
        """Slot time lost in last waves, as time of the whole device; nothing for up to one wave."""
        return 0.0 if self.waves is None or self.waves.rounds < 2 else self.empty_ns

    @property
    def empty_ns(self) -> float:
        """Slot time that last or only waves leave empty, other streams too, as time of the whole device."""
        left = 1.0 - self.filled_share
        return 0.0 if self.waves is None else self.total_ns * self.waves.idle_share * left

    @property
    def label(self) -> str:
        """Short name and grid."""
        grid = self.shape.grid
        if grid is None:
            return self.name.short
        sizes = " x ".join(
            str(size) for size in (grid if grid[2] > 1 else grid[:2] if grid[1] > 1 else grid[:1])
        )
        return f"{self.name.short} [{sizes}]"


def facts_of(shape: LaunchShape, device: Device | None, count: int, total_ns: int) -> KernelFacts:
    """The facts of one shape that ran `count` times."""
    name = parsed_name(shape.name)
    occupancy = _occupancy(shape, device)
    waves = None
    if occupancy is not None and device is not None and shape.blocks is not None and occupancy.blocks_per_sm:
        waves = Waves(shape.blocks, occupancy.blocks_per_sm * device.sm_count, device.sm_count)
    blind = _blind(shape, name, waves)
    return KernelFacts(shape, name, device, count, total_ns, occupancy, None if blind else waves, blind)


def _occupancy(shape: LaunchShape, device: Device | None) -> Occupancy | None:
    if device is None or shape.threads is None or shape.registers is None or shape.shared_bytes is None:
        return None
    try:
        block = Block(shape.threads, shape.registers, dynamic_shared_bytes=shape.shared_bytes)
        return occupancy_of(device, block)
    except (
        DescriptionError
    ):  # a block that this device cannot run: the launch and the device do not belong together
        return None


def _blind(shape: LaunchShape, name: KernelName, waves: Waves | None) -> str | None:
    if name.kind == "communication":
        return COMMUNICATION
    if waves is None:
        return NO_LAUNCH
    if _is_persistent(shape, name, waves):
        return PERSISTENT
    return GROUPED if name.is_grouped and name.tile is None and waves.blocks <= waves.slots else None


def _is_persistent(shape: LaunchShape, name: KernelName, waves: Waves) -> bool:
    """By name, by a grid made to fill the device once, or because the product has more tiles than blocks."""
    if waves.blocks > waves.slots:
        return False
    if name.is_persistent:
        return True
    if name.kind in ("gemm", "attention"):
        per_sm, rest = divmod(waves.blocks, waves.sm_count)
        return (rest == 0 and per_sm >= 1) or _tiles(shape, name) > waves.blocks
    return waves.blocks == waves.slots


def _tiles(shape: LaunchShape, name: KernelName) -> int:
    """Output tiles that the operands ask for, in the tile of the name; 0 where either is unknown."""
    if shape.gemm is None or name.tile is None:
        return 0
    (m, n, _), (rows, columns) = shape.gemm, name.tile
    return min(ceil(m / rows) * ceil(n / columns), ceil(n / rows) * ceil(m / columns))
