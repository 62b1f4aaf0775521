"""Calibration gives back the costs a trace was made with, from the stream-sync run alone."""

from dataclasses import replace

import numpy as np
import pytest
from recorded import pretended

from wavesim.bench.blind_sizes import BlindSize
from wavesim.costs.calibration import calibrate
from wavesim.costs.calibration_checks import contradictions
from wavesim.costs.calibration_text import kernel_times_text, trace_text
from wavesim.costs.cost_model import CostModel, zero_cost
from wavesim.costs.device_costs import costs_of, without_constants
from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import plan_data
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.stream_k import StreamK
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.prediction import as_built, sustained_points
from wavesim.sim.simulation import simulate
from wavesim.trace.regimes import Regimes
from wavesim.trace.trace import Trace
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.figure_one import toy
from wavesim.workloads.mlps import gpt3_mlp


def rows_of(trace: Trace, keep: np.ndarray) -> Trace:
    names = ("stage", "x", "y", "z", "sm", "slot", "issue_ns", "start_ns", "wait_ns", "end_ns")
    return replace(trace, waits=None, **{name: getattr(trace, name)[keep] for name in names})


def test_one_block_per_sm_gives_back_tile_times_and_kernel_boundary():
    costs = CostModel({"gemm1": 151_000, "gemm2": 80_500}, boundary_ns=1_700)
    found = calibrate(simulate(gpt3_mlp(1024), StreamSync(), load("h200"), costs))
    assert found.tile_ns == {"gemm1": 151_000, "gemm2": 80_500}
    assert (found.boundary_ns, found.sharing) == (1_700, (1.0,))


@pytest.mark.parametrize(("speed", "bias"), [(0.55, 0.0), (0.565, 0.16), (0.7, 0.1), (0.9, 0.05)])
def test_two_blocks_per_sm_give_back_both_speeds_on_a_shared_sm(speed: float, bias: float):
    costs = CostModel(
        {"gemm1": 100_000, "gemm2": 52_000}, sharing=(1.0, speed), oldest_first_bias=(0.0, bias)
    )
    pipeline = gpt3_mlp(1024, (128, 128))
    found = calibrate(simulate(pipeline, StreamSync(), load("h200"), costs))
    assert found.sharing == pytest.approx((1.0, speed), abs=0.002)
    assert found.oldest_first_bias == pytest.approx((0.0, bias), abs=0.003)
    assert found.tile_ns["gemm1"] == pytest.approx(100_000, rel=0.002)


def test_four_blocks_per_sm_of_which_hardly_one_is_ever_alone_tell_their_speeds():
    sharing, biases = costs_of("h200").law.speeds(0.47, 4), (0.0, 0.0, 0.0, 0.15)
    costs = CostModel({"gemm1": 100_000, "gemm2": 52_000}, sharing=sharing, oldest_first_bias=biases)
    size = BlindSize("portable", "gpt3-mlp", 300, ((64, 64), (64, 64)))
    stream = simulate(size.pipeline(), StreamSync(), load("h200"), costs)
    assert Regimes.of(stream, 4).shares[0] < 0.02
    found = calibrate(stream)
    assert found.sharing == pytest.approx(sharing, rel=0.03)
    assert found.oldest_first_bias[3] == pytest.approx(0.15, abs=0.01)


def test_each_block_keeps_its_own_work_where_that_is_asked_for():
    times = [150_000 + 10 * i for i in range(192)]
    costs = CostModel({"gemm1": times, "gemm2": 80_000})
    found = calibrate(simulate(gpt3_mlp(1024), StreamSync(), load("h200"), costs), per_block=True)
    assert found.tile_ns == {"gemm1": times, "gemm2": [80_000] * 384}


