"""How fast each of several blocks computes on one SM, by how much of the SM one of them asks for.

Picture: a block of 256 threads asks for 1.07 of an SM: two run at 0.57 of the speed of one each and get
little more done. One of 128 threads asks for 0.47: two run at 0.88 each, four at 0.53, and get twice as much
done. It is the law by which tiles slow down at a busy DRAM, here for what one SM has. Observed on an NVIDIA
H200 (docs/the-model.md).
"""

SHARPNESS = 4  # of the bend between a block's own speed and its share: stream-sync traces, development half


def shared_speeds(demand: float, most: int) -> tuple[float, ...]:
    """Mean speeds of each of 1, 2, ... up to `most` blocks, in that of one alone; 1/n at a demand of inf."""
    own = demand**-SHARPNESS
    return tuple(((own + 1) / (own + n**SHARPNESS)) ** (1 / SHARPNESS) for n in range(1, most + 1))
