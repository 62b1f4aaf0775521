"""Where the routing is not known: an interval that holds another draw's time in 8 of 10 cases."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import find_costs
from wavesim.predict.routings import over_routings, redrawn, time_of
from wavesim.workloads.decode_steps import decode_step
from wavesim.workloads.moe import moe_layer

H200, PLAN = load("h200"), parse_plan("persistent")


def costs(pipeline):
    return find_costs(pipeline, H200)


def test_the_interval_holds_about_eight_in_ten_other_draws():
    layer = moe_layer("deepseek-v2-lite", 4)
    interval = over_routings(layer, PLAN, H200, costs, draws=19)
    others = [time_of(redrawn(layer, seed), PLAN, H200, costs) for seed in range(20)]
    assert 0.5 <= sum(map(interval.holds, others)) / 20 <= 1.0
    assert interval.low_ns < interval.median_ns < interval.high_ns
    assert "in 8 of 10 (simulated, 19 draws)" in interval.text


def test_both_products_are_drawn_alike_and_known_counts_are_refused():
    layer = redrawn(moe_layer("mixtral-8x7b", 16), 5)
    assert layer.stage("gate_up").work.row_blocks == layer.stage("down").work.row_blocks
    known = moe_layer("mixtral-8x7b", 16, counts=(4,) * 8)
    for pipeline in (known, decode_step("qwen2.5-0.5b")):
        with pytest.raises(DescriptionError, match="no routing is drawn"):
            over_routings(pipeline, PLAN, H200, costs)
    with pytest.raises(DescriptionError, match="draws is 3"):
        over_routings(layer, PLAN, H200, costs, draws=3)
