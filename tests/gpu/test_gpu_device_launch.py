"""Launches from the device on a GPU: every item once where nothing is lost, and a pool that has an end."""

import pytest

pytestmark = pytest.mark.gpu


@pytest.fixture
def launches(runner):
    from wavesim.errors import CompileError
    from wavesim_gpu.evaluation.device_launch import LaunchingKernels
    from wavesim_gpu.runtime.device_linking import find_nvcc

    try:
        find_nvcc()
    except CompileError as missing:
        pytest.skip(str(missing))
    return LaunchingKernels()


def test_gathered_launches_do_every_item_once(launches):
    from wavesim_gpu.evaluation.device_launch import measure_uneven

    found = measure_uneven(launches)
    assert all(one["items_missing"] == 0 for one in found if one["launcher"] in ("nobody", "warp", "block"))
    assert all((one["items_missing"] > 0) == (one["lost"] > 0) for one in found)


def test_what_the_pool_takes_runs_and_nesting_has_an_end(launches):
    from wavesim_gpu.evaluation.device_launch import OVERFLOWING, measure_levels, measure_pool

    pool = measure_pool(launches)
    assert 0 < pool["taken"] == pool["ran"] < OVERFLOWING
    assert pool["error"] != 0
    assert measure_levels(launches)["deepest"] >= 1
