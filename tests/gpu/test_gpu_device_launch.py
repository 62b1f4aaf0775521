"""Launches from the device on a GPU: every item once where nothing is lost, and a pool that has an end."""

import pytest

pytestmark = pytest.mark.gpu


LIMIT_S = 20.0  # a launch that never returns ends the process that called it, and the test


@pytest.fixture(scope="module")
def kernels(runner):
    from wavesim.errors import CompileError
    from wavesim_gpu.bench.labs.device_launch import SOURCE, LaunchingKernels
    from wavesim_gpu.bench.measuring_process import MeasuringProcess
    from wavesim_gpu.driver.device import architecture, require_cupy
    from wavesim_gpu.driver.user_sources import linked_cubin

    try:
        cubin = linked_cubin(SOURCE, architecture(require_cupy()))
    except CompileError as missing:
        pytest.skip(str(missing))
    process = MeasuringProcess(LaunchingKernels, cubin)
    yield process
    process.close()


@pytest.mark.parametrize(
    ("launcher", "threshold"), [("nobody", None), ("block", 1), ("warp", 1), ("thread", 256), ("thread", 64)]
)
def test_launches_that_the_pool_holds_do_every_item_once(kernels, launcher, threshold):
    found = kernels.ask(LIMIT_S, "uneven", launcher, threshold, 2)
    assert (found["lost"], found["items_missing"]) == (0, 0)
    assert min(found["rounds_ns"]) > 0


def test_many_callers_at_once_lose_nothing(kernels):
    from wavesim_gpu.bench.labs.device_launch import CALLERS

    for one in CALLERS[:3]:
        found = kernels.ask(LIMIT_S, "callers", *one)
        assert all(run["first_ns"] > 0 for run in found["rounds"])
    family = kernels.ask(LIMIT_S, "family")
    assert min(family["one_ns"]) > max(0, min(family["none_ns"]))


@pytest.fixture
def once(kernels):
    """A process in which the pool has not been full yet, and which is ended when it was."""
    kernels.close()
    yield kernels
    kernels.close()


def test_after_a_full_pool_its_work_is_missing_or_its_process_is_ended_and_another_works(once):
    from wavesim_gpu.bench.measuring_process import WorkerError

    try:
        found = once.ask(LIMIT_S, "uneven", "thread", 3, 0)
    except WorkerError as hung:  # as in four of six processes on an H200: the driver's, not ours
        assert "a kernel hung; the process was ended" in str(hung)  # noqa: PT017
    else:
        assert found["items_missing"] >= found["lost"] > 0
        assert found["rounds_ns"] == []
        once.close()
    after = once.ask(LIMIT_S, "uneven", "thread", 64, 2)
    assert (after["lost"], after["items_missing"]) == (0, 0)


def test_what_the_pool_takes_runs_and_grids_nest(once):
    from wavesim_gpu.bench.labs.device_launch import OVERFLOWING

    pool = once.ask(LIMIT_S, "pool")
    assert 0 < pool["taken"] == pool["ran"] < OVERFLOWING
    assert pool["error"] != 0
    assert once.ask(LIMIT_S, "levels")["deepest"] >= 1
