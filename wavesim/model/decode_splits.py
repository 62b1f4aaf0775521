"""Into how many splits the keys of decode attention go, so that enough thread blocks read at once.

Example: 32 sequences with 2 KV heads are 64 tiles; two splits give nearly every one of 132 SMs a block to
read. 192 tiles are left whole: the SMs with two blocks share the bandwidth with those that have one.
"""

from wavesim.model.attention import AttentionDecode
from wavesim.model.device import Device
from wavesim.model.kernel import MAX_GRID_YZ
from wavesim.model.occupancy import occupancy_of
from wavesim.model.regions import ELEMENT_BYTES

SLOTS = 3  # blocks of keys on their way to a thread block at once
TOO_CLOSE = 1.05  # what the estimate cannot tell apart: the fewest splits are taken


def best_splits(work: AttentionDecode, device: Device) -> int:
    """The fewest splits whose estimated time is within `TOO_CLOSE` of the shortest, whatever `work.splits`.

    Assumed: the blocks that are resident share the memory's bandwidth, of which one block cannot use more
    than an SM's part. A wave begins with empty slots, and combining takes about as long as filling these.
    """
    slots = device.sm_count * occupancy_of(device, work.block).blocks_per_sm
    most = min(work.key_blocks, MAX_GRID_YZ)
    times = {one: _time(work, device.sm_count, slots, one) for one in range(1, most + 1)}
    bound = TOO_CLOSE * min(times.values())
    return min(splits for splits, time in times.items() if time <= bound)


def _time(work: AttentionDecode, sm_count: int, slots: int, splits: int) -> float:
    """In bytes of one SM's part of the bandwidth."""
    waves, rest = divmod(work.sequences * work.kv_heads * splits, slots)
    shares = (waves * slots + (max(rest, sm_count) if rest else 0)) / sm_count
    block = work.tile_n * 2 * ELEMENT_BYTES[work.dtype] * work.head_dim
    reading = shares * -(-work.key_blocks // splits) * block
    filling = (waves + (rest > 0) + (splits > 1)) * SLOTS * block
    sums = splits * (work.heads // work.kv_heads) * work.head_dim * ELEMENT_BYTES["fp32"]
    return reading + filling + (sums if splits > 1 else 0)
