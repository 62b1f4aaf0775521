"""Differences between traces of one plan, taken apart."""

from dataclasses import replace

import pytest

from wavesim.costs.cost_model import CostModel
from wavesim.errors import RecordingError
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.prediction import predict_from_stream
from wavesim.recordings.shipped import cases
from wavesim.sim.simulation import simulate
from wavesim.trace.difference import explain_difference
from wavesim.trace.trace import Trace
from wavesim.workloads.figure_one import toy
from wavesim.workloads.mlps import gpt3_mlp

BASE = CostModel({"gemm1": 1_000, "gemm2": 1_000}, boundary_ns=100)


def run(costs: CostModel) -> Trace:
    return simulate(toy(), StreamSync(), load("toy"), costs)


def test_equal_traces_differ_by_nothing():
    found = explain_difference(run(BASE), run(BASE))
    assert found.total_ns == 0
    assert set(found.reasons.values()) == {0.0}


def test_a_longer_kernel_boundary_is_launch_and_nothing_else():
    found = explain_difference(run(BASE), run(replace(BASE, boundary_ns=350)))
    assert found.reasons == {"launch": 250.0, "waves": 0.0, "waiting": 0.0, "tile times": 0.0}


def test_slower_tiles_cost_their_own_time_and_that_of_the_emptier_slots_beside_them():
    found = explain_difference(run(BASE), run(BASE.with_tile_ns(gemm2=1_200)))
    assert found.total_ns == 400
    assert found.slower_tiles_ns == 300  # 6 tiles x 200 ns on 4 SMs
    assert found.waves_ns == 100
    assert (found.tile_work_ns == [0] * 6 + [200] * 6).all()


def test_the_reasons_always_add_up():
    plan = SemaphoreSync(TileSync())
    traces = [
        simulate(toy(), plan, load("toy"), costs)
        for costs in (BASE, CostModel({"gemm1": 900, "gemm2": 1_333}, wait_ns=70, block_ns=11, post_ns=5))
    ]
    found = explain_difference(*traces)
    assert sum(found.reasons.values()) == pytest.approx(found.total_ns)


def with_cycles(trace: Trace, per_ns: float) -> Trace:
    """As if measured at a clock, with as many cycles as that gives."""
    return replace(trace, cycles=((trace.end_ns - trace.start_ns) * per_ns).round().astype(int))


def test_a_lower_clock_is_told_from_more_cycles():
    calibration = with_cycles(run(BASE), 1.5)
    slow = run(BASE.with_tile_ns(gemm1=1_100, gemm2=1_100))
    by_clock = explain_difference(run(BASE), with_cycles(slow, 1.5 / 1.1), calibration).slower_tiles
    by_cycles = explain_difference(run(BASE), with_cycles(slow, 1.5), calibration).slower_tiles
    assert by_clock is not None
    assert by_cycles is not None
    assert (by_clock.clock_ns, by_clock.cycles_ns) == pytest.approx((300.0, 0.0), abs=1.0)
    assert (by_cycles.clock_ns, by_cycles.cycles_ns) == pytest.approx((0.0, 300.0), abs=1.0)


def test_more_company_on_an_sm_is_told_from_slower_tiles():
    h200, pipeline = load("h200"), gpt3_mlp(1024, (128, 128))
    costs = CostModel({"gemm1": 100_000, "gemm2": 50_000}, sharing=(1.0, 0.6), oldest_first_bias=(0.0, 0.15))
    predicted = simulate(pipeline, StreamSync(), h200, costs)
    # The same tiles, but the second kernel begins where the first one's last wave has left room.
    crowded = simulate(pipeline, SemaphoreSync(TileSync()), h200, costs)
    calibration = with_cycles(predicted, 1.5)
    found = explain_difference(predicted, with_cycles(crowded, 1.5), calibration)
    assert found.slower_tiles is not None
    assert found.slower_tiles.clock_ns == pytest.approx(0.0, abs=50.0)
    assert found.slower_tiles.sharing_ns == pytest.approx(found.slower_tiles_ns, rel=0.05)


def test_without_cycles_or_calibration_slower_tiles_are_not_split():
    slow = run(BASE.with_tile_ns(gemm2=1_200))
    assert explain_difference(run(BASE), slow).slower_tiles is None
    assert explain_difference(run(BASE), slow, run(BASE)).slower_tiles is None


def test_the_reasons_of_slower_tiles_add_up_in_a_recording():
    case = next(c for c in cases() if (c.tile, c.tokens, c.order) == ("128x128", 1280, "row"))
    stream, row = case.trace("stream"), case.trace("row")
    pipeline = gpt3_mlp(1280, (128, 128))
    predicted, _ = predict_from_stream(pipeline, SemaphoreSync(RowSync()), load("h200"), stream)
    found = explain_difference(predicted, row, stream)
    parts = found.slower_tiles
    assert parts is not None
    total = parts.sharing_ns + parts.clock_ns + parts.cycles_ns
    assert total == pytest.approx(found.slower_tiles_ns)
    assert sum(found.finest_reasons.values()) == pytest.approx(found.total_ns)
    assert list(found.finest_reasons)[-3:] == ["shared SM", "clock", "tile cycles"]
    assert abs(parts.cycles_ns) < 0.02 * row.makespan_ns


def test_traces_of_other_grids_are_refused_with_both_grids_named():
    other = simulate(toy(rows=4), StreamSync(), load("toy"), BASE)
    with pytest.raises(RecordingError, match=r"gemm1: grid \(2, 3, 1\) predicted, \(2, 4, 1\) measured"):
        explain_difference(run(BASE), other)
