"""The Hopper GEMM compiles with no GPU, refuses what it cannot do, computes every shape, waits and posts."""

import re
from dataclasses import replace

import pytest
from cubin_facts import registers_at_launch
from small_pipelines import chain, pair

from wavesim.codegen.cuda import stage_header
from wavesim.errors import DeadlockError, DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Grouped, RowMajor
from wavesim.plan.parsing import plan_of_words, recorded_plan
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import Semaphores
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.driver.compiler import Build, compile_cubin
from wavesim_gpu.driver.functions import GENERATED
from wavesim_gpu.driver.kernel_sources import sources
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses
from wavesim_gpu.kernels.gemm.sm90 import gemm_sm90
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS

H200, HOPPER = load("h200"), backend_named("hopper")
PER_TILE, PERSISTENT, STREAM_K = StreamSync(), Plan(Persistent()), Plan(StreamK())
TILES = [(m, n, 64) for m, n in TILE_CONFIGS]
DELAY_NS = 300_000


def plan_under(words, policy=None, order=RowMajor()):
    """The plan of a schedule and a launch, "persistent pdl", with a policy's semaphores or without."""
    schedule, launch = words.split()
    plan = plan_of_words(schedule, launch, "row" if policy else "boundary")
    return replace(plan, sync=Semaphores(policy) if policy else plan.sync, order=order)


def one(tile, m=300, n=400, k=512, **options):
    return Gemm("gemm", m, n, k, *tile, **options)


def middle(tile):
    """A stage that both waits and posts."""
    return chain(300, (256, 512, 384, 128), (tile, tile, tile))


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_every_shape_compiles_for_hopper_and_uses_its_instructions(nvrtc, tile):
    plan = plan_under("persistent streams", TileSync(), Grouped(2))
    header = stage_header(middle(tile), plan, "gemm2")
    name = HOPPER.launch(one(tile, activation="gelu"), PERSISTENT, H200).expression
    ptx = compile_cubin(HOPPER.source, [name], "sm_90a", Build(), {GENERATED: header.text}).ptx
    for instruction in (
        f"wgmma.mma_async.sync.aligned.m64n{tile[1]}k16",
        "cp.async.bulk.tensor.2d.shared::cluster.global",
        "cp.async.bulk.tensor.2d.global.shared::cta",
        "fence.proxy.async.global",
        "cp.async.bulk.wait_group",
    ):
        assert instruction in ptx
    assert "multicast::cluster" not in ptx
    assert ("setmaxnreg" in ptx) == (TILE_CONFIGS[tile[:2]].warpgroups > 1)


@pytest.mark.parametrize("shape", TILE_CONFIGS.values(), ids=lambda shape: shape.name)
def test_the_registers_that_warpgroups_ask_for_are_those_the_block_was_given(nvrtc, shape):
    """Asking for more is a wait without end: setmaxnreg.inc waits until somebody gives registers away."""
    tile = (shape.tile_m, shape.tile_n, 64)
    header = stage_header(middle(tile), plan_under("persistent streams", RowSync()), "gemm2")
    name = HOPPER.launch(one(tile), PERSISTENT, H200).expression
    cubin = compile_cubin(HOPPER.source, [name], "sm_90a", Build(), {GENERATED: header.text})
    given = {int(n) for n in re.findall(r"setmaxnreg\.dec\S* \t?(\d+)", cubin.ptx)}
    taken = {int(n) for n in re.findall(r"setmaxnreg\.inc\S* \t?(\d+)", cubin.ptx)}
    if shape.warpgroups == 1:
        assert not given | taken
        return
    (others,), (math,) = given, taken
    assert 128 * (others + shape.warpgroups * math) <= shape.threads * registers_at_launch(cubin.data)


@pytest.mark.parametrize("build", [Build(is_recording=True), Build(mutant="early_post"), Build(delay_ns=5)])
@pytest.mark.parametrize("plan", [StreamSync(), SemaphoreSync(RowSync())], ids=["stream", "row"])
def test_it_compiles_under_every_plan_and_build(nvrtc, plan, build):
    header = stage_header(middle((128, 256, 64)), plan, "gemm2")
    swiglu = one((128, 256, 64), n=512, activation="swiglu", dtype="bf16")
    name = HOPPER.launch(swiglu, PER_TILE, H200).expression
    assert compile_cubin(HOPPER.source, [name], "sm_90a", build, {GENERATED: header.text}).data


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_stream_k_compiles_under_stream_sync(nvrtc, tile):
    header = stage_header(middle(tile), STREAM_K, "gemm2")
    name = HOPPER.launch(one(tile), STREAM_K, H200).expression
    ptx = compile_cubin(HOPPER.source, [name], "sm_90a", Build(), {GENERATED: header.text}).ptx
    assert "multicast::cluster" not in ptx


