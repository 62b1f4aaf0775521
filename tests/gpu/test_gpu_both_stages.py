"""One persistent kernel for both stages: compiles with no GPU, refuses, waits, posts, drains, records."""

import re

import pytest
from cubin_facts import registers_at_launch
from small_pipelines import chain, pair

from wavesim.codegen.cuda import stage_header
from wavesim.errors import DeadlockError, DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped, RowMajor
from wavesim.plan.plan import Plan, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.sync import Semaphores
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.sm90 import gemm_sm90
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS, config_of
from wavesim_gpu.run.planned_kernels import kernels_of

H200, HOPPER = load("h200"), backend_named("hopper")
ROW_FUSED = Plan(Persistent(fused=True), sync=Semaphores())
TILES = [(m, n, 64) for m, n in TILE_CONFIGS]
WIDE, SQUARE, SMALL = (128, 256, 64), (128, 128, 64), (64, 128, 64)
# Three rows of tiles, the last not full; and two rows, where blocks come in clusters that share loads of B.
ROWS = [(tile, tile[0] * 3 - 5) for tile in TILES] + [((64, 192, 64), 125)]
BY_ROWS = pytest.mark.parametrize(("tile", "m"), ROWS, ids=str)
POLICIES = pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
# Compiled without a GPU: a second policy of a shape takes as long again and changes only how its tiles post.
COMPILED = [(tile, m, TileSync()) for tile, m in ROWS] + [
    (tile, m, RowSync()) for tile, m in ROWS if tile == WIDE or m == 250
]
DELAY_NS = 300_000


def alike(tile, **options):
    """A pair in one tile shape that fills no tile at the edges, with an odd number of tiles a row."""
    sizes = {"m": tile[0] * 3 - 5, "k": 320, "hidden": 576, "n": tile[1] * 3 - 8} | options
    return pair(tiles=(tile, tile), **sizes)


def gated(tile, m=300, k=256, hidden=640, n=392, dtype="bf16"):
    """LLaMA's way: the first product makes pairs of gate and value, which leave half as many columns."""
    first = Stage("gemm1", Gemm("gemm1", m, 2 * hidden, k, *tile, dtype=dtype, activation="swiglu"))
    second = Stage("gemm2", Gemm("gemm2", m, n, hidden, *tile, dtype=dtype))
    return Pipeline("gated", [first, second], [gemm_rows(first, second)])


def compiled(pipeline, plan, build=None):
    (kernel,) = kernels_of(pipeline, plan, H200, HOPPER.name)
    texts = {name: stage_header(pipeline, plan, name).text for name in kernel.stages}
    headers = {GENERATED: kernel.header(texts)}
    return compile_cubin(HOPPER.source, [kernel.launch.expression], "sm_90a", build or Build(), headers)


@pytest.mark.parametrize(("tile", "m", "policy"), COMPILED, ids=str)
def test_every_shape_compiles_and_no_warpgroup_asks_for_more_registers_than_there_are(nvrtc, tile, m, policy):
    """Asking for more is a wait without end: setmaxnreg.inc waits until somebody gives registers away."""
    pipeline = alike(tile, m=m)
    shape = config_of(pipeline.stages[0].gemm)
    cubin = compiled(pipeline, Plan(Persistent(fused=True), sync=Semaphores(policy), order=Grouped(2)))
    assert ("multicast::cluster" in cubin.ptx) == (shape.cluster > 1)
    assert f"wgmma.mma_async.sync.aligned.m64n{tile[1]}k16" in cubin.ptx
    assert "fence.proxy.async.global" in cubin.ptx
    post = "st.release.gpu.global.u32" if policy == TileSync() else "red.release.gpu.global.add.u32"
    assert post in cubin.ptx
    given = {int(n) for n in re.findall(r"setmaxnreg\.dec\S* \t?(\d+)", cubin.ptx)}
    taken = {int(n) for n in re.findall(r"setmaxnreg\.inc\S* \t?(\d+)", cubin.ptx)}
    if shape.warpgroups == 1:
        assert not given | taken
        return
    (others,), (math,) = given, taken
    assert 128 * (others + shape.warpgroups * math) <= shape.threads * registers_at_launch(cubin.data)