def test_the_time_between_two_blocks_of_an_sm_is_found_and_is_no_part_of_the_boundary():
    costs = CostModel({"gemm1": 150_000, "gemm2": 80_000}, block_ns=1_440, boundary_ns=200)
    trace = simulate(gpt3_mlp(1024), StreamSync(), load("h200"), costs)
    found = calibrate(trace)
    assert (found.block_ns, found.boundary_ns) == (1_440, 200)
    assert found.tile_ns == {"gemm1": 150_000, "gemm2": 80_000}
    assert (
        found.setup_ns == costs_of("h200").overheads["setup_ns"] - 1_440
    )  # measured up to a block's first instruction
    assert "0.2 us between kernels and 1.4 between two blocks of an SM;" in trace_text(trace, found)


@pytest.mark.parametrize("slices", [2, 3])
def test_what_adding_slices_costs_is_found_and_no_slice_keeps_it_as_its_own(slices: int):
    plain = gpt3_mlp(400)
    first, second = (Stage(s.name, replace(s.gemm, split_k=slices)) for s in plain.stages)
    pipeline = Pipeline("split", [first, second], [gemm_rows(first, second)])
    tile_ns = {
        stage.name: [50_000 + 10 * i for i in range(stage.grid.tiles)] * slices for stage in pipeline.stages
    }
    costs = CostModel(tile_ns, partial_ns=2_000, sums_ns={"gemm1": 6_000, "gemm2": 5_000})
    trace = simulate(pipeline, StreamSync(), load("h200"), costs)
    found = calibrate(trace, per_block=True)
    assert found.tile_ns == tile_ns
    assert (found.partial_ns, found.sums_ns) == (2_000, {"gemm1": 6_000, "gemm2": 5_000})
    assert ", 6.0 us to add a split of gemm1, 5.0 us to add" in trace_text(trace, found)


def test_an_overlapped_run_is_refused_because_it_is_what_is_to_be_predicted():
    costs = CostModel({"gemm1": 151_000, "gemm2": 80_500})
    trace = simulate(gpt3_mlp(512), SemaphoreSync(RowSync()), load("h200"), costs)
    with pytest.raises(RecordingError, match="plan 'row'; calibrate on a stream-sync trace"):
        calibrate(trace)


def test_a_partial_trace_is_refused_with_the_stage_and_both_counts():
    trace = pretended(512, "stream")
    with pytest.raises(RecordingError, match="gemm1: 95 blocks of 95 tiles recorded, its grid has 96"):
        calibrate(rows_of(trace, np.arange(len(trace)) != 17))


def test_a_tile_recorded_twice_in_place_of_another_is_refused():
    trace = pretended(512, "stream")
    x = trace.x.copy()
    x[3] = x[4]
    with pytest.raises(RecordingError, match="gemm1: 96 blocks of 95 tiles"):
        calibrate(replace(trace, x=x))


def test_tiles_too_short_for_the_clock_that_stamped_them_are_refused():
    trace = pretended(512, "stream")
    coarse = replace(trace, header=replace(trace.header, timer_step_ns=32_000))
    with pytest.raises(RecordingError, match="the clock steps by 32000 ns"):
        calibrate(coarse)


def test_kernel_times_give_tile_times_at_which_each_kernel_takes_its_time():
    pipeline, device = gpt3_mlp(1024, (128, 128)), load("h200")
    given = {"gemm1": 400_000, "gemm2": 390_000}
    costs = costs_from_kernel_times(pipeline, device, given)
    trace = simulate(pipeline, StreamSync(), device, replace(costs, boundary_ns=0))
    assert trace.makespan_ns == pytest.approx(790_000, rel=1e-3)
    assert costs.oldest_first_bias == (0.0, costs_of("h200").law.oldest_first_bias)


def test_a_stage_without_a_time_is_named():
    with pytest.raises(DescriptionError, match="stage 'gemm2' has no time"):
        costs_from_kernel_times(gpt3_mlp(1024), load("h200"), {"gemm1": 400_000})