def test_all_headers_of_the_folder_count_in_the_source_hash():
    folder = HOPPER.source.parent
    assert {*folder.glob("*.cuh"), HOPPER.source} <= set(sources(HOPPER.source))


def test_waits_are_compiled_out_where_nothing_is_waited_for(nvrtc):
    name = HOPPER.launch(one((128, 256, 64)), PERSISTENT, H200).expression
    waits = {
        stage: "fence.proxy.async.global"
        in compile_cubin(
            HOPPER.source,
            [name],
            "sm_90a",
            Build(),
            {GENERATED: stage_header(pair(), plan_under("persistent streams", RowSync()), stage).text},
        ).ptx
        for stage in ("gemm1", "gemm2")
    }
    assert waits == {"gemm1": False, "gemm2": True}


@pytest.mark.parametrize("shape", TILE_CONFIGS.values(), ids=lambda shape: shape.name)
def test_every_shape_fits_on_an_h200(shape):
    assert shape.dynamic_shared_bytes <= H200.shared_bytes_per_block
    assert shape.threads <= H200.max_threads_per_block
    assert shape.fragments * shape.tile_n // 2 <= 128  # sums per thread, in registers


def test_a_persistent_launch_has_a_block_per_sm_and_whole_clusters():
    assert HOPPER.launch(one((128, 256, 64), m=4096, n=12288), PERSISTENT, H200).blocks == 132
    six = one((64, 192, 64), m=125, n=576)
    assert HOPPER.launch(six, PERSISTENT, H200).blocks == HOPPER.launch(six, PER_TILE, H200).blocks == 6
    assert HOPPER.launch(one((64, 192, 64), m=125, n=19200), PERSISTENT, H200).blocks == 132
    assert HOPPER.launch(one((128, 256, 64), split_k=2), PER_TILE, H200).blocks == 3 * 2 * 2


