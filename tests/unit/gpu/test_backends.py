"""Backends: what each runs and refuses, and what it takes to add one; no GPU and no compiler needed."""

from dataclasses import replace
from itertools import product

import pytest
from small_pipelines import fork, pair

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch, LaunchTurn, OneStream, StreamPerStage
from wavesim.plan.parsing import LAUNCHES, SCHEDULES, SYNCS, plan_of_words
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.plan.schedule import Persistent, TilePerBlock
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import Semaphores
from wavesim.safety.deadlock import safety_of
from wavesim.sim.launches import launched
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.backends import BACKENDS, backend_named, backends_of, require_runs
from wavesim_gpu.kernels.gemm.gemm_backend import GemmBackend
from wavesim_gpu.kernels.stage_backend import Combination, plan_words
from wavesim_gpu.run.planned_kernels import kernels_of
from wavesim_gpu.run.runner import require_safe

H200 = load("h200")
WIDE = ((128, 256, 64), (128, 256, 64))


def valid_plans():
    """Every combination of plan parts by their words that makes a plan."""
    for words in product(SCHEDULES, LAUNCHES, SYNCS):
        try:
            yield plan_of_words(*words)
        except DescriptionError:
            continue


PLANS = list(valid_plans())
PLANS += [
    replace(plan, launch=StreamPerStage(wait_kernel=False)) for plan in PLANS if plan.launch.is_multi_stream
]


class Naive(GemmBackend):
    """A throw-away backend: one thread per output, stream sync only."""

    name = "naive"
    source = backend_named("portable").source.with_name("naive.cu")
    tiles = ((8, 8, 1),)
    activations = (None, "gelu")
    runs = (Combination(("tile",), ("one-stream",), ("boundary",)),)

    def multiples(self, gemm):
        return {"n": 1, "k": 1}

    def launch(self, gemm, plan, device):
        return KernelLaunch("naive", 64, 0, plan.schedule.block_count(gemm.grid.size, device.sm_count))

    def arguments(self, gemm, plan, addresses):
        return ()


def on(plain, *backends):
    """The same pair with the backends that its stages name."""
    first, second = (
        replace(stage, backend=backend) for stage, backend in zip(plain.stages, backends, strict=True)
    )
    return Pipeline(plain.name, [first, second], [gemm_rows(first, second)])


def small():
    return on(pair(m=16, k=8, hidden=16, n=16, tiles=((8, 8, 1), (8, 8, 1))), "naive", "naive")


def test_a_new_backend_is_a_class_and_a_registration(monkeypatch):
    with pytest.raises(DescriptionError, match="backend is 'naive'; there are portable, hopper"):
        kernels_of(small(), StreamSync(), H200)
    monkeypatch.setitem(BACKENDS, "naive", Naive())
    kernels = kernels_of(small(), StreamSync(), H200)
    assert [(one.stages, one.backend.name, one.launch.blocks) for one in kernels] == [
        (("gemm1",), "naive", 4),
        (("gemm2",), "naive", 4),
    ]
    with pytest.raises(DescriptionError) as refused:
        kernels_of(small(), SemaphoreSync(RowSync()), H200)
    assert str(refused.value) == (
        "Row semaphores: backend 'naive' does not run StreamPerStage(): launch "
        "'streams' is not among what its kernels do with tile. Use launch one-stream, or "
        "backend='portable' or 'hopper'"
    )
    with pytest.raises(DescriptionError, match="gemm1: the tile is 128x256x64; backend 'naive' has 8x8x1"):
        kernels_of(pair(tiles=WIDE), StreamSync(), H200, "naive")


def test_a_stage_names_its_backend_and_others_take_the_default():
    mixed = on(pair(tiles=WIDE), "", "hopper")
    assert {name: one.name for name, one in backends_of(mixed).items()} == {
        "gemm1": "portable",
        "gemm2": "hopper",
    }
    assert {one.name for one in backends_of(mixed, "hopper").values()} == {"hopper"}
    kernels = kernels_of(mixed, SemaphoreSync(RowSync()), H200)
    assert [one.launch.expression.partition("<")[0] for one in kernels] == ["gemm", "gemm_sm90"]
    with pytest.raises(
        DescriptionError, match=r"portable \(gemm1\), hopper \(gemm2\). Name one|'portable' does"
    ):
        kernels_of(mixed, Plan(Persistent(fused=True), sync=Semaphores()), H200)
    with pytest.raises(DescriptionError, match="'portable' does not run Persistent"):
        kernels_of(mixed, Plan(Persistent()), H200, "hopper" if False else "portable")


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_every_plan_is_run_as_declared_or_refused_in_one_line_with_a_fix(name, plan):
    backend, words = backend_named(name), plan_words(plan)
    is_declared = any(all(word in one.words(part) for part, word in enumerate(words)) for one in backend.runs)
    if is_declared:
        require_runs(pair(tiles=WIDE), plan, name)
        return
    with pytest.raises(DescriptionError) as refused:
        require_runs(pair(tiles=WIDE), plan, name)
    text = str(refused.value)
    assert "\n" not in text
    assert f"backend {name!r} does not run " in text
    assert any(repr(part) in text for part in plan.parts)
    assert "Use schedule" in text or "Use launch" in text or "Use sync" in text


