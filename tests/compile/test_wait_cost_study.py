"""The main loops of the study of waits compile for every target that has their instructions."""

import pytest

from wavesim_gpu.bench.labs.wait_costs import LATENCIES, LOOPS, SOURCE
from wavesim_gpu.driver.compiler import compile_cubin


@pytest.mark.parametrize("arch", ["sm_90", "sm_100"])
def test_every_loop_of_the_study_compiles_and_keeps_its_acquire(arch):
    names = sorted({loop.name for loop in LOOPS} | set(LATENCIES.values()))
    cubin = compile_cubin(SOURCE, names, arch)
    assert set(cubin.lowered) == set(names)
    loops = len(names) - 1  # all but the one that only loads
    assert cubin.ptx.count("ld.acquire.gpu.global.s32") >= loops