def test_the_second_stage_loads_b_before_it_waits():
    header = stage_header(alike(WIDE), ROW_FUSED, "gemm2")
    assert "reorders_loads = true" in header.text
    assert not header.is_constant  # one kernel for every number of tokens


@pytest.mark.parametrize("build", [Build(is_recording=True), Build(mutant="early_post"), Build(delay_ns=5)])
def test_it_compiles_in_every_build_with_swiglu(nvrtc, build):
    assert compiled(gated(WIDE), Plan(Persistent(fused=True), sync=Semaphores(TileSync())), build).data


def test_both_stages_multiply_in_one_loop(nvrtc):
    """However their tiles end: a second copy would cost instruction cache."""
    count = {}
    header = stage_header(alike(WIDE), ROW_FUSED, "gemm2").text
    name = HOPPER.launch(alike(WIDE).stages[1].gemm, Plan(Persistent()), H200).expression
    one = compile_cubin(HOPPER.source, [name], "sm_90a", Build(), {GENERATED: header}).ptx
    for key, ptx in (
        ("one", one),
        ("both", compiled(alike(WIDE), ROW_FUSED).ptx),
    ):
        count[key] = ptx.count("wgmma.mma_async")
    assert count["one"] == count["both"] > 0


def test_it_is_one_launch_of_a_block_per_sm_or_fewer_in_whole_clusters():
    for tile, m, blocks in ((WIDE, 379, 3 * 3 + 3 * 3), ((64, 192, 64), 125, 2 * 3 + 2 * 3)):
        (kernel,) = kernels_of(alike(tile, m=m), ROW_FUSED, H200, HOPPER.name)
        assert kernel.stages == ("gemm1", "gemm2")
        assert kernel.launch.blocks == blocks
        assert kernel.launch.cluster == config_of(alike(tile, m=m).stages[0].gemm).cluster
    (large,) = kernels_of(alike(WIDE, m=4096, n=12288), ROW_FUSED, H200, HOPPER.name)
    assert large.launch.blocks == 132


def test_other_plans_have_a_launch_per_stage():
    kernels = kernels_of(alike(WIDE), StreamSync(), H200, HOPPER.name)
    assert [kernel.stages for kernel in kernels] == [("gemm1",), ("gemm2",)]


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (chain(300, (256, 512, 384, 128), (WIDE,) * 3), "it has 3 stages; the kernel computes 2"),
        (
            pair(m=300, k=256, hidden=512, n=384, tiles=(WIDE, SQUARE)),
            r"300 rows in 128x256 of fp16 \(gemm1\), .* in 128x128 .* Give both .* the same tile",
        ),
        (alike((96, 256, 64)), "the tile is 96x256x64; backend 'hopper' has"),
    ],
    ids=["three stages", "two tiles", "unknown tile"],
)
def test_what_it_cannot_compute_is_refused_with_the_fix(pipeline, words):
    with pytest.raises(DescriptionError, match=words):
        kernels_of(pipeline, ROW_FUSED, H200, HOPPER.name)


def test_other_backends_and_other_gpus_are_refused():
    with pytest.raises(DescriptionError, match=r"'portable' does not run .*one stage each.*backend='hopper'"):
        kernels_of(alike(WIDE), ROW_FUSED, H200, "portable")
    with pytest.raises(DeviceError, match=r"backend 'hopper' needs 9\.0"):
        kernels_of(alike(WIDE), ROW_FUSED, load("a100-80gb"), HOPPER.name)


# ---- On a GPU.


@pytest.fixture
def measuring(runner):
    from wavesim_gpu.driver.device import query
    from wavesim_gpu.run.runner import CupyRunner

    if query().compute_capability != gemm_sm90.HOPPER_CAPABILITY:
        pytest.skip("not a Hopper GPU")
    return lambda limit_s=5.0, **options: CupyRunner(
        limit_s=limit_s, commit="test", backend="hopper", **options
    )


