"""A post is seen the later, the more semaphores a row of tiles has."""

from dataclasses import replace

import pytest

from wavesim.costs.cost_model import zero_cost
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.sim.simulation import simulate
from wavesim.workloads.figure_one import toy


@pytest.mark.parametrize(
    ("columns", "plan", "time_ns"),
    [(2, "pdl+row", 2_000), (2, "pdl+tile", 2_100), (4, "pdl+row", 2_000), (4, "pdl+tile", 2_200)],
)
def test_each_doubling_of_a_rows_semaphores_is_a_later_look(columns, plan, time_ns):
    pipeline = toy(rows=1, columns=columns)
    costs = replace(zero_cost(pipeline, 1_000), column_visibility_ns=100)
    assert simulate(pipeline, parse_plan(plan), load("toy"), costs).time_ns == time_ns


def test_without_semaphores_it_costs_nothing():
    pipeline = toy(rows=1, columns=4)
    costs = replace(zero_cost(pipeline, 1_000), column_visibility_ns=100)
    assert simulate(pipeline, parse_plan("stream"), load("toy"), costs).time_ns == 2_000
