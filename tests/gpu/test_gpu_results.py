"""Every plan computes the same right numbers, and leaves every semaphore at its number of posts."""

import random

import pytest
from small_pipelines import SMALL, SQUARE, TALL, WIDE, chain, fork, pair

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import ColumnMajor, CustomOrder, Grouped, Reversed, RowMajor
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.work.gemm import Gemm

pytestmark = pytest.mark.gpu


def shuffled(grid):
    tiles = list(grid)
    random.Random(7).shuffle(tiles)
    return tiles


ORDERS = [RowMajor(), ColumnMajor(), Grouped(2), Reversed(), CustomOrder("shuffled", shuffled)]
# Pairs of neighbouring columns share a semaphore; the last column of an odd grid has one of its own.
COLUMN_PAIRS = CustomPolicy(
    "column-pairs",
    lambda x, y, grid: y * ((grid.x + 1) // 2) + x // 2,
    lambda x, y, grid: 2 if x // 2 * 2 + 1 < grid.x else 1,
)
POLICIES = [RowSync(), TileSync(), COLUMN_PAIRS]


def plans(order):
    return [StreamSync(order), *(SemaphoreSync(policy, order=order) for policy in POLICIES)]


def check(runner, pipeline, plan, seed, replays=2):
    """A fresh random input, poisoned outputs before every replay."""
    from wavesim_gpu.run.references import reference

    operands = runner.operands(pipeline, seed)
    expected = reference(operands)
    program = runner.program(operands, plan)
    launch = runner.launcher(program)
    for _ in range(replays):
        verdict = runner.verdict(program, launch, expected)
        assert verdict.is_right, verdict.errors
        assert verdict.has_right_semaphores, (program.sync.values(), program.sync.finals)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
@pytest.mark.parametrize("split_k", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_every_policy_and_order_with_split_k_in_both_types_is_right(runner, order, split_k, dtype):
    for seed, plan in enumerate(plans(order)):
        check(runner, pair(split_k=split_k, dtype=dtype), plan, seed)


@pytest.mark.parametrize("m", [1, 63, 64, 65, 129, 200, 256])
def test_edge_rows_are_right(runner, m):
    for seed, plan in enumerate(plans(RowMajor())):
        check(runner, pair(m=m), plan, seed)


@pytest.mark.parametrize("activation", ["gelu", None])
def test_producers_with_and_without_activation_are_right(runner, activation):
    for seed, plan in enumerate(plans(Grouped(2))):
        check(runner, pair(activation=activation), plan, seed)


@pytest.mark.parametrize(
    "tiles",
    [
        (SMALL, SQUARE),
        (SQUARE, SMALL),
        (WIDE, SMALL),
        (SMALL, TALL),
        (TALL, WIDE),
        (WIDE, TALL),
        (SQUARE, SQUARE),
    ],
    ids=str,
)
def test_producer_and_consumer_tiles_may_differ(runner, tiles):
    for seed, plan in enumerate(plans(Grouped(2))):
        check(runner, pair(m=300, k=256, hidden=640, n=512, tiles=tiles), plan, seed)


@pytest.mark.parametrize("tile", [(128, 256, 64), (256, 128, 64), (128, 128, 64)], ids=str)
def test_deeper_k_chunks_are_right(runner, tile):
    for seed, plan in enumerate(plans(RowMajor())):
        check(runner, pair(m=300, k=256, hidden=640, n=512, tiles=(tile, tile)), plan, seed)


def test_columns_that_do_not_fill_a_tile_are_right(runner):
    for seed, plan in enumerate(plans(RowMajor())):
        check(runner, pair(m=100, hidden=288, n=200), plan, seed)


def test_a_chain_of_three_is_right(runner):
    for seed, plan in enumerate(plans(Grouped(2))):
        check(runner, chain(300, (256, 320, 192, 128), (SMALL, SMALL, SMALL)), plan, seed)


def test_a_fork_of_two_consumers_is_right(runner):
    for seed, plan in enumerate(plans(RowMajor())):
        check(runner, fork(), plan, seed)


def test_a_fork_may_use_a_policy_per_dependency(runner):
    policies = {("gemm1", "gemm2"): TileSync(), ("gemm1", "gemm3"): RowSync()}
    check(runner, fork(), SemaphoreSync(policies=policies), seed=1)


def test_split_k_of_one_stage_only_is_right(runner):
    for split_k in [(3, 1), (1, 3)]:
        for seed, plan in enumerate(plans(ColumnMajor())):
            check(runner, pair(split_k=split_k), plan, seed)


def test_without_the_wait_kernel_a_grid_that_fits_whole_is_right(runner):
    for policy in POLICIES:
        check(runner, pair(), SemaphoreSync(policy, wait_kernel=False), seed=3)


def test_a_graph_replayed_ten_times_is_right_every_time(runner):
    for plan in plans(Grouped(2)):
        check(runner, pair(split_k=2), plan, seed=4, replays=10)


def test_plain_streams_are_right(runner, cupy):
    from wavesim_gpu.run.runner import CupyRunner

    plain = CupyRunner(is_graph=False, commit="test")
    for seed, plan in enumerate(plans(RowMajor())):
        check(plain, pair(), plan, seed, replays=3)


def test_split_k_gives_the_same_bits_every_time(runner, cupy):
    operands = runner.operands(pair(split_k=4), seed=5)
    program = runner.program(operands, SemaphoreSync(TileSync()))
    launch = runner.launcher(program)
    results = []
    for _ in range(5):
        operands.poison(program.streams[0])
        launch()
        program.synchronize()
        results.append(operands.c["gemm2"].get())
    assert all(bool((result == results[0]).all()) for result in results)


def test_a_full_size_mlp_is_right_under_every_plan(runner):
    from wavesim.workloads.mlps import gpt3_mlp

    for tile in [(128, 256), (128, 128)]:
        for plan in plans(Grouped(8)):
            check(runner, gpt3_mlp(700, tile), plan, seed=6)


def test_run_returns_every_stage_of_given_inputs(runner, cupy):
    pipeline = pair(m=64, k=64, hidden=64, n=64, activation=None)
    identity = cupy.eye(64, dtype="float16")
    given = cupy.random.standard_normal((64, 64)).astype("float16")
    outputs = runner.run(pipeline, SemaphoreSync(), {"gemm1": given}, {"gemm1": identity, "gemm2": identity})
    assert bool((outputs["gemm2"] == given.astype("float32")).all())


def test_wrong_arrays_are_refused_before_any_launch(runner, cupy):
    pipeline = pair(m=64, k=64, hidden=64, n=64)
    good = cupy.zeros((64, 64), "float16")
    for bad, words in [
        (cupy.zeros((64, 32), "float16"), "must be"),
        (cupy.zeros((64, 64), "float32"), "must be"),
        (cupy.zeros((64, 64), "float16").T[:, :], "row-major"),
        (None, "missing"),
    ]:
        with pytest.raises(DescriptionError, match=words):
            runner.run(pipeline, StreamSync(), {"gemm1": bad}, {"gemm1": good, "gemm2": good})


def test_more_than_the_gpu_holds_is_refused(runner):
    from wavesim.errors import DeviceError

    work = Gemm("gemm1", 2**16, 2**16, 2**20, *SQUARE)
    with pytest.raises(DeviceError, match="GB of GPU memory"):
        runner.operands(Pipeline("huge", [Stage("gemm1", work)]))
