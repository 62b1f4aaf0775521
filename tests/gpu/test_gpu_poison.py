"""What is computed from tiles that have never come is NaN, in every kernel and under every plan, and the next
run is right: nobody is handed finite numbers that mean nothing."""

from dataclasses import replace

import numpy as np
import pytest
from small_pipelines import SMALL, chain, pair

from wavesim.errors import DeadlockError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.work.gemm import ACTIVATIONS, Gemm
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.kernel_launch import KernelLaunch

pytestmark = pytest.mark.gpu

LIMIT_S = 0.05
HOPPER_TILES = ((128, 128, 64), (64, 192, 64), (256, 128, 64), (192, 128, 64))
HOPPER_PLANS = ("streams+row", "persistent+streams+tile", "persistent+pdl+row", "pdl+tile")


def measuring(runner, backend="portable", limit_s=LIMIT_S):
    from wavesim_gpu.driver.device import query
    from wavesim_gpu.run.runner import CupyRunner

    if backend == "hopper" and query().compute_capability != (9, 0):
        pytest.skip("not a Hopper GPU")
    return CupyRunner(limit_s=limit_s, commit="test", backend=backend)


def with_finite_outputs(program):
    """Zeros in place of what an earlier run may have left: finite, so that all NaN is the kernels'."""
    for array in program.operands.c.values():
        array.fill(0)
    program._cupy.cuda.Device().synchronize()
    return program


def nan_shares(program):
    """Of each stage's outputs, how many are NaN."""
    return {name: float(np.isnan(out.get()).mean()) for name, out in program.operands.outputs().items()}


def failed(program):
    """The error of one run over finite outputs, and which share of each stage's outputs is NaN after it."""
    launch = program.launcher()
    with_finite_outputs(program)
    launch()
    for stream in program.streams:
        stream.synchronize()
    shares = nan_shares(program)
    with pytest.raises(DeadlockError) as caught:
        program.synchronize()
    return caught.value, shares


def is_right(runner, program):
    from wavesim_gpu.run.references import reference

    return runner.verdict(program, runner.launcher(program), reference(program.operands)).is_good


def without_producer(program):
    """The same without its first launch; what is then the first depends on none."""
    first, *others = program.launches[1:]
    program.launches = (replace(first, shape=replace(first.shape, is_dependent=False)), *others)
    return program


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("split_k", [1, 2])
@pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
def test_consumers_of_a_producer_that_was_not_launched_write_nan(runner, policy, split_k, dtype):
    own = measuring(runner)
    pipeline = pair(split_k=(1, split_k), dtype=dtype)
    plan = SemaphoreSync(policy, wait_kernel=False)
    program = own.program(own.operands(pipeline, seed=1), plan)
    launches = program.launches
    error, shares = failed(without_producer(program))
    assert {waiter.stage for waiter in error.waiters} == {"gemm2"}
    assert shares == {"gemm1": 0.0, "gemm2": 1.0}
    program.launches = launches
    assert is_right(own, program)


def test_a_wait_kernel_that_gives_up_leads_to_nan_too(runner):
    own = measuring(runner)
    program = own.program(own.operands(pair(), seed=1), SemaphoreSync(RowSync()))
    error, shares = failed(without_producer(program))
    assert shares["gemm2"] == 1.0
    assert error.waiters[0].semaphore == "start of gemm1"


def test_nan_goes_through_activations_and_posts_to_every_later_stage(runner):
    own = measuring(runner)
    pipeline = chain(200, (256, 320, 192, 128), (SMALL,) * 3)
    program = own.program(own.operands(pipeline, seed=1), SemaphoreSync(TileSync(), wait_kernel=False))
    _, shares = failed(without_producer(program))
    assert (shares["gemm2"], shares["gemm3"]) == (1.0, 1.0)


@pytest.mark.parametrize("words", HOPPER_PLANS)
@pytest.mark.parametrize("split_k", [1, 2])
@pytest.mark.parametrize("tile", HOPPER_TILES, ids=str)
def test_hopper_clusters_and_splits_write_nan_too_and_the_next_run_is_right(runner, tile, split_k, words):
    own = measuring(runner, "hopper")
    pipeline = pair(m=2 * tile[0] - 6, k=256, hidden=640, n=512, tiles=(tile, tile), split_k=(1, split_k))
    plan = parse_plan(words, "grouped:2") if "tile" in words else parse_plan(words)
    program = own.program(own.operands(pipeline, seed=1), plan, is_self_resetting=False)
    launches = program.launches
    error, shares = failed(without_producer(program))
    assert error.waiters[0].semaphore.startswith(("gemm1", "start of gemm1"))
    assert shares == {"gemm1": 0.0, "gemm2": 1.0}
    program.launches = launches
    assert is_right(own, program)


