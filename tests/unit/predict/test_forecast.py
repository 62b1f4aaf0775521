"""A forecast says what it rests on, and claims "8 times in 10" only where that was counted."""

import json

import pytest

from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.predict.defaults import find_costs
from wavesim.predict.forecast import Forecast, forecast_of
from wavesim.predict.intervals import committed_widths
from wavesim.trace.trace import Trace
from wavesim.workloads.mlps import gpt3_mlp

SCORED = "stream-sync trace, prefetched waits, 1 block per SM"
KEYS = ("low", "high", "scored", "support", "interval", "basis", "defaults", "caveats", "history")


@pytest.fixture(scope="module")
def trace() -> Trace:
    pipeline, device = gpt3_mlp(512), load("h200")
    return find_costs(pipeline, device).simulated(pipeline, SemaphoreSync(RowSync()), device)


def test_only_a_kind_that_was_scored_on_this_device_claims_a_rate(trace: Trace):
    here, elsewhere, never = (
        forecast_of(5.0, trace, kind, device)
        for kind, device in ((SCORED, "NVIDIA H200"), (SCORED, "h100"), ("kernel times, of nobody", "h200"))
    )
    assert (here.support, elsewhere.support, never.support) == ("here", "elsewhere", "never")
    assert [one.scored for one in (here, elsewhere, never)] == [True, False, False]
    assert "8 times in 10" in here.text
    for other in (elsewhere, never):
        assert "8 times in 10" not in other.text
        assert "a wide guess" in other.text
        assert other.high - other.low > here.high - here.low
    assert f"over {committed_widths().kinds[SCORED].cases} plans measured on h200" in here.history
    assert "none of them on this device" in elsewhere.history
    assert "ever scored" in never.history


def test_kernels_of_no_named_backend_have_the_width_of_kernels_that_nobody_scored(trace: Trace):
    kind = "kernel times, waits not said, semaphores by pdl"
    widths = committed_widths()
    assert widths.kinds[kind].half_width_over_spread < widths.unseen
    users = forecast_of(5.0, trace, kind, "h200")
    never = forecast_of(5.0, trace, "kernel times, of nobody", "h200")
    assert (users.low, users.high) == (never.low, never.high)
    ours = forecast_of(5.0, trace, "kernel times, hopper", "h200")
    assert ours.high < users.high


def test_its_json_carries_all_that_belongs_beside_a_prediction(trace: Trace):
    found = forecast_of(
        5.0, trace, SCORED, "h200", basis="a run", defaults=("a constant",), caveats=("so so",)
    )
    document = json.loads(json.dumps(found.as_json()))
    assert all(key in document for key in KEYS)
    assert (document["improvement_points"], document["basis"]) == (5.0, "a run")
    assert (document["defaults"], document["caveats"]) == (["a constant"], ["so so"])
    assert document["low"] < 5.0 < document["high"]


def test_the_interval_spans_what_is_unknown_and_says_how_much_wider_that_makes_it(trace: Trace):
    known = forecast_of(5.0, trace, SCORED, "h200")
    asked = {"waits at block barriers": 2.0, "waits before the main loop": 5.0}
    found = forecast_of(5.0, trace, SCORED, "h200", alternatives=asked)
    assert found.low == pytest.approx(known.low - 3.0)
    assert found.high == known.high
    assert found.caveats == ("waits at block barriers: +2.0 points; not knowing widens the interval by 3.0",)


def test_stream_sync_has_no_interval_as_the_others_are_compared_with_it():
    pipeline, device = gpt3_mlp(512), load("h200")
    known = find_costs(pipeline, device)
    found = known.forecast(known.simulated(pipeline, StreamSync(), device), 0.0)
    assert (found.points, found.low, found.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("points", "low", "kind", "needed"),
    [(2.0, -1.0, "a", 1.5), (2.0, -4.0, "a", 3.0), (0.5, 0.0, "a", 1.0), (2.0, -4.0, "", 1.0)],
)
def test_a_plan_is_run_for_a_point_at_least_and_half_of_what_its_interval_reaches_down(
    points, low, kind, needed
):
    found = Forecast(points=points, low=low, high=9.0, kind=kind)
    assert found.needed_points == pytest.approx(needed)
    assert found.is_worth_it == (points >= needed)
