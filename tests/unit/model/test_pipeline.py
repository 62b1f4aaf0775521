"""Pipelines and their costs: what fits together, and what cannot be."""

from itertools import pairwise

import pytest
from toy_schedules import TOY, WHOLE_SM, pair, run, stage

from wavesim.costs.cost_model import CostModel, zero_cost
from wavesim.costs.data_sheet import roofline
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import StreamSync
from wavesim.safe_io.bounds import shown
from wavesim.sim.simulation import simulate
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.catalogue import workload
from wavesim.workloads.figure_one import toy

FIRST, SECOND, THIRD = stage("first", 2, 3), stage("second", 2, 3), stage("third", 2, 3)
TINY = Block(threads=32)
EDGE = Dependency(SECOND[x, y], [FIRST[:, y]])


def test_a_pipeline_knows_its_stages_and_who_reads_whom():
    fork = Pipeline("fork", [FIRST, SECOND, THIRD], [EDGE, Dependency(THIRD[x, y], [FIRST[x, y]])])
    assert fork.stage("second") is SECOND
    assert fork.dependency_of("second") is EDGE
    assert fork.dependency_of("first") is None
    assert fork.consumers_of("first") == ("second", "third")
    assert hash(fork) == hash(Pipeline("fork", [FIRST, SECOND, THIRD], fork.dependencies))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Pipeline("p", []), "pipeline p has no stages; give at least one"),
        (lambda: Pipeline("p", [FIRST, FIRST]), "two stages are called 'first'; names must differ"),
        (lambda: Pipeline("p", [SECOND, FIRST], [EDGE]), "'second' needs 'first', which is listed after it"),
        (
            lambda: Pipeline("p", [SECOND], [EDGE]),
            "names stage 'first', which is not one of its stages ['second']",
        ),
        (
            lambda: Pipeline("p", [FIRST, SECOND], [EDGE, EDGE]),
            "'second' has two dependencies; put all its needs",
        ),
        (
            lambda: pair(FIRST, SECOND).stage("third"),
            "pipeline pair has no stage 'third'; it has ['first', 'second']",
        ),
    ],
    ids=["empty", "twice", "backwards", "unknown", "two dependencies", "no such stage"],
)
def test_stages_that_do_not_make_a_pipeline_are_refused(build, words):
    with pytest.raises(DescriptionError) as caught:
        build()
    assert words in str(caught.value)


def test_a_stage_is_not_a_sequence_of_tiles():
    with pytest.raises(TypeError, match=r"list\(stage.grid\) gives its tiles"):
        list(FIRST)


def test_an_unknown_workload_or_device_lists_the_known_ones():
    with pytest.raises(DescriptionError, match=r"'gpt5'; known .*toy, gpt3-mlp"):
        workload("gpt5")
    with pytest.raises(DescriptionError, match=r"unknown device 'h999'; known devices: toy, .*h200"):
        load("h999")


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Block(1024, 128), "registers is 128 per thread for 1024 threads; toy has 65536 per SM"),
        (Block(2048), "threads is 2048; toy runs at most 1024 per block"),
        (
            Block(32, dynamic_shared_bytes=300_000),
            "shared_bytes is 300000; toy allows a block at most 232448",
        ),
    ],
    ids=["registers", "threads", "shared memory"],
)
def test_a_block_that_no_sm_can_hold_is_refused_before_anything_runs(block, words):
    with pytest.raises(DescriptionError) as caught:
        run(Pipeline("p", [stage("a", 4, block=block)]), StreamSync())
    assert words in str(caught.value)


# --- costs ---


@pytest.mark.parametrize("name", ["launch_ns", "boundary_ns", "block_ns", "wait_ns", "post_ns"])
@pytest.mark.parametrize("value", [-1, 0.5, "1"])
def test_a_cost_is_a_whole_number_of_nanoseconds(name, value):
    with pytest.raises(
        DescriptionError, match=f"CostModel: {name} is {value!r}; it must be an integer of at least 0"
    ):
        CostModel({"gemm1": 1}, **{name: value})


@pytest.mark.parametrize(
    ("tile_ns", "words"),
    [
        ({"gemm1": 1}, "no tile_ns for stage 'gemm2'; it has ['gemm1']"),
        ({"gemm1": 1, "gemm2": [1, 2]}, "2 tile times for 'gemm2'; its grid 2 x 3 has 6 blocks"),
        ({"gemm1": -1, "gemm2": 1}, "tile_ns of gemm1 is -1; it must be at least 0"),
        ({"gemm1": 1, "gemm2": [1, 1, 1, 1, 1, -5]}, "tile_ns of gemm2 is -5; it must be at least 0"),
    ],
    ids=["missing", "too few", "negative", "one negative"],
)
def test_tile_times_that_do_not_fit_the_pipeline_are_refused(tile_ns, words):
    with pytest.raises(DescriptionError) as caught:
        simulate(toy(), StreamSync(), TOY, CostModel(tile_ns))
    assert words in str(caught.value)