def test_a_kernel_faster_than_the_peak_is_flagged_with_both_rates():
    flags = contradictions(gpt3_mlp(1024), load("h200"), {"gemm1": 100_000, "gemm2": 400_000})
    assert len(flags) == 1
    assert flags[0].startswith("gemm1 is said to reach 1546 TFLOP/s, above the h200's peak of 989; check")
    assert contradictions(gpt3_mlp(1024), load("h200"), {"gemm1": 400_000, "gemm2": 400_000}) == ()


def test_a_power_limited_clock_takes_back_part_of_what_is_saved_and_of_what_is_lost():
    assert sustained_points(20.0, 0.0) == pytest.approx(20.0)
    assert sustained_points(20.0, 0.25) == pytest.approx(100 * (1 - 0.8**0.75))
    assert -10.0 < sustained_points(-10.0, 0.25) < 0.0


def test_a_calibration_says_what_it_used_and_what_it_left_at_default():
    trace = pretended(1024, "stream")
    words = trace_text(trace, calibrate(trace))
    assert words.startswith(
        "used: tile times of 192 and 384 blocks, 1.6 us between kernels; left at the default:"
    )
    assert "poll 0.9 us" in words
    assert words.endswith("left out: L2 and DRAM")
    memory = costs_of("h200").memory
    assert memory is not None
    behind = (gpt3_mlp(1024), memory)
    assert trace_text(trace, calibrate(trace, behind=behind)).endswith("an L2 of 36 MB and 4.4 TB/s")
    times = {"gemm1": 400_000, "gemm2": 390_000}
    v100, b200 = load("v100"), load("b200")
    small = gpt3_mlp(1024, (128, 128))
    assert "constants of the device: wait 1.75 us" in kernel_times_text(
        v100, costs_from_kernel_times(small, v100, times)
    ).replace("tile fetch 0 us, poll 0 us, ", "")
    assert (
        "not measured on this device: overheads, kernel times, sharing, clock, as on h200 ("
        in kernel_times_text(b200, costs_from_kernel_times(small, b200, times))
    )


def test_a_kernel_shorter_than_its_launch_is_refused():
    with pytest.raises(DescriptionError, match="'gemm1' is said to take 500 ns; its launch alone takes 3000"):
        costs_from_kernel_times(gpt3_mlp(1024), load("v100"), {"gemm1": 500, "gemm2": 400_000})


def test_tile_semaphores_run_the_consumers_of_a_faster_build_and_only_those_where_that_was_seen():
    costs = CostModel({"gemm1": 100_000, "gemm2": 50_000})
    size = BlindSize("portable", "gpt3-mlp", 640, ((128, 256), (128, 256)))
    built = as_built(costs, size.pipeline(), SemaphoreSync(TileSync()), costs_of("h200"))
    assert built.tile_ns["gemm1"] == 100_000
    assert set(built.tile_ns["gemm2"]) == {49_500}
    other = replace(size, kernels="hopper-per-tile")
    for pipeline, plan in (
        (size.pipeline(), SemaphoreSync(RowSync())),
        (size.pipeline(), StreamSync()),
        (other.pipeline(), SemaphoreSync(TileSync())),
        (replace(size, split_k=(2, 2)).pipeline(), SemaphoreSync(TileSync())),
    ):
        assert as_built(costs, pipeline, plan, costs_of("h200")) == costs


def test_what_a_backend_costs_depends_on_the_schedule_of_its_stream_sync_trace():
    known, pipeline = costs_of("h200"), BlindSize("hopper", "gpt3-mlp", 640, ((128, 256),) * 2).pipeline()
    persistent, tile = (known.backend(pipeline, word).overheads for word in ("persistent", "tile"))
    assert "prologue_epilogue_ns" in tile
    assert "prologue_epilogue_ns" not in persistent  # hidden where a block goes on with another tile
    assert persistent["post_ns"] == tile["post_ns"]
    first, second = pipeline.stages
    mixed = [first, replace(second, backend="")]
    unnamed = Pipeline("mixed", mixed, [gemm_rows(*mixed)])
    assert known.backend(unnamed, "tile").overheads == known.backend(pipeline, "stream-k").overheads == {}


