"""Published rows: their kernels, what their consumers wait for, and what differs from their baseline."""

import pytest

from wavesim.bench.clock_states import clock_ratio, fastest_share
from wavesim.bench.published_cases import points_by_split
from wavesim.costs.device_costs import costs_of, with_host_sync
from wavesim.errors import DescriptionError
from wavesim.model.kernel import MainLoop
from wavesim.model.stage import Stage
from wavesim.plan.resolved import resolve
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.prediction import predict_from_kernel_times
from wavesim.recordings.published_kernels import KernelChoice, conv_chain
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.sim.simulation import simulate
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows, rows_read


def run_of(operation: str, case: str, policy: str) -> PublishedRun:
    return next(run for run in published_runs(operation) if (run.case, run.policy) == (case, policy))


def test_a_chain_has_four_convolutions_and_each_reads_the_one_before():
    runs = published_runs("chain")
    assert len(runs) == 36
    assert {run.case for run in runs} == {
        f"V100 vgg C={channels} B={images}"
        for channels in (256, 512)
        for images in (1, 4, 8, 12, 16, 20, 24, 28, 32)
    }
    pipeline = run_of("chain", "V100 vgg C=512 B=4", "row").pipeline
    assert [stage.name for stage in pipeline.stages] == ["conv1", "conv2", "conv3", "conv4"]
    assert [str(pipeline.dependency_of(f"conv{i}")) for i in (2, 3, 4)] == [
        f"conv{i}[x, y] needs conv{i - 1}[:8, y]" for i in (2, 3, 4)
    ]
    assert sum(run_of("chain", "V100 vgg C=512 B=4", "row").kernel_ns.values()) == 218_220


def test_under_tile_semaphores_a_convolution_checks_the_first_tile_twice_and_a_row_once():
    for policy, checks in (("row", 1), ("tile", 2)):
        run = run_of("conv", "V100 resnet C=64 B=4", policy)
        waits = resolve(run.pipeline, run.plan).stages[1].waits(0)
        assert [wait.semaphore for wait in waits] == [0] * checks


def test_a_slice_of_a_convolution_awaits_the_channel_tiles_that_its_length_reaches():
    kernel = KernelChoice(64, 64, 32, 32, 32, 32, stages=2, split_k=4)
    chain = conv_chain("resnet", 512, 196, [kernel, kernel], is_tile=True)
    assert str(chain.dependency_of("conv2")) == "conv2[x, y] needs conv1[:2, y]"
    whole = conv_chain("resnet", 512, 196, [kernel, kernel])
    assert str(whole.dependency_of("conv2")) == "conv2[x, y] needs conv1[:8, y]"


def test_a_further_check_costs_a_wait():
    row, tile = (run_of("conv", "V100 resnet C=64 B=1", policy) for policy in ("row", "tile"))
    known = with_host_sync(costs_of("v100"))
    costs = costs_from_kernel_times(row.pipeline, row.device, row.kernel_ns, known)
    ends = [simulate(run.pipeline, run.plan, run.device, costs).makespan_ns for run in (row, tile)]
    assert 0 < ends[1] - ends[0] <= known.overheads["ready_poll_ns"]  # others compute meanwhile


def test_checks_are_counted_from_one():
    with pytest.raises(DescriptionError, match="first_checks is 0; it must be an integer of at least 1"):
        MainLoop(first_checks=0)


def test_tiles_of_unequal_heights_read_the_rows_that_overlap_theirs():
    first = Stage("gemm1", Gemm("gemm1", 768, 512, 64, 160, 128))
    second = Stage("gemm2", Gemm("gemm2", 768, 256, 512, 128, 128))
    assert str(rows_read(first, first)) == "y"
    needs = gemm_rows(first, second)
    rows = [sorted({y for _, (_, y) in needs.producer_tiles(0, row)}) for row in range(6)]
    assert rows == [[0], [0, 1], [1, 2], [2, 3], [3], [4]]


def test_llama_in_tiles_of_unequal_heights_is_described_and_predicted():
    run = run_of("mlp", "A100 llama M=768", "row")
    assert run.has_unequal_tiles
    assert [stage.gemm.tile_m for stage in run.pipeline.stages] == [160, 128]
    for policy in ("row", "tile"):
        one = run_of("mlp", "A100 llama M=768", policy)
        _, points = predict_from_kernel_times(one.pipeline, one.plan, one.device, one.kernel_ns)
        assert points == pytest.approx(one.improvement_points, abs=4)


def test_a_baseline_tells_the_clock_that_it_ran_at():
    low = 1_095 / 1_410
    slow, fast = (run_of("mlp", f"A100 gpt3 M={tokens}", "row") for tokens in (1_536, 3_072))
    assert clock_ratio(slow) == pytest.approx(low)
    assert 0.95 * low < fastest_share(slow) < low
    assert fastest_share(fast) > 1.15 * low
    assert clock_ratio(fast) is None
    assert clock_ratio(run_of("mlp", "V100 gpt3 M=1024", "row")) is None


def test_where_only_the_split_differs_the_tiles_of_the_plan_are_told_from_the_baselines():
    assert run_of("mlp", "V100 llama M=512", "row").has_other_split
    assert not run_of("mlp", "V100 gpt3 M=1024", "row").has_other_split
    assert not run_of("mlp", "A100 llama M=2048", "row").has_other_split  # other tiles too
    row = run_of("mlp", "V100 llama M=512", "row")
    assert points_by_split(row, costs_of("v100")) == pytest.approx(-25.9, abs=0.1)
    assert row.improvement_points == pytest.approx(-25.7, abs=0.1)
