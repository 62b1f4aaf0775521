"""The paper's Figure 1: two GEMMs of 3 tile rows x 2 tile columns on 4 SMs, one block per SM.

Example: each kernel fills one and a half waves. Under stream sync both half waves are wasted: 4 waves.
With semaphores the second kernel's tiles fill the first one's half wave: 3 waves, nothing idle.
"""

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage

TILE_NS = 1_000  # one tile, any length: nothing else costs time here


def toy(rows: int = 3, columns: int = 2) -> Pipeline:
    """Two dependent kernels of rows x columns tiles, unit tile time, one block per SM of the toy device."""
    block = Block(threads=1_024, registers=64)
    grid = Grid(columns, rows)
    first, second = (Stage(name, Kernel(name, grid, block, carveout="full")) for name in ("gemm1", "gemm2"))
    return Pipeline("toy", [first, second], [Dependency(second[x, y], [first[:, y]])])