def test_a_trace_of_persistent_kernels_on_one_stream_can_be_calibrated_on_and_stream_k_cannot():
    stream = simulate(toy(), StreamSync(), load("toy"), zero_cost(toy(), 1_000))
    for plan, is_fine in ((Plan(Persistent()), True), (Plan(StreamK()), False)):
        header = replace(stream.header, plan=plan.name, plan_data=plan_data(plan))
        trace = replace(stream, header=header)
        if is_fine:
            assert calibrate(trace).tile_ns == calibrate(stream).tile_ns
        else:
            with pytest.raises(RecordingError, match="trace of plan 'stream-k'"):
                calibrate(trace)


def test_kernel_times_on_a_device_with_a_memory_give_tile_times_at_an_idle_dram():
    v100 = load("v100")
    block = Block(threads=256, registers=200, dynamic_shared_bytes=65_536)
    gemms = Gemm("gemm1", 1536, 6144, 12288, 256, 256), Gemm("gemm2", 1536, 12288, 6144, 256, 256)
    first, second = (Stage(gemm.name, replace(gemm, block=block)) for gemm in gemms)
    small = Pipeline("mlp", [first, second], [gemm_rows(first, second)])
    times = {"gemm1": 1_460_000, "gemm2": 1_560_000}
    behind = costs_from_kernel_times(small, v100, times)
    assert behind.memory == costs_of("v100").memory
    without = costs_from_kernel_times(small, v100, times, replace(costs_of("v100"), memory=None))
    assert without.memory is None
    for stage in small.stages:
        assert behind.tile_ns[stage.name] <= without.tile_ns[stage.name]
        alone = simulate(Pipeline(stage.name, [stage]), StreamSync(), v100, behind)
        assert alone.makespan_ns == pytest.approx(times[stage.name] - 3_000, rel=0.01)


def test_kernels_that_are_bound_by_memory_share_it_as_they_share_an_sm():
    v100, tiny = load("v100"), gpt3_mlp(16, (128, 128))
    times = {"gemm1": 205_000, "gemm2": 190_000}
    assert costs_from_kernel_times(tiny, v100, times).memory is None
    assert costs_from_kernel_times(gpt3_mlp(1024), load("h200"), times).memory == costs_of("h200").memory


def test_weights_of_tiles_are_kept_and_scaled_to_the_kernels_time():
    first, second = (Stage(name, Kernel(name, Grid(4, 2), Block(1024, 32))) for name in ("qk", "pv"))
    pipeline = Pipeline("causal", [first, second], [Dependency(second[x, y], [first[:, y]])])
    device, times = load("toy"), {"qk": 30_000, "pv": 60_000}
    weights = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    costs = costs_from_kernel_times(
        pipeline, device, times, without_constants(), tile_weights={"qk": weights}
    )
    assert costs.tile_ns["qk"] == [10_000] * 4 + [20_000] * 4
    assert costs.tile_ns["pv"] == 30_000


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"softmax": [1.0]}, "no stage 'softmax'; causal has"),
        ({"qk": [1.0, 2.0]}, "2 for 'qk'; its grid has 8 blocks, give one each"),
        ({"qk": [0.0] * 8}, "those of 'qk' must be finite numbers above 0"),
        ({"qk": [float("nan")] * 8}, "those of 'qk' must be finite numbers above 0"),
    ],
)
def test_weights_that_are_not_one_above_zero_per_block_are_refused(weights, words):
    stages = [Stage(name, Kernel(name, Grid(4, 2), Block(1024, 32))) for name in ("qk", "pv")]
    with pytest.raises(DescriptionError, match=words):
        costs_from_kernel_times(
            Pipeline("causal", stages, []), load("toy"), {"qk": 9_000, "pv": 9_000}, tile_weights=weights
        )
