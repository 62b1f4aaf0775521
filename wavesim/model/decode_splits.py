"""Into how many splits the keys of decode attention go, so that every SM reads its share.

Example: 32 sequences with 2 KV heads are 64 tiles; on 132 SMs two splits leave 4 SMs without a block, where
one leaves 68. 128 tiles are left whole: two splits would fill the same SMs and have sums to combine.
"""

from wavesim.model.attention import AttentionDecode
from wavesim.model.device import Device
from wavesim.model.regions import ELEMENT_BYTES

SLOTS = 3  # blocks of keys on their way to a thread block at once: a new one waits as long as these take


def best_splits(work: AttentionDecode, device: Device) -> int:
    """The splits with which the busiest SM, and after it the block that combines, read the fewest bytes.

    `work.splits` does not matter. Assumed: blocks are shared out evenly to the SMs, which read at one rate;
    each begins with empty slots, which costs what it takes to fill them.
    """
    return min(range(1, work.key_blocks + 1), key=lambda splits: (_bytes_read(work, device, splits), splits))


def _bytes_read(work: AttentionDecode, device: Device, splits: int) -> int:
    """By the SM with the most blocks, then by the split that comes last: the others' fp32 sums."""
    blocks_of_an_sm = -(-work.sequences * work.kv_heads * splits // device.sm_count)
    keys = (-(-work.key_blocks // splits) + SLOTS) * work.tile_n
    read = blocks_of_an_sm * keys * 2 * ELEMENT_BYTES[work.dtype] * work.head_dim
    sums = splits * (work.heads // work.kv_heads) * work.head_dim * ELEMENT_BYTES["fp32"]
    return read + (sums if splits > 1 else 0)
