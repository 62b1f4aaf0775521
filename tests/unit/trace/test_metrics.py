"""Metrics on traces whose SM time can be counted by hand."""

import pytest

from wavesim.costs.cost_model import CostModel, zero_cost
from wavesim.model.device import load
from wavesim.plan.order import ColumnMajor
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.sim.simulation import simulate
from wavesim.trace.metrics import busy_steps, kernel_phases, metrics_of, resident_steps
from wavesim.trace.trace import Trace
from wavesim.workloads.figure_one import TILE_NS, toy


def run(plan: Plan) -> Trace:
    return simulate(toy(), plan, load("toy"), zero_cost(toy(), TILE_NS))


def test_stream_sync_on_the_toy_is_four_waves_with_three_quarters_of_the_sms_busy():
    found = metrics_of(run(StreamSync()))
    assert (found.makespan_ns, found.waves) == (4_000, 4.0)
    assert (found.busy_utilisation, found.resident_utilisation) == (0.75, 0.75)
    assert found.tail_loss_ns == 1_000  # 4 of 16 tile times, as a mean over 4 SMs


def test_tile_semaphores_on_the_toy_leave_nothing_idle():
    found = metrics_of(run(SemaphoreSync(TileSync())))
    assert (found.makespan_ns, found.waves, found.busy_utilisation) == (3_000, 3.0, 1.0)
    assert found.tail_loss_ns == found.waiting_ns == found.launch_gap_ns == 0


def test_a_block_that_spins_is_resident_but_not_busy():
    found = metrics_of(run(SemaphoreSync(TileSync(), order=ColumnMajor())))
    assert found.makespan_ns == 3_500
    assert found.waiting_ns == 125  # one of four SMs for half a tile
    assert found.resident_utilisation - found.busy_utilisation == pytest.approx(125 / 3_500)


@pytest.mark.parametrize(
    "plan", [StreamSync(), SemaphoreSync(TileSync()), SemaphoreSync(RowSync(), order=ColumnMajor())]
)
def test_the_parts_of_the_makespan_add_up_to_it(plan: Plan):
    costs = CostModel({"gemm1": 1_000, "gemm2": 700}, boundary_ns=90, block_ns=30, wait_ns=20, post_ns=10)
    found = metrics_of(simulate(toy(), plan, load("toy"), costs))
    parts = found.busy_ns + found.tail_loss_ns + found.waiting_ns + found.starting_ns + found.launch_gap_ns
    assert parts == pytest.approx(found.makespan_ns)


def test_the_kernel_boundary_shows_as_a_launch_gap():
    costs = CostModel({"gemm1": 1_000, "gemm2": 1_000}, boundary_ns=300)
    trace = simulate(toy(), StreamSync(), load("toy"), costs)
    assert kernel_phases(trace) == [(0, 2_000), (2_300, 4_300)]
    assert metrics_of(trace).launch_gap_ns == 300


def test_waves_are_not_counted_where_tile_times_differ():
    trace = simulate(toy(), StreamSync(), load("toy"), CostModel({"gemm1": 1_000, "gemm2": 999}))
    assert metrics_of(trace).waves is None


def test_busy_steps_drop_while_a_block_waits_and_resident_steps_do_not():
    trace = run(SemaphoreSync(TileSync(), order=ColumnMajor()))
    times, busy = busy_steps(trace)
    assert dict(zip(times.tolist(), busy.tolist(), strict=True))[1_500] == 3.0
    times, resident = resident_steps(trace)
    at_1500 = resident[times.searchsorted(1_500, side="right") - 1]
    assert at_1500 == 4.0