def test_what_the_backends_declare_are_plans():
    """No declaration that a plan's own checks rule out, so that nothing is promised that cannot be asked."""
    words = {plan_words(plan) for plan in PLANS}
    for backend in BACKENDS.values():
        for one in backend.runs:
            assert set(product(one.schedules, one.launches, one.syncs)) <= words, (backend.name, one)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(StreamK()), "it splits K into equal parts only .* Use schedule tile, or backend='hopper'"),
        (Plan(StreamK(waves=3)), "it splits K into equal parts only"),
        (
            Plan(launch=DependentLaunch()),
            "Use launch one-stream or graph, or backend='hopper'",
        ),
        (Plan(Persistent()), "its blocks compute one tile each"),
        (
            Plan(launch=OneStream("host")),
            "ahead of the GPU; simulate.. takes this one. Use launch one-stream",
        ),
        (Plan(launch=StreamPerStage(False, 4), sync=Semaphores()), "head_start=4"),
    ],
    ids=lambda value: value.name if isinstance(value, Plan) else "",
)
def test_the_portable_backend_says_why_not(plan, words):
    with pytest.raises(DescriptionError, match=words):
        require_runs(pair(), plan)


def test_the_hopper_backend_runs_stream_k_at_kernel_boundaries_only():
    tiles = {"tiles": WIDE}
    require_runs(pair(**tiles), Plan(StreamK(), DependentLaunch()), "hopper")
    with pytest.raises(DescriptionError, match=r"StreamK\(waves=2.* splits the last wave.* Use schedule"):
        require_runs(pair(**tiles), Plan(StreamK(waves=2)), "hopper")
    with pytest.raises(DescriptionError, match=r"Stream-K splits K by itself\. Use split_k=1"):
        require_runs(pair(**tiles, split_k=(2, 1)), Plan(StreamK()), "hopper")


def test_row_semaphores_by_dependent_launch_are_one_stream_of_dependent_kernels():
    plan = Plan(launch=DependentLaunch(), sync=Semaphores(RowSync()))
    require_safe(pair(tiles=WIDE), plan, H200, "hopper")
    first, second = kernels_of(pair(tiles=WIDE), plan, H200, "hopper")
    assert (first.launch.is_dependent, second.launch.is_dependent) == (False, True)
    assert not plan.launch.is_multi_stream
    for schedule, blocks in ((TilePerBlock(), 16 * 16), (Persistent(), 132)):
        large = pair(m=2048, k=64, hidden=4096, n=4096, tiles=WIDE)
        kernels = kernels_of(large, replace(plan, schedule=schedule), H200, "hopper")
        assert {one.launch.blocks for one in kernels} == {blocks}


def test_of_a_fork_by_dependent_launch_the_kernel_that_does_not_read_the_one_before_starts_after_it():
    plan, pipeline = Plan(launch=DependentLaunch(), sync=Semaphores(RowSync())), fork(tiles=(WIDE[0],) * 3)
    kernels = kernels_of(pipeline, plan, H200, "hopper")
    assert [one.launch.is_dependent for one in kernels] == [False, True, False]
    turns = [launch.turn for launch in launched(pipeline, plan, H200).launches]
    assert turns == [LaunchTurn.AT_ONCE, LaunchTurn.AFTER_START, LaunchTurn.AFTER_END]


def test_a_plan_that_can_deadlock_is_refused():
    large = pair(m=4096, k=64, hidden=4096, n=4096, tiles=WIDE)
    require_safe(large, SemaphoreSync(), H200)
    with pytest.raises(DescriptionError, match=r"can deadlock.* Use wait_kernel=True"):
        require_safe(large, SemaphoreSync(wait_kernel=False), H200)
    # The wait-kernel holds the only slot there is, so that no block of the producer can be issued.
    tiny = replace(H200, sm_count=1, max_blocks_per_sm=1)
    with pytest.raises(DescriptionError, match=r"a device with more SMs, or smaller blocks$"):
        require_safe(pair(tiles=WIDE), SemaphoreSync(), tiny)


def test_a_cluster_that_finds_no_two_sms_of_a_group_is_a_deadlock_too():
    """Waiting blocks by themselves may take an SM of every pair; in pairs they leave pairs."""
    narrow, wide = (64, 192, 64), (128, 256, 64)
    alone = pair(m=128, k=64, hidden=40 * 192, n=80 * 256, tiles=(narrow, wide))
    plan = SemaphoreSync(wait_kernel=False)
    assert [kernel.launch.cluster for kernel in kernels_of(alone, plan, H200, "hopper")] == [2, 1]
    with pytest.raises(DescriptionError, match="no room for a cluster of gemm1"):
        require_safe(alone, plan, H200, "hopper")
    in_pairs = pair(m=128, k=64, hidden=40 * 192, n=40 * 192, tiles=(narrow, narrow))
    assert {kernel.launch.cluster for kernel in kernels_of(in_pairs, plan, H200, "hopper")} == {2}
    require_safe(in_pairs, plan, H200, "hopper")
    require_safe(alone, SemaphoreSync(), H200, "hopper")


def test_deadlock_is_judged_by_the_blocks_that_are_launched_not_by_those_described():
    """Described, many blocks share an SM and all waiting ones leave room; launched, there is one per SM."""
    small = Block(128, 32, 0, 1024)
    plain = pair(m=2560, k=64, hidden=2560, n=2560, tiles=((128, 256, 64),) * 2)
    first, second = (
        replace(stage, work=replace(stage.gemm, block=small), backend="hopper") for stage in plain.stages
    )
    described = Pipeline("described", [first, second], [gemm_rows(first, second)])
    plan = SemaphoreSync(wait_kernel=False)
    assert safety_of(described, plan, H200).is_safe
    with pytest.raises(DescriptionError, match="can deadlock"):
        require_safe(described, plan, H200)


def test_a_pipeline_of_other_work_is_refused():
    bare = Pipeline("bare", [Stage("only", Kernel("only", Grid(4, 1), Block(128)))])
    with pytest.raises(DescriptionError, match="pipeline bare cannot run on the GPU: stage only is a Kernel"):
        require_runs(bare, StreamSync())
