"""Notebook 14's recorded call of two GPUs beside the simulated one."""

import numpy as np

from wavesim.teaching.several_gpus import as_recorded, ends, recorded


def test_the_recorded_call_is_of_two_gpus_and_the_same_product_and_tiles_are_simulated():
    seen, told = recorded(), as_recorded()
    assert seen.header.source == "measured"
    assert told.header.source != "measured"
    for trace in (seen, told):
        grids = {info.name: info.grid for info in trace.header.stages}
        assert grids["gemm@0"] == grids["gemm@1"] == (32, 16, 1)
        assert np.unique(trace.sm).max() >= 132


def test_with_eight_sms_that_add_sums_end_long_after_the_last_product():
    for row in ends().cells:
        product, total = (int(cell) for cell in row[1:])
        assert total > 1.3 * product
