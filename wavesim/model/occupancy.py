"""Occupancy: how many blocks of a kernel one SM holds, by CUDA's own allocation rules.

Example: blocks of 256 threads, 64 registers per thread and 98 KB of shared memory on an H200. Warps
alone would allow eight per SM, registers four; but each takes 99 of the SM's 228 KB of shared memory
(1 KB is reserved per block), so two are resident: 16 of 64 warps, an occupancy of 25 %.

Source: CUDA C++ Programming Guide, Hardware Multithreading and Compute Capabilities; the rules
agree with the occupancy calculator of CUDA 13.0 and with an H200's driver. Named barriers, which the driver
counts from compute capability 9.0, never bind here: every block is taken to use one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.device import SUB_PARTITIONS, Device
from wavesim.model.kernel import WARP_SIZE, Block

REGISTER_UNIT = 256
STATIC_SHARED_LIMIT = 49_152


@dataclass(frozen=True)
class Allocation:
    """What an SM sets aside for one block: after rounding, and with the driver's reserved bytes."""

    warps: int
    registers: int
    shared_bytes: int


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks of one kernel per SM, and the resource that limits them.

    `limits` maps "blocks", "warps", "registers" and "shared memory" to the blocks each would
    allow; `limiter` is the first of them that equals `blocks_per_sm`. `fraction` is NVIDIA's
    occupancy: resident warps over the warps an SM can hold.
    """

    blocks_per_sm: int
    limiter: str
    warps_per_sm: int
    fraction: float
    limits: Mapping[str, int]


def occupancy_of(device: Device, block: Block, carveout_bytes: int | None = None) -> Occupancy:
    """Resident blocks per SM at a carve-out, by default the largest.

    As in CUDA a carve-out is a hint: it rounds up to the next level of the device, and further if
    not even one block would fit.

    Raises `DescriptionError` if the device can never run such a block.
    """
    allocated = allocation(device, block)
    limits = {
        "blocks": device.max_blocks_per_sm,
        "warps": device.max_warps_per_sm // allocated.warps,
        "registers": _blocks_by_registers(device, block),
        "shared memory": _blocks_by_shared_memory(device, allocated, carveout_bytes),
    }
    limiter, blocks_per_sm = min(limits.items(), key=lambda limit: limit[1])
    warps = blocks_per_sm * allocated.warps
    return Occupancy(blocks_per_sm, limiter, warps, warps / device.max_warps_per_sm, limits)


def allocation(device: Device, block: Block) -> Allocation:
    """What an SM of the device sets aside for one block.

    Raises `DescriptionError` if the device can never run such a block.
    """
    require_runnable(device, block)
    unit = 128 if device.compute_capability >= (8, 0) else 256
    return Allocation(
        warps=block.warps,
        registers=_registers_per_warp(block) * block.warps,
        shared_bytes=_round_up(block.shared_bytes + device.reserved_shared_bytes_per_block, unit),
    )


def default_carveout(device: Device, block: Block) -> int:
    """The least shared memory that an SM offers while it runs the kernel without a stated preference.

    The smallest level that holds as many of the kernel's blocks as can be resident at all. It can
    leave no room for another kernel's blocks: on an H200 a 150 KB block gets 164 KB. Measured there:
    blocks are kept waiting by an SM at a lower level even if they would fit, whether or not they
    ask for more; kernels limited by warps may get a level or two more, up to 132 KB.
    """
    needed = occupancy_of(device, block).blocks_per_sm * allocation(device, block).shared_bytes
    return carveout_level(device, needed)


def carveout_level(device: Device, wanted_bytes: int) -> int:
    """The smallest carve-out level of at least `wanted_bytes`; `DescriptionError` if there is none."""
    for level in device.carveouts_bytes:
        if 0 <= wanted_bytes <= level:
            return level
    raise DescriptionError(
        f"{device.name}: carveout_bytes is {wanted_bytes}; it must be 0 to {device.shared_bytes_per_sm}. "
        f"Levels: {', '.join(map(str, device.carveouts_bytes))}"
    )


def require_runnable(device: Device, block: Block) -> None:
    """Raises `DescriptionError` if the device can never run such a block: name, value, bound and fix."""
    if block.threads > device.max_threads_per_block:
        raise DescriptionError(
            f"Block: threads is {block.threads}; {device.name} runs at most {device.max_threads_per_block} "
            f"per block. Use smaller blocks and a larger grid"
        )
    _require_registers(device, block)
    _require_shared_memory(device, block)


def _require_registers(device: Device, block: Block) -> None:
    if block.registers > device.max_registers_per_thread:
        raise DescriptionError(
            f"Block: registers is {block.registers} per thread; {device.name} has at most "
            f"{device.max_registers_per_thread}. Give registers per thread, not per block"
        )
    # A launch is checked as if every sub-partition took the same number of warps.
    checked_warps = _round_up(block.warps, SUB_PARTITIONS)
    if _registers_per_warp(block) * checked_warps > device.registers_per_sm:
        per_thread = device.registers_per_sm // (checked_warps * REGISTER_UNIT) * REGISTER_UNIT // WARP_SIZE
        raise DescriptionError(
            f"Block: registers is {block.registers} per thread for {block.threads} threads; "
            f"{device.name} has {device.registers_per_sm} per SM, which allows {per_thread} per thread. "
            f"Use fewer threads, or compile with __launch_bounds__({block.threads})"
        )


def _require_shared_memory(device: Device, block: Block) -> None:
    if block.static_shared_bytes > STATIC_SHARED_LIMIT:
        raise DescriptionError(
            f"Block: static_shared_bytes is {block.static_shared_bytes}; CUDA compiles at most "
            f"{STATIC_SHARED_LIMIT}. Ask for the rest as dynamic_shared_bytes"
        )
    if block.shared_bytes > device.shared_bytes_per_block:
        raise DescriptionError(
            f"Block: shared_bytes is {block.shared_bytes}; {device.name} allows a block at most "
            f"{device.shared_bytes_per_block} bytes. Use smaller tiles or fewer pipeline stages"
        )


def _blocks_by_registers(device: Device, block: Block) -> int:
    # A warp's registers all come from its own sub-partition, so what is left over in each is lost.
    warps_per_partition = device.registers_per_sm // SUB_PARTITIONS // _registers_per_warp(block)
    return warps_per_partition * SUB_PARTITIONS // block.warps


def _blocks_by_shared_memory(device: Device, allocated: Allocation, carveout_bytes: int | None) -> int:
    if not allocated.shared_bytes:
        return device.max_blocks_per_sm
    wanted = device.shared_bytes_per_sm if carveout_bytes is None else carveout_level(device, carveout_bytes)
    return carveout_level(device, max(wanted, allocated.shared_bytes)) // allocated.shared_bytes


def _registers_per_warp(block: Block) -> int:
    return _round_up(block.registers * WARP_SIZE, REGISTER_UNIT)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