@pytest.mark.parametrize("sharing", [(), (0.5,), (1.0, 0.0), (1.0, -1.0)])
def test_sharing_starts_with_a_block_alone_and_stays_above_zero(sharing):
    with pytest.raises(DescriptionError, match="CostModel: sharing is"):
        CostModel({"gemm1": 1}, sharing=sharing)


def test_a_roofline_needs_to_know_the_work_of_a_block():
    with pytest.raises(
        DescriptionError, match="gemm1: no flops_per_block or bytes_per_block; give them, or tile_ns"
    ):
        roofline(toy(), TOY)


def test_a_roofline_takes_the_longer_of_arithmetic_and_memory_traffic():
    # The toy's SM does 1e12 operations and moves 2.5e10 bytes per second.
    busy = stage("busy", 4, flops_per_block=2_000_000, bytes_per_block=25)
    moving = stage("moving", 4, flops_per_block=1_000, bytes_per_block=50_000)
    assert roofline(Pipeline("p", [busy, moving]), TOY).tile_ns == {"busy": 2_000, "moving": 2_000}


def test_zero_cost_gives_every_tile_its_time_and_nothing_else():
    costs = zero_cost(toy(), 7)
    assert costs.tile_ns == {"gemm1": 7, "gemm2": 7}
    assert costs.with_tile_ns(gemm2=9).tile_ns == {"gemm1": 7, "gemm2": 9}
    assert (costs.launch_ns, costs.wait_ns, costs.sharing) == (0, 0, (1.0,))


def test_blocks_are_bounded_over_all_stages_with_and_without_dependencies():
    first, second = (Stage(name, Kernel(name, Grid(2**9, 2**8, 2), TINY)) for name in ("first", "second"))
    Pipeline("at the bound", [Stage("all", Kernel("all", Grid(2**9, 2**8, 2), TINY))])
    with pytest.raises(DescriptionError, match=r"pipeline p has 524,288 blocks in all; at most 262,144"):
        Pipeline("p", [first, second])
    cube = Stage("cube", Kernel("cube", Grid(60_000, 60_000, 60_000), TINY))
    with pytest.raises(DescriptionError, match="216,000,000,000,000 blocks in all"):
        Pipeline("p", [cube])


def test_reads_are_bounded_over_all_dependencies():
    first, second, third = (Stage(name, Kernel(name, Grid(7_000), TINY)) for name in ("a", "b", "c"))
    needs_all = [Dependency(second[x, y], [first[:, y]]), Dependency(third[x, y], [second[:, y]])]
    Pipeline("one", [first, second], needs_all[:1])
    with pytest.raises(DescriptionError, match="98,000,000 reads"):
        Pipeline("two", [first, second, third], needs_all)
    twice = [first[:, y], first[:, y]]
    with pytest.raises(DescriptionError, match="98,000,000 reads"):
        Dependency(second[x, y], twice)


def test_stages_are_bounded():
    with pytest.raises(DescriptionError, match="has 129 stages; at most 128"):
        Pipeline("p", [Stage(f"s{i}", Kernel(f"s{i}", Grid(1), TINY)) for i in range(129)])


@pytest.mark.parametrize("tile", [(64, 64), (128, 128)])
def test_what_people_run_is_far_inside_the_bounds(tile: tuple[int, int]):
    for name in ("llama-mlp", "gpt3-mlp", "llama-mlp-three-gemms"):
        assert len(workload(name, 8192, tile).stages) >= 2
    chain = [Stage(f"g{i}", Gemm(f"g{i}", 8192, 8192, 8192, *tile)) for i in range(12)]
    Pipeline("chain", chain, [gemm_rows(*edge) for edge in pairwise(chain)])


@pytest.mark.parametrize("tile_ns", [2**40 + 1, 2**62, 2**63, 10**400, 1 << 100_000], ids=shown)
def test_times_that_would_not_fit_into_64_bits_are_refused(tile_ns: int):
    with pytest.raises(
        DescriptionError, match=r"tile_ns of first is .*; it must be at most 1,099,511,627,776 ns"
    ):
        CostModel({"first": tile_ns})
    with pytest.raises(DescriptionError, match=r"CostModel: post_ns is .*; it must be at most"):
        CostModel({"first": 1}, post_ns=tile_ns)


def test_the_longest_times_add_up_and_longer_ones_are_refused():
    def one_after_the_other(count: int) -> int:
        pipeline = Pipeline("long", [Stage("all", Kernel("all", Grid(count), WHOLE_SM))])
        return simulate(pipeline, StreamSync(), TOY.with_sm_count(1), zero_cost(pipeline, 2**40)).makespan_ns

    assert one_after_the_other(2**12) == 2**52
    with pytest.raises(DescriptionError, match="pipeline long takes 72,057,594,037,927,936 ns; at most"):
        one_after_the_other(2**16)
