"""Exercises of notebook 2: slots, what shared memory allows, and carve-outs that kernels can share."""

from typing import Any

from wavesim.model import device as devices
from wavesim.model.kernel import Block
from wavesim.model.occupancy import allocation, carveout_level, occupancy_of
from wavesim.teaching.exercises import Exercise, require, whole

WIDE = Block(threads=128, registers=128, dynamic_shared_bytes=100 * 1024)
BIG, SMALL = (Block(256, 64, 0, size * 1024) for size in (150, 20))
WANTED_BLOCKS = 3


def grade_one_wave(answer: Any) -> str:
    """The most blocks of `WIDE` that an H200 runs in one wave."""
    device = devices.default_device()
    found = occupancy_of(device, WIDE)
    count = whole(answer, 1, 100_000)
    slots = device.sm_count * found.blocks_per_sm
    require(count != device.sm_count, "that is one block per SM. How many of these fit on one?")
    require(count == slots, f"{found.blocks_per_sm} blocks fit on each of {device.sm_count} SMs.")
    return f"{device.sm_count} SMs × {found.blocks_per_sm} blocks; {found.limiter} allows no more."


def grade_shared_bytes(answer: Any) -> str:
    """The most dynamic shared memory with which three blocks of 128 threads, 64 registers fit on an SM."""
    size, device = whole(answer, 0, 10**6), devices.default_device()
    if size > device.shared_bytes_per_block:
        require(False, f"no block may have more than {device.shared_bytes_per_block:,} bytes.")
    blocks = occupancy_of(device, Block(128, 64, dynamic_shared_bytes=size)).blocks_per_sm
    require(
        blocks >= WANTED_BLOCKS,
        f"with {size:,} bytes only {blocks} fit. The driver keeps "
        f"{device.reserved_shared_bytes_per_block:,} bytes of each block's share for itself.",
    )
    more = occupancy_of(device, Block(128, 64, dynamic_shared_bytes=size + 1)).blocks_per_sm
    require(more < WANTED_BLOCKS, f"{size:,} bytes leave room: one byte more still lets three fit.")
    third = device.shared_bytes_per_sm // WANTED_BLOCKS
    return f"A third of {device.shared_bytes_per_sm:,} bytes is {third:,}, less the 1,024 that are reserved."


def grade_carveout(answer: Any) -> str:
    """The smallest carve-out level at which `BIG` and `SMALL` share an SM."""
    device = devices.default_device()
    wanted = sum(allocation(device, block).shared_bytes for block in (BIG, SMALL))
    size = whole(answer, 0, device.shared_bytes_per_sm)
    require(size in device.carveouts_bytes, f"{size:,} is no level; they are {device.carveouts_bytes}.")
    require(size >= wanted, f"the two take {wanted:,} bytes together, the reserved ones included.")
    require(size == carveout_level(device, wanted), f"{size:,} is enough, and there is a smaller level.")
    return f"Together they take {wanted:,} bytes; the next level above is {size:,}."


EXERCISES = (
    Exercise("2.1", "Blocks in one wave: 128 threads, 128 registers, 100 KiB", grade_one_wave),
    Exercise("2.2", "The most shared bytes with which three blocks fit on an SM", grade_shared_bytes),
    Exercise("2.3", "The smallest carve-out for a 150 KiB and a 20 KiB block together", grade_carveout),
)
