"""What a warp does, one instruction after the other, as far as an SM's time depends on it.

Example: `(GlobalLoad(512), GlobalLoad(512), AwaitLoads())` issues two independent loads of 16 bytes per lane
and then needs both.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError


@dataclass(frozen=True)
class GlobalLoad:
    """A load from global memory of so many bytes for the whole warp; the warp goes on at once."""

    size_bytes: int


@dataclass(frozen=True)
class AwaitLoads:
    """The next instruction needs all that was loaded."""


@dataclass(frozen=True)
class Arithmetic:
    """Instructions of which each needs the result of the one before."""

    count: int


@dataclass(frozen=True)
class SharedAccess:
    """A load or store of shared memory in so many wavefronts; the next instruction needs it."""

    wavefronts: int


@dataclass(frozen=True)
class BlockBarrier:
    """`__syncthreads()`: the warps of the block go on together."""


Instruction = GlobalLoad | AwaitLoads | Arithmetic | SharedAccess | BlockBarrier
WarpProgram = tuple[Instruction, ...]
MOST_INSTRUCTIONS = 5_000_000


@dataclass(frozen=True)
class SmKernel:
    """Blocks for each SM: the program of each warp of a block, how many blocks, how many resident at once.

    Raises `DescriptionError` if it is empty, or too long to simulate.
    """

    warps: tuple[WarpProgram, ...]
    blocks: int = 1
    resident: int = 1

    def __post_init__(self) -> None:
        if not self.warps or min(self.blocks, self.resident) < 1:
            raise DescriptionError(
                f"{len(self.warps)} warps, {self.blocks} blocks, {self.resident} resident; "
                "each must be at least 1"
            )
        count = self.blocks * sum(map(len, self.warps))
        if count > MOST_INSTRUCTIONS:
            raise DescriptionError(
                f"{count:,} instructions are to be simulated; {MOST_INSTRUCTIONS:,} are the most. "
                "Give fewer warps, blocks or rounds"
            )