@pytest.mark.parametrize(
    ("gemm", "words"),
    [
        (one((128, 256, 32)), "backend 'hopper' has 128x256x64"),
        (one((96, 256, 64)), "the tile is 96x256x64"),
        (one((128, 256, 64), n=250), "n is 250; .* multiple of 8. Pad it to 256"),
        (one((128, 256, 64), k=100), "k is 100; .* multiple of 8. Pad it to 104"),
        (
            one((128, 192, 64), activation="swiglu", gates="halves"),
            "tile is 128x192x64; with gates in halves and B row-major .* Use 128x256x64, .* column-major B",
        ),
        (one((128, 256, 64), n=264, activation="swiglu"), "n is 264; .* multiple of 16. Pad it to 272"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_it_cannot_compute_is_refused_with_the_fix(gemm, words):
    with pytest.raises(DescriptionError, match=words):
        HOPPER.check(gemm)


def test_stream_k_cuts_k_by_itself():
    one_block_each = HOPPER.launch(one((128, 192, 64), m=4096, n=12288), STREAM_K, H200)
    assert (one_block_each.blocks, one_block_each.cluster) == (132, 1)
    assert HOPPER.launch(one((128, 192, 64), m=1, n=192, k=128), STREAM_K, H200).blocks == 2  # a chunk each
    with pytest.raises(DescriptionError, match="Use split_k=1"):
        HOPPER.check(one((128, 256, 64), split_k=2), STREAM_K)


def test_another_gpu_is_refused():
    with pytest.raises(DeviceError, match=r"capability 8.0; .* Use backend='portable'"):
        HOPPER.launch(one((128, 256, 64)), PERSISTENT, replace(H200, name="older", compute_capability=(8, 0)))


def test_misaligned_arrays_are_refused():
    pytest.importorskip("cuda.bindings.driver", reason="pip install 'wavesim[nvrtc]'")
    with pytest.raises(DescriptionError, match="a is at address 0x1008"):
        HOPPER.arguments(one((128, 256, 64)), PERSISTENT, Addresses(0x1008, 0, 0, 0, 0))


# ---- On a GPU.


def verdict_of(pipeline, plan, build=None, seed=21, limit_s=5.0, runs=1):
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    runner = CupyRunner(limit_s=limit_s, commit="test", backend="hopper")
    operands = runner.operands(pipeline, seed=seed)
    # Counters left as they are, so that the semaphores' final values can be seen.
    program = runner.program(operands, plan, build or Build(), is_self_resetting=False)
    launch, expected = runner.launcher(program), reference(operands)
    verdicts = [runner.verdict(program, launch, expected) for _ in range(runs)]
    return next((verdict for verdict in verdicts if not verdict.is_good), verdicts[-1])


@pytest.fixture(autouse=True)
def hopper(request):
    if request.node.get_closest_marker("gpu") is None:
        return
    request.getfixturevalue("runner")
    from wavesim_gpu.driver.device import query

    if query().compute_capability != gemm_sm90.HOPPER_CAPABILITY:
        pytest.skip("not a Hopper GPU")


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("words", "dtype"),
    [("persistent one-stream", "fp16"), ("tile one-stream", "bf16"), ("persistent pdl", "fp16")],
)
@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("rows", [0.2, 2, 3])
def test_every_shape_is_right_under_stream_sync_at_the_edges(words, tile, dtype, rows):
    """Rows and columns that do not fill their tiles: of one tile, of two that share B, of three."""
    pipeline = pair(
        m=int(tile[0] * rows) - 5, k=320, hidden=576, n=tile[1] * 3 - 8, tiles=(tile, tile), dtype=dtype
    )
    assert verdict_of(pipeline, plan_under(words)).is_good


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("words", "order"),
    [("persistent streams", Grouped(2)), ("tile streams", RowMajor()), ("tile pdl", Grouped(2))],
    ids=str,
)
@pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
@pytest.mark.parametrize(("tile", "rows"), [*((tile, 3) for tile in TILES), ((64, 192, 64), 2)], ids=str)
def test_every_shape_waits_for_every_chunk_when_columns_come_late_one_by_one(
    words, order, policy, tile, rows
):
    """A consumer that reads one chunk too early reads NaN: the next column is still 0.1 ms away."""
    pipeline = pair(m=tile[0] * rows - 5, k=128, hidden=1280, n=tile[1] * 2 + 8, tiles=(tile, tile))
    verdict = verdict_of(pipeline, plan_under(words, policy, order), Build(delay_ns=100_000))
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("tile", [(128, 256, 64), (128, 192, 64), (64, 128, 64)], ids=str)
@pytest.mark.parametrize("sizes", [(300, 1280, 700), (2000, 640, 6144)], ids=str)
@pytest.mark.parametrize("words", ["stream-k one-stream", "stream-k pdl"])
def test_stream_k_adds_up_the_tiles_that_it_cut(words, tile, sizes):
    """Fewer tiles than blocks, and a wave and a half of them; replayed: the kernel resets its tickets."""
    m, hidden, n = sizes
    pipeline = pair(m=m, k=256, hidden=hidden, n=n - n % 8, tiles=(tile, tile))
    assert verdict_of(pipeline, plan_under(words), runs=3).is_good


@pytest.mark.gpu
@pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_blocks_of_many_tiles_hold_outputs_back_and_lose_none(tile, policy):
    """A block computes up to 30 tiles in turn; outputs of one are staged while the next begins."""
    pipeline = pair(m=2000, k=256, hidden=1280, n=6144, tiles=(tile, tile))
    plan = plan_under("persistent streams", policy, Grouped(4))
    assert verdict_of(pipeline, plan, runs=20).is_good


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("words", "order", "split_k"),
    [("persistent streams", Grouped(2), 2), ("tile streams", RowMajor(), 3)],
    ids=str,
)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_split_k_slices_wait_and_add_up(words, order, split_k, tile):
    """In the builds of the test above, which needs no kernels of its own then."""
    pipeline = pair(
        m=tile[0] * 2 - 5, k=384, hidden=1280, n=tile[1] * 3, tiles=(tile, tile), split_k=(split_k, split_k)
    )
    verdict = verdict_of(pipeline, plan_under(words, TileSync(), order), Build(delay_ns=100_000))
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("words", ["persistent streams", "tile streams", "tile pdl"])
@pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
def test_a_dropped_wait_and_an_early_post_give_wrong_numbers(words, policy, mutant):
    pipeline = pair(m=300, k=256, hidden=1280, n=512, tiles=((128, 128, 64), (128, 256, 64)))
    build = Build(mutant=mutant, delay_ns=DELAY_NS)
    assert not verdict_of(pipeline, plan_under(words, policy), build).is_right


