"""The kernels of the ladders and how each is launched.

Example: `REDUCTION[0].launch(1 << 28, 132)` is a grid of 1,048,576 blocks of 256 threads, `REDUCTION[5]`'s
one of 1,056, eight for each of 132 SMs.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
THREADS, RESIDENT = 256, 8  # as in reduce.cu
TAPS = 9  # as in convolution.cu
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class LadderStep:
    """One kernel: its family's file, its name there, its step's name.

    `covers`: what a block covers of each dimension; 0 where blocks stay, `RESIDENT` on every SM.
    """

    family: str
    kernel: str
    name: str
    covers: int
    block: Shape = (THREADS, 1, 1)
    dimensions: int = 1

    @property
    def source(self) -> Path:
        """The family's file."""
        return FOLDER / f"{self.family}.cu"

    def launch(self, size: int, sms: int) -> tuple[Shape, Shape]:
        """Grid and block for so many elements, or a matrix of so many rows."""
        if not self.covers:
            return (sms * RESIDENT, 1, 1), self.block
        count = -(-size // self.covers)
        return (count, count if self.dimensions == 2 else 1, 1), self.block


def _product(name: str, covers: int, edge: int) -> LadderStep:
    kernel = f"matmul_{name.replace(' ', '_')}"
    return LadderStep("matmul", kernel, name, covers, (edge, edge, 1), dimensions=2)


REDUCTION = tuple(
    LadderStep("reduce", f"reduce_{name}", name, covers)
    for name, covers in (("v0", 256), ("v1", 256), ("v2", 256), ("v3", 512), ("v4", 512), ("v5", 0))
)
CONVOLUTION = tuple(
    LadderStep("convolution", f"convolve_{name}", name, THREADS) for name in ("naive", "constant", "tiled")
)
MATMUL = (
    _product("naive", 16, 16),
    _product("tiled 16", 16, 16),
    _product("tiled 32", 32, 32),
    _product("register", 64, 16),
)
