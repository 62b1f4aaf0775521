"""Every combination of plan parts that a backend declares compiles, up to the launch; no GPU needed."""

from dataclasses import replace
from itertools import product

import pytest
from small_pipelines import pair

from wavesim.codegen.cuda import stage_header
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.plan.launch import StreamPerStage
from wavesim.plan.parsing import LAUNCHES, SCHEDULES, SYNCS, plan_of_words
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import BACKENDS, backend_named
from wavesim_gpu.run.planned_kernels import kernels_of

H200 = load("h200")
TILE = {"portable": (64, 64, 32), "hopper": (64, 128, 64)}
NAN = ("0f7FFFFFFF", "0x7fffffff")  # as a constant of the compiler's, and of ours
PIPELINES = {name: pair(m=100, k=128, hidden=256, n=136, tiles=(tile, tile)) for name, tile in TILE.items()}


def declared(name):
    """The plans that a backend declares, under every policy, without wait-kernel where there could be one."""
    for words in product(SCHEDULES, LAUNCHES, SYNCS):
        try:
            plan = plan_of_words(*words)
        except DescriptionError:
            continue
        plans = [plan]
        if plan.launch.is_multi_stream:
            plans.append(replace(plan, launch=StreamPerStage(wait_kernel=False)))
        yield from (plan for plan in plans if not backend_named(name).refusal(plan))


@pytest.mark.parametrize(
    ("name", "plan"),
    [(name, plan) for name in BACKENDS for plan in declared(name)],
    ids=lambda value: value if isinstance(value, str) else "+".join(part.word for part in value.parts),
)
def test_what_a_backend_declares_compiles(nvrtc, name, plan):
    pipeline = PIPELINES[name]
    texts = {stage.name: stage_header(pipeline, plan, stage.name).text for stage in pipeline.stages}
    kernels = kernels_of(pipeline, plan, H200, name)
    assert [stage for kernel in kernels for stage in kernel.stages] == list(texts)
    for kernel in kernels:
        headers = {GENERATED: kernel.header(texts)}
        cubin = compile_cubin(kernel.backend.source, [kernel.launch.expression], "sm_90a", Build(), headers)
        assert cubin.data
        # What may wait for what never comes, for a tile or for the other splits of one, can write NaN.
        can_wait = name == "hopper" or (plan.sync.has_semaphores and kernel is kernels[-1])
        assert any(nan in cubin.ptx for nan in NAN) == can_wait
        if name != "hopper":
            continue
        # Every kernel lets the next one start, and waits for the one before where nothing else orders them.
        assert "griddepcontrol.launch_dependents" in cubin.ptx or plan.schedule.is_fused
        assert "griddepcontrol.wait" in cubin.ptx or plan.schedule.is_fused
