"""Measuring the best tuned plans through a runner: in turns, beside the prediction, with the regret."""

from dataclasses import replace

import pytest

from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.sim.simulation import simulate
from wavesim.tuning.ranking import measure_best
from wavesim.tuning.search import tune
from wavesim.workloads.catalogue import workload

TOY, DEVICE = workload("toy"), load("toy")


class SlowRow:
    """A runner on which row semaphores take half as long again as predicted."""

    def measure(self, pipeline, plans, *, rounds=20):
        traces = []
        for plan in plans:
            trace = simulate(pipeline, plan, DEVICE, zero_cost(pipeline, 1_000))
            time_ns = trace.makespan_ns * 3 // 2 if plan.name == "row" else trace.makespan_ns
            traces.append(replace(trace, header=replace(trace.header, rounds_ns=(time_ns,) * rounds)))
        return traces


def test_the_best_few_are_measured_beside_stream_sync():
    tuning = tune(TOY, DEVICE).accepting("idle")
    measured = measure_best(tuning, SlowRow(), count=4)
    assert len(measured.plans) == 5
    assert measured.tuned == "row row"
    row = next(row for row in measured.plans if row.name == "row row")
    assert (row.predicted_points, row.measured_points.median, row.error_points) == (25.0, -12.5, 37.5)
    assert measured.regret_points == pytest.approx(50.0)
    assert "row row (tuned)" in measured.table()


def test_a_ranking_without_stream_sync_cannot_be_measured():
    tuning = tune(TOY, DEVICE)
    rows = tuple(row for row in tuning.plans if not row.plan.is_stream_sync)
    with pytest.raises(DescriptionError, match="no stream-sync plan to measure against"):
        measure_best(replace(tuning, plans=rows), SlowRow())