@pytest.mark.parametrize("words", [*HOPPER_PLANS, "fused+row", "fused+tile"])
@pytest.mark.parametrize("tile", HOPPER_TILES, ids=str)
def test_where_a_post_is_lost_the_producer_is_right_and_the_consumer_nan(runner, tile, words):
    own = measuring(runner, "hopper")
    pipeline = pair(m=2 * tile[0] - 6, k=256, hidden=640, n=512, tiles=(tile, tile))
    program = own.program(own.operands(pipeline, seed=1), parse_plan(words), Build(mutant="no_post"))
    error, shares = failed(program)
    assert {waiter.stage for waiter in error.waiters} == {"gemm2"}
    assert shares == {"gemm1": 0.0, "gemm2": 1.0}


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize(
    ("words", "split_k"), [("stream-k", 1), ("stream", 2), ("persistent+pdl+boundary", 3)]
)
def test_sums_whose_splits_never_came_are_nan(runner, words, split_k, activation):
    """The mutant stores its partial sums and does not say so. Every tile is split."""
    own = measuring(runner, "hopper")
    work = Gemm("gemm1", 300, 768, 1280, 128, 128, 64, split_k=split_k, activation=activation)
    pipeline = Pipeline("one", [Stage("gemm1", work)], [])
    program = own.program(own.operands(pipeline, seed=1), parse_plan(words), Build(mutant="no_post"))
    error, shares = failed(program)
    assert {waiter.semaphore for waiter in error.waiters} == {"partial sums of the tile's other splits"}
    assert shares == {"gemm1": 1.0}


def held_up(program, milliseconds):
    """The program with its first stage behind a kernel that passes time on the same stream."""
    from wavesim_gpu.driver.functions import load_function
    from wavesim_gpu.driver.kernel_launch import DeviceLaunch
    from wavesim_gpu.run import control

    pass_time = load_function(control.SOURCE, "pass_time", Build())
    pause = DeviceLaunch(pass_time, KernelLaunch("pass_time", 1, 0, 1), (np.uint64(milliseconds * 10**6),), 0)
    program.launches = (pause, *program.launches)
    return program


@pytest.mark.parametrize("is_self_resetting", [False, True])
@pytest.mark.parametrize("backend", ["portable", "hopper"])
def test_a_producer_that_comes_too_late_leaves_nan_and_clean_counters(runner, backend, is_self_resetting):
    own = measuring(runner, backend)
    tile = SMALL if backend == "portable" else (128, 128, 64)
    pipeline = pair(m=300, k=256, hidden=640, n=512, tiles=(tile, tile))
    plan = SemaphoreSync(TileSync(), wait_kernel=False)
    program = own.program(own.operands(pipeline, seed=1), plan, is_self_resetting=is_self_resetting)
    launches = program.launches
    error, shares = failed(held_up(program, 200))
    assert {waiter.stage for waiter in error.waiters} == {"gemm2"}
    assert shares == {"gemm1": 0.0, "gemm2": 1.0}
    program.launches = launches
    assert is_right(own, program)


def test_a_run_behind_an_aborted_one_is_nan_or_right_before_anybody_looks(runner):
    """The queue drains: of the second run nothing is finite and wrong."""
    from wavesim_gpu.run.references import reference

    own = measuring(runner)
    operands = own.operands(pair(m=1000, hidden=2560, n=1024), seed=1)
    program = own.program(operands, SemaphoreSync(TileSync(), wait_kernel=False))
    launches, expected = program.launches, reference(operands)["gemm2"].get()
    late = held_up(program, 200).launcher()
    program.launches = launches
    launch = with_finite_outputs(program).launcher()
    late()
    launch()
    for stream in program.streams:
        stream.synchronize()
    found = operands.outputs()["gemm2"].get()
    is_near = np.abs(found - expected) < 0.05 * np.abs(expected).max()
    assert (np.isnan(found) | is_near).all()
    with pytest.raises(DeadlockError):
        program.synchronize()


def test_a_producer_that_is_slow_and_steady_is_waited_for_beyond_the_limit(runner):
    """The limit is on the time in which a counter stands still: its columns come 30 ms apart."""
    from wavesim_gpu.run.references import reference

    own = measuring(runner)
    operands = own.operands(pair(), seed=1)
    program = own.program(operands, SemaphoreSync(RowSync()), Build(delay_ns=30_000_000))
    verdict = own.verdict(program, own.launcher(program), reference(operands))
    assert verdict.is_good, verdict


@pytest.mark.parametrize("name", ["ready", "tile", "tile on one stream"])
def test_copies_of_blocks_that_never_came_are_nan(runner, name):
    from wavesim_gpu.bench.labs import copies

    buffers = copies.Buffers.of(64 * copies.BYTES_PER_BLOCK)
    way = copies.ways_on(runner.device).get(name)
    if way is None:
        pytest.skip("not on this GPU")
    pair = copies.copy_pair(256, way, buffers, limit_s=LIMIT_S)
    launches = pair.launches
    without_producer(pair)
    launch = pair.launcher()
    buffers.out.fill(0)
    buffers.middle.fill(0)
    pair._cupy.cuda.Device().synchronize()
    launch()
    with pytest.raises(DeadlockError):
        pair.synchronize()
    assert bool((buffers.out == 0xFF).all())
    pair.launches = launches
    assert copies.verdict_of(pair, pair.launcher(), buffers).is_good