def verdict_of(runner, pipeline, plan, build=None, runs=2):
    """Of the first bad run, or the last. Counters are left as they are: the semaphores' final values show."""
    from wavesim_gpu.run.references import reference

    operands = runner.operands(pipeline, seed=31)
    program = runner.program(operands, plan, build or Build(), is_self_resetting=False)
    assert len(program.launches) == len(program.streams) == 1
    launch, expected = runner.launcher(program), reference(operands)
    verdicts = [runner.verdict(program, launch, expected) for _ in range(runs)]
    return next((verdict for verdict in verdicts if not verdict.is_good), verdicts[-1])


@pytest.mark.gpu
@POLICIES
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@BY_ROWS
def test_every_shape_is_right_at_the_edges(measuring, tile, m, dtype, policy):
    verdict = verdict_of(
        measuring(), alike(tile, m=m, dtype=dtype), Plan(Persistent(fused=True), sync=Semaphores(policy))
    )
    assert verdict.is_good, verdict


@pytest.mark.gpu
@POLICIES
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_swiglu_leaves_half_the_columns_to_the_second_stage(measuring, tile, policy):
    verdict = verdict_of(
        measuring(),
        gated(tile),
        Plan(Persistent(fused=True), sync=Semaphores(policy)),
        Build(delay_ns=100_000),
    )
    assert verdict.is_good, verdict


@pytest.mark.gpu
@POLICIES
@pytest.mark.parametrize("order", [Grouped(2), RowMajor()], ids=str)
@BY_ROWS
def test_every_shape_waits_for_every_chunk_when_columns_come_late_one_by_one(
    measuring, order, policy, tile, m
):
    """A tile that reads one chunk too early reads NaN: the next column is still 0.1 ms away."""
    pipeline = alike(tile, m=m, k=128, hidden=1280, n=tile[1] * 2 + 8)
    verdict = verdict_of(
        measuring(),
        pipeline,
        Plan(Persistent(fused=True), sync=Semaphores(policy), order=order),
        Build(delay_ns=100_000),
    )
    assert verdict.is_good, verdict


@pytest.mark.gpu
@POLICIES
@BY_ROWS
def test_blocks_take_several_tiles_of_one_chunk_or_many_of_both_stages(measuring, tile, m, policy):
    """Hundreds of tiles: rings, notes and letters turn many times, the switch of stages falls anywhere."""
    rows, wide = (m, 38_400) if m == 250 else (2000, 2560)
    for k, hidden, n in ((64, wide, 1024), (64, 64, wide), (512, 1344, wide)):
        pipeline = alike(tile, m=rows, k=k, hidden=hidden, n=n)
        verdict = verdict_of(
            measuring(),
            pipeline,
            Plan(Persistent(fused=True), sync=Semaphores(policy), order=Grouped(4)),
            runs=4,
        )
        assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("split_k", [(2, 3), (1, 2), (3, 1)], ids=str)
@BY_ROWS
def test_split_k_slices_of_either_stage_wait_and_add_up(measuring, split_k, tile, m):
    pipeline = alike(tile, m=m, k=384, hidden=1280, n=tile[1] * 3, split_k=split_k)
    verdict = verdict_of(
        measuring(),
        pipeline,
        Plan(Persistent(fused=True), sync=Semaphores(TileSync())),
        Build(delay_ns=100_000),
    )
    assert verdict.is_good, verdict


@pytest.mark.gpu
@POLICIES
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
@pytest.mark.parametrize(("tile", "m"), [(WIDE, 300), ((64, 192, 64), 125)], ids=str)
def test_a_dropped_wait_and_an_early_post_give_wrong_numbers(measuring, tile, m, policy, mutant):
    build = Build(mutant=mutant, delay_ns=DELAY_NS)
    pipeline = alike(tile, m=m, hidden=1280)
    assert not verdict_of(
        measuring(), pipeline, Plan(Persistent(fused=True), sync=Semaphores(policy)), build
    ).is_right


@pytest.mark.gpu
@POLICIES
@pytest.mark.parametrize(("tile", "m"), [(WIDE, 300), ((64, 192, 64), 125), (SMALL, 300)], ids=str)
def test_a_dropped_post_is_a_deadlock_and_the_next_run_is_right(measuring, tile, m, policy):
    """Blocks drain as if they had been let through, clusters too."""
    pipeline = alike(tile, m=m)
    with pytest.raises(DeadlockError, match="gemm1") as caught:
        verdict_of(
            measuring(limit_s=0.05),
            pipeline,
            Plan(Persistent(fused=True), sync=Semaphores(policy)),
            Build(mutant="no_post"),
        )
    assert {waiter.stage for waiter in caught.value.waiters} == {"gemm2"}
    assert verdict_of(measuring(), pipeline, Plan(Persistent(fused=True), sync=Semaphores(policy))).is_good


