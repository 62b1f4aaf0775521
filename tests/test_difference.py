"""Differences between traces of one plan, taken apart."""

from dataclasses import replace

import pytest

from wavesim.analysis.difference import explain_difference
from wavesim.errors import RecordingError
from wavesim.model.device import load
from wavesim.model.plan import SemaphoreSync, StreamSync
from wavesim.model.policy import TileSync
from wavesim.sim.cost import CostModel
from wavesim.sim.simulation import simulate
from wavesim.trace import Trace
from wavesim.workloads.figure_one import toy

BASE = CostModel({"gemm1": 1_000, "gemm2": 1_000}, boundary_ns=100)


def run(costs: CostModel) -> Trace:
    return simulate(toy(), StreamSync(), load("toy"), costs)


def test_equal_traces_differ_by_nothing():
    found = explain_difference(run(BASE), run(BASE))
    assert found.total_ns == 0
    assert set(found.reasons.values()) == {0.0}


def test_a_longer_kernel_boundary_is_launch_and_nothing_else():
    found = explain_difference(run(BASE), run(replace(BASE, boundary_ns=350)))
    assert found.reasons == {"launch": 250.0, "waves": 0.0, "waiting": 0.0, "slower tiles": 0.0}


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


def test_traces_of_other_grids_are_refused_with_both_grids_named():
    other = simulate(toy(rows=4), StreamSync(), load("toy"), BASE)
    with pytest.raises(RecordingError, match=r"gemm1: grid \(2, 3, 1\) predicted, \(2, 4, 1\) measured"):
        explain_difference(run(BASE), other)