@pytest.mark.gpu
@pytest.mark.parametrize("words", ["persistent streams", "tile streams", "tile pdl"])
@pytest.mark.parametrize("tile", [(128, 256, 64), (64, 192, 64)], ids=str)
def test_a_dropped_post_is_a_deadlock_and_the_next_run_is_right(words, tile):
    """Clusters drain too: every block goes on by itself, as if it had been let through."""
    pipeline = pair(m=2 * tile[0] - 6, k=256, hidden=640, n=512, tiles=(tile, tile))
    with pytest.raises(DeadlockError, match="gemm1"):
        verdict_of(pipeline, plan_under(words, RowSync()), Build(mutant="no_post"), limit_s=0.05)
    assert verdict_of(pipeline, plan_under(words, RowSync())).is_good


@pytest.mark.gpu
def test_recorded_tiles_are_all_there_once(cupy):
    from wavesim_gpu.run.runner import CupyRunner

    runner = CupyRunner(limit_s=5.0, commit="test", backend="hopper")
    pipeline = pair(m=2000, k=512, hidden=1280, n=2560, tiles=((128, 256, 64), (128, 192, 64)))
    operands = runner.operands(pipeline, seed=3)
    program = runner.program(operands, plan_under("persistent streams", RowSync()), Build(is_recording=True))
    runner.launcher(program)()
    program.synchronize()
    for stage in pipeline.stages:
        records = program.sync.records(stage.name)
        tiles = sorted(zip(records["y"].tolist(), records["x"].tolist(), strict=True))
        assert tiles == sorted((y, x) for x, y in stage.gemm.grid)
        assert (records["end_ns"] > records["start_ns"]).all()
        assert (records["end_cycles"] > records["start_cycles"]).all()


@pytest.mark.gpu
@pytest.mark.parametrize("words", ["persistent streams", "tile streams", "persistent pdl", "tile pdl"])
@pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
def test_a_run_leaves_its_counters_at_zero_and_can_be_replayed(words, policy):
    """No memset comes between replays: what the last block zeroes is all that the next run starts from."""
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    runner = CupyRunner(limit_s=5.0, commit="test", backend="hopper")
    tile = (128, 128, 64)
    operands = runner.operands(pair(m=700, k=128, hidden=1280, n=520, tiles=(tile, tile)), seed=5)
    program = runner.program(operands, plan_under(words, policy), is_self_resetting=True)
    launch, expected = runner.launcher(program), reference(operands)
    for _ in range(3):
        verdict = runner.verdict(program, launch, expected)
        assert verdict.is_right, verdict
        assert not program.sync.words.get().any()


@pytest.mark.gpu
def test_a_trace_says_which_plan_ran_on_which_backend():
    from wavesim_gpu.run.runner import CupyRunner

    plans = [
        plan_under("tile one-stream"),
        plan_under("persistent one-stream"),
        plan_under("tile pdl"),
        plan_under("tile pdl", RowSync()),
        plan_under("persistent pdl", TileSync()),
    ]
    pipeline = pair(m=700, k=256, hidden=1280, n=2560, tiles=((128, 128, 64),) * 2)
    traces = CupyRunner(limit_s=5.0, commit="test", backend="hopper").measure(pipeline, plans, rounds=3)
    for plan, trace in zip(plans, traces, strict=True):
        head = trace.header
        assert head.plan == plan.name
        assert recorded_plan(head.plan, head.plan_data, head.orders) == plan
        assert {info.backend for info in head.stages} == {"hopper"}
        assert trace.events == ()  # no wait-kernel


@pytest.mark.gpu
@pytest.mark.parametrize("plan", [StreamSync(), SemaphoreSync(RowSync()), SemaphoreSync(TileSync())], ids=str)
@pytest.mark.parametrize("backends", [("portable", "hopper"), ("hopper", "portable")], ids=str)
def test_stages_of_both_backends_wait_for_each_other(backends, plan):
    plain = pair(m=300, k=256, hidden=1280, n=520, tiles=((128, 256, 64), (128, 256, 64)))
    first, second = (replace(one, backend=name) for one, name in zip(plain.stages, backends, strict=True))
    pipeline = Pipeline("mixed", [first, second], [gemm_rows(first, second)])
    verdict = verdict_of(pipeline, plan, Build(delay_ns=100_000))
    assert verdict.is_good, verdict