@pytest.mark.gpu
@POLICIES
@pytest.mark.parametrize("is_graph", [True, False], ids=["graph", "plain stream"])
@pytest.mark.parametrize(("tile", "m"), [(SQUARE, 700), (WIDE, 700), ((64, 192, 64), 125)], ids=str)
def test_a_run_leaves_its_counters_at_zero_and_can_be_replayed(measuring, tile, m, policy, is_graph):
    """No memset comes between replays: what the last block zeroes is all that the next run starts from."""
    from wavesim_gpu.run.references import reference

    runner = measuring(is_graph=is_graph)
    operands = runner.operands(alike(tile, m=m, n=520), seed=5)
    program = runner.program(operands, Plan(Persistent(fused=True), sync=Semaphores(policy)))
    launch, expected = runner.launcher(program), reference(operands)
    for _ in range(3):
        verdict = runner.verdict(program, launch, expected)
        assert verdict.is_good, verdict
        assert not program.sync.words.get().any()


@pytest.mark.gpu
def test_measured_beside_stream_sync_every_tile_of_both_stages_is_recorded_once_and_in_order(measuring):
    pipeline = alike(WIDE, m=2000, k=512, hidden=1280, n=2560)
    plans = [
        StreamSync(),
        Plan(Persistent(fused=True), sync=Semaphores(RowSync())),
        Plan(Persistent(fused=True), sync=Semaphores(TileSync())),
    ]
    traces = measuring().measure(pipeline, plans, rounds=3)
    assert [trace.header.plan for trace in traces] == ["stream", "persistent", "persistent:tile"]
    (dependency,) = pipeline.dependencies
    for trace in traces:
        for index, stage in enumerate(pipeline.stages):
            rows = trace.stage == index
            found = sorted(zip(trace.x[rows].tolist(), trace.y[rows].tolist(), strict=True))
            assert found == sorted(stage.grid)
        assert (trace.end_ns > trace.start_ns).all()
        first, second = (trace.rows_of(stage.name) for stage in pipeline.stages)
        for y in range(pipeline.stages[1].grid.y):
            rows = sorted({tile[1] for _, tile in dependency.producer_tiles(0, y)})
            made = trace.end_ns[first & (trace.y >= rows[0]) & (trace.y <= rows[-1])].max()
            assert (trace.end_ns[second & (trace.y == y)] >= made - 2 * trace.header.timer_step_ns).all()


@pytest.mark.gpu
def test_the_second_stage_starts_before_the_first_has_ended(measuring):
    """A wave and a half of each: under stream sync nothing overlaps, in one kernel the tail is filled."""
    pipeline = alike(WIDE, m=128 * 10, k=1024, hidden=20 * 256, n=20 * 256)
    stream, joint = measuring().measure(
        pipeline, [StreamSync(), Plan(Persistent(fused=True), sync=Semaphores(RowSync()))], rounds=3
    )
    for trace, is_filled in ((stream, False), (joint, True)):
        first, second = trace.rows_of("gemm1"), trace.rows_of("gemm2")
        assert (trace.start_ns[second].min() < trace.end_ns[first].max()) == is_filled


@pytest.mark.gpu
def test_the_runner_refuses_it_for_kernels_that_compute_one_stage_each(measuring):
    from wavesim_gpu.run.runner import CupyRunner

    portable = CupyRunner(commit="test")
    with pytest.raises(DescriptionError, match=r"one stage each.*, or backend='hopper'"):
        portable.measure(pair(), [Plan(Persistent(fused=True), sync=Semaphores())])
    with pytest.raises(DescriptionError, match=r"Give both .* the same tile"):
        measuring().measure(
            pair(m=300, k=256, hidden=512, n=384, tiles=(WIDE, SQUARE)),
            [Plan(Persistent(fused=True), sync=Semaphores())],
        )
