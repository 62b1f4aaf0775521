"""How fast each of several blocks computes on one SM, by how much of the SM one of them asks for.

Example: a block with a tile of 128x128 asks for 1.07 of an SM: two run at 0.57 of the speed of one each,
and get little more done. One of 64x64 asks for 0.47: two run at 0.88 each, four at 0.53, and get twice as
much done. It is the law by which tiles slow down at a busy DRAM, here for what one SM has. Observed on an
NVIDIA H200 (docs/the-model.md).
"""

SHARPNESS = 4  # of the bend between a block's own speed and its share: stream-sync traces, development half
# What as many blocks as fit ask for, in SMs, where no trace says it: two 128x128 tiles of our portable GEMM
# on an H200 ask for 2.1, four of 64x64 for 1.9. The eldest leads where more than 1.6 are asked for: among
# these two and four, but not among three of 64x64.
FULL_DEMAND = 2.0
CROWDED = 1.6


def shared_speeds(demand: float, most: int) -> tuple[float, ...]:
    """Mean speeds of each of 1, 2, ... up to `most` blocks, in that of one alone; 1/n at a demand of inf."""
    own = demand**-SHARPNESS
    return tuple(((own + 1) / (own + n**SHARPNESS)) ** (1 / SHARPNESS) for n in range(1, most + 1))


def leads(demand: float, most: int, lead: float) -> tuple[float, ...]:
    """By how much the eldest of 1, 2, ... up to `most` blocks runs ahead: `lead` where the SM is crowded."""
    return tuple(lead if n > 1 and n * demand > CROWDED else 0.0 for n in range(1, most + 1))
