"""How fast each of several blocks computes on one SM, by how much of the SM one of them could use.

Example: a block with a 128x128 tile could use 1.07 SMs: two run at 0.57 of the speed of one each, and get
little more done. One of 64x64 could use 0.47: two run at 0.88 each, four at 0.53, and get twice as much done.
Tiles slow down at a busy DRAM by the same law. Observed on an NVIDIA H200 (docs/mechanisms.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_UNLIKE = 2


@dataclass(frozen=True)
class SharingLaw:
    """How blocks share an SM; figures from a device's data file.

    - `sharpness`: of the bend between a block's own speed and its share of the SM.
    - `full_demand`: SMs that as many blocks as fit could use together, where no trace shows it.
    - `unlike_demand`: the same where kernels are so unlike that `MOST_UNLIKE` times as many blocks of one fit
      on an SM as of another, such as a matrix product and a softmax.
    - `crowded_demand`: SMs; where blocks could use more than that together, the oldest runs ahead.
    - `oldest_first_bias`: by how much, as a share of their mean speed.
    """

    sharpness: float
    full_demand: float
    unlike_demand: float
    crowded_demand: float
    oldest_first_bias: float

    def demand(self, blocks_per_sm: Sequence[int]) -> float:
        """SMs that one block could use, by how many of each kernel fit on one."""
        most = max(blocks_per_sm)
        return (self.full_demand if is_alike(blocks_per_sm) else self.unlike_demand) / most

    def speeds(self, demand: float, most: int) -> tuple[float, ...]:
        """Mean speed of each of 1, 2, ... `most` blocks over that of one alone; 1/n at an infinite demand."""
        own = demand**-self.sharpness
        return tuple(
            ((own + 1) / (own + n**self.sharpness)) ** (1 / self.sharpness) for n in range(1, most + 1)
        )

    def biases(self, demand: float, most: int) -> tuple[float, ...]:
        """By how much the oldest of 1, 2, ... `most` blocks runs ahead: 0 unless the SM is crowded."""
        return tuple(
            self.oldest_first_bias if n > 1 and n * demand > self.crowded_demand else 0.0
            for n in range(1, most + 1)
        )


def is_alike(blocks_per_sm: Sequence[int]) -> bool:
    """Whether kernels of which so many blocks fit on an SM are taken to share it alike."""
    return max(blocks_per_sm) <= MOST_UNLIKE * min(blocks_per_sm)
