"""How many SMs the kernels may count on: those of the current context, asked each time. No GPU."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from pretended_gpu import pretended_cupy

from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.plan.schedule import Persistent
from wavesim.work.gemm import Gemm
from wavesim_gpu.driver import device
from wavesim_gpu.run.planned_kernels import kernels_of


class Driver:
    """As much of the driver as says how many SMs a context has; None: it does not say."""

    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM=1)
    CUexecAffinityType = SimpleNamespace(CU_EXEC_AFFINITY_TYPE_SM_COUNT=0)

    def __init__(self):
        self.partition = self.affinity = None

    def cuCtxGetCurrent(self):  # the driver's name
        return 0, 11

    def cuCtxGetDevResource(self, context, kind):  # the driver's name
        assert (context, kind) == (11, 1)
        found = SimpleNamespace(sm=SimpleNamespace(smCount=self.partition))
        return (801, None) if self.partition is None else (0, found)

    def cuCtxGetExecAffinity(self, kind):  # the driver's name
        found = SimpleNamespace(param=SimpleNamespace(smCount=SimpleNamespace(val=self.affinity)))
        return (801, None) if self.affinity is None else (0, found)


@pytest.fixture
def driver(monkeypatch):
    pretended, bindings = Driver(), ModuleType("cuda.bindings")
    bindings.driver = pretended
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setattr(device, "require_cupy", lambda: pretended_cupy(load("h200")))
    monkeypatch.setattr(device, "_query", device._query.__wrapped__)
    return pretended


@pytest.mark.parametrize(
    ("partition", "affinity", "count"),
    [(None, None, 132), (132, 132, 132), (16, None, 16), (None, 66, 66), (64, 32, 32), (0, 0, 132)],
)
def test_it_is_what_the_green_context_or_the_limit_leaves(driver, partition, affinity, count):
    driver.partition, driver.affinity = partition, affinity
    assert device.query().sm_count == count


def test_it_is_asked_again_when_another_context_is_current(driver):
    assert device.query().sm_count == 132
    driver.partition = 24
    assert device.query().sm_count == 24
    driver.partition = None
    assert device.query().sm_count == 132


def test_a_persistent_kernel_has_as_many_blocks_as_the_context_has_sms(driver):
    driver.partition = 24
    work = Gemm("gemm1", 4096, 4096, 1024, 128, 128, 64)
    kernels = kernels_of(
        Pipeline("one", [Stage("gemm1", work)], []), Plan(Persistent()), device.query(), "hopper"
    )
    assert [kernel.launch.blocks for kernel in kernels] == [24]


def test_a_driver_that_knows_of_no_partitions_leaves_the_whole_gpu(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", ModuleType("cuda.bindings"))
    assert device.query().sm_count == 132
