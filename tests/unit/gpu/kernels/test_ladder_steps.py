"""The ladders' launches cover what they are given, with the sizes that their files have."""

import re

import pytest

from wavesim.sm.reduction import NAMES, RESIDENT, THREADS
from wavesim_gpu.kernels.ladder.steps import CONVOLUTION, MATMUL, REDUCTION, TAPS

STEPS = (*REDUCTION, *CONVOLUTION, *MATMUL)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.kernel)
def test_a_grid_covers_all_and_its_kernel_is_in_its_file(step):
    grid, block = step.launch(1000, 132)
    assert f"{step.kernel}(" in step.source.read_text()
    assert block[0] * block[1] <= 1024
    if step.covers:
        assert (grid[0] - 1) * step.covers < 1000 <= grid[0] * step.covers
        assert grid[1] == (grid[0] if step.dimensions == 2 else 1)
    else:
        assert grid == (132 * RESIDENT, 1, 1)


def test_blocks_are_as_the_simulation_has_them():
    assert tuple(step.name for step in REDUCTION) == NAMES
    text = REDUCTION[0].source.read_text()
    assert re.search(r"threads = (\d+)", text)[1] == str(THREADS)
    assert re.search(r"resident = (\d+)", text)[1] == str(RESIDENT)
    assert re.search(r"radius = (\d+)", CONVOLUTION[0].source.read_text())[1] == str(TAPS // 2)
