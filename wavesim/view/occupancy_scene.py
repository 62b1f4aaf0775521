"""What one SM holds of a kernel, resource by resource, and how its grid falls into waves, as plain values.

Example: two blocks fill 198 of 228 KB of shared memory and a third does not fit, while registers would
hold four; below, 133 blocks on 132 SMs: a full wave, and a second with a single block.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.occupancy import Occupancy, allocation, carveout_level, occupancy_of
from wavesim.view.canvas import Props

KIB = 1024
REASONS = {
    "blocks": "no SM takes more",
    "warps": "more warps do not fit",
    "registers": "its registers allow no more",
    "shared memory": "its shared memory allows no more",
}


@dataclass(frozen=True)
class ShownKernel:
    """A kernel to look at: its block, how many of them, on what, at which carve-out (None: the largest)."""

    device: Device
    block: Block
    blocks: int
    carveout_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.blocks < 1:
            raise DescriptionError(f"blocks is {self.blocks}; a grid has at least 1")

    @property
    def occupancy(self) -> Occupancy:
        """Raises `DescriptionError` if the device can never run such a block."""
        return occupancy_of(self.device, self.block, self.carveout_bytes)

    @property
    def wave(self) -> int:
        """Blocks that are resident at once on all SMs."""
        return self.occupancy.blocks_per_sm * self.device.sm_count

    @property
    def shared_level(self) -> int:
        """Bytes of shared memory that an SM offers: the carve-out, or more if not one block would fit."""
        wanted = self.carveout_bytes
        level = self.device.shared_bytes_per_sm if wanted is None else carveout_level(self.device, wanted)
        return max(level, carveout_level(self.device, allocation(self.device, self.block).shared_bytes))


def scene_of_launch(launch: ShownKernel) -> Props:
    """Capacity and need of each resource, who limits, and each wave's blocks. Raises `DescriptionError`."""
    occupancy, wave = launch.occupancy, launch.wave
    resident = occupancy.blocks_per_sm
    full, rest = divmod(launch.blocks, wave)
    return {
        "title": f"{_plural(resident, 'block')} per SM: {REASONS[occupancy.limiter]}",
        "subtitle": _facts(launch, occupancy),
        "resident": resident,
        "limiter": occupancy.limiter,
        "resources": _resources(launch, occupancy),
        "waveTitle": _wave_title(launch.blocks, wave, full, rest),
        "wave": wave,
        "waves": full + bool(rest),
        "rest": rest or wave,
        "device": {"name": launch.device.name.upper(), "sms": launch.device.sm_count},
    }


def _facts(launch: ShownKernel, occupancy: Occupancy) -> str:
    block, warps = launch.block, launch.device.max_warps_per_sm
    shared = f"{block.shared_bytes / KIB:g} KiB of shared memory"
    return (
        f"{block.threads} threads, {block.registers} registers each, {shared} "
        f"on {launch.device.name.upper()}: "
        f"{occupancy.warps_per_sm} of {warps} warps, an occupancy of {occupancy.fraction:.0%}. "
        f"{_raised(launch)}Computed, not measured"
    ).replace("%", " %")


def _raised(launch: ShownKernel) -> str:
    """That the carve-out chosen holds no block, so that a larger one is used."""
    wanted, used = launch.carveout_bytes, launch.shared_level
    if wanted is None or carveout_level(launch.device, wanted) == used:
        return ""
    return f"{wanted / KIB:g} KiB hold no such block: the carve-out is {used / KIB:g} KiB. "


def _resources(launch: ShownKernel, occupancy: Occupancy) -> list[Props]:
    device, need = launch.device, allocation(launch.device, launch.block)
    rows = (
        ("blocks", "block slots", device.max_blocks_per_sm, 1, ""),
        ("warps", "warps", device.max_warps_per_sm, need.warps, ""),
        ("registers", "registers", device.registers_per_sm, need.registers, ""),
        ("shared memory", "shared memory", launch.shared_level / KIB, need.shared_bytes / KIB, "KiB"),
    )
    return [
        {
            "name": name,
            "label": label,
            "capacity": capacity,
            "need": each,
            "unit": unit,
            "allows": occupancy.limits[name],
            "isLimit": name == occupancy.limiter,
        }
        for name, label, capacity, each, unit in rows
    ]


def _wave_title(blocks: int, wave: int, full: int, rest: int) -> str:
    waves = full + bool(rest)
    fill = "fills" if blocks == 1 else "fill"
    if not rest:
        return f"{_plural(blocks, 'block')} {fill} {_plural(waves, 'wave')}"
    if not full:
        return f"{_plural(blocks, 'block')} {fill} {rest / wave:.0%} of one wave".replace("%", " %")
    work = f"{_plural(blocks, 'block')}: {blocks / wave:.2f} waves of work take {_plural(waves, 'wave')}"
    return f"{work}; the last is {rest / wave:.0%} full".replace("%", " %")


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
