"""Intervals: how wide each kind's are, what was never scored, and what is left out."""

from dataclasses import replace
from math import sqrt

import pytest
from made_up_predictions import made_up, named

from wavesim.bench.interval_fit import fitted_constants, left_out, unseen_over_seen, widths_of
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.bench.validation import scores
from wavesim.costs.cost_model import CostModel
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.predict.intervals import spread_points
from wavesim.predict.kinds import kernel_times_kind, trace_kind
from wavesim.sim.simulation import simulate
from wavesim.trace.header import StageInfo
from wavesim.workloads.mlps import gpt3_mlp


def test_only_the_test_half_is_scored_and_only_the_other_makes_intervals():
    seen, unseen = named("development", 10), named("test", 5)
    found = [made_up(case, "row", 1.0 + i, 1.0) for i, case in enumerate(seen)]
    found += [made_up(case, "row", 5.0, 3.0) for case in unseen]
    score = scores(found)[0]
    assert (score.cases, score.median_abs_error_points) == (5, 2.0)
    assert half_widths(found) == {"some": 8.0}  # 9 of the 10 errors 0 to 9 do not exceed 8
    assert (score.coverage, score.median_half_width_points) == (1.0, 8.0)


def test_where_constants_were_fitted_to_a_kinds_own_errors_its_intervals_are_wider():
    seen = named("development", 8)
    found = [made_up(case, "row", 1.0 + i, 1.0) for i, case in enumerate(seen)]
    kind = "kernel times, waits not said"
    assert fitted_constants()[kind] == 5
    plain, fitted = half_widths(found)["some"], half_widths([replace(p, kind=kind) for p in found])[kind]
    assert fitted == pytest.approx(plain * sqrt((8 + 4) / (8 - 4)), abs=0.01)
    assert unseen_over_seen(kind, 4) == sqrt(3)  # two constants at most of four sizes


def test_kinds_go_by_what_was_known_whose_kernels_they_are_and_what_shares_an_sm():
    stage = StageInfo("a", (8, 8, 1), 1, 256)
    kinds = [
        trace_kind("known", (replace(stage, **change), stage))
        for change in ({}, {"blocks_per_sm": 2}, {"blocks_per_sm": 4}, {"grid": (8, 8, 2)})
    ]
    several = "known, several blocks per SM"
    assert kinds == ["known, 1 block per SM", several, several, "known, split-K"]
    assert trace_kind("known", (stage, stage), "pdl") == "known, pdl"
    small, large = (gpt3_mlp(tokens, (128, 128)) for tokens in (64, 1024))
    v100 = load("v100")
    assert kernel_times_kind(large, v100, 1) == "kernel times, prefetched waits"
    assert kernel_times_kind(small, v100, 1) == "kernel times, prefetched waits, memory-bound"
    assert kernel_times_kind(large, v100, 3) == "kernel times, prefetched waits, 3 blocks per SM"


def half_widths(found: list[ScoredPrediction]) -> dict[str, float]:
    return {kind: one.half_width_over_spread for kind, one in widths_of(found).kinds.items()}


def test_what_was_never_scored_is_as_wide_as_the_widest_and_the_words_of_levels_go_by_device():
    found = [
        made_up(case, "row", 1.0 + error, 1.0, kind=f"kind {error}", family=f"family {error}", device="x")
        for split, last in (("development", 6), ("test", 5))
        for case in named(split, 5)
        for error in range(1, last)
    ]
    widths = widths_of(found)
    assert widths.unseen == 5.0
    assert widths.support("kind 5", "x") == "never"  # measured, but at no size that it was not learnt on
    assert [widths.support("kind 1", device) for device in ("x", "y")] == ["here", "elsewhere"]
    assert widths.support("kind 9", "x") == "never"
    here, elsewhere = (widths.half_width("kind 1", 1.0, device) for device in ("x", "y"))
    assert here < elsewhere == 5.0


def test_each_device_and_family_is_left_out_in_turn():
    seen, unseen = named("development", 5), named("test", 5)
    found = [
        made_up(case, "row", 1.0 + error, 1.0, kind=f"kind {name}", family=name, device=f"d{name}")
        for name, error in (("a", 1.0), ("b", 3.0))
        for case in [*seen, *unseen]
    ]
    apart = {one.what: one for one in left_out(found)}
    assert set(apart) == {"device: da", "device: db", "family: a", "family: b"}
    assert (apart["family: a"].coverage, apart["family: a"].median_half_width_points) == (1.0, 3.0)
    assert (apart["family: b"].coverage, apart["family: b"].median_half_width_points) == (0.0, 1.0)
    assert apart["family: b"].cases == 5


def test_a_measurement_within_the_scenarios_lies_inside_whatever_the_spread():
    one = made_up("case", "row", 5.0, 1.0)
    assert one.outside == 4.0
    assert replace(one, scenarios=(0.5, 6.0)).outside == 0.0
    assert replace(one, scenarios=(2.0, 6.0)).outside == 1.0


def test_an_interval_is_wider_where_a_start_weighs_more_and_where_sms_stand_idle():
    device = load("h200")
    costs = CostModel({"gemm1": 160_000, "gemm2": 85_000})
    spreads = []
    for tokens, order in ((3_072, "grouped:4"), (768, "grouped:4"), (768, "grouped:8")):
        pipeline = gpt3_mlp(tokens)
        trace = simulate(pipeline, parse_plan("row", order), device, costs)
        spreads.append(spread_points(trace, 0.0))
    assert spreads == sorted(spreads)
    assert spreads[2] > 1.2 * spreads[0]
    slowed = replace(trace, header=replace(trace.header, costs={"memory": {"slower_percent": 10.0}}))
    assert spread_points(slowed, 0.0) ** 2 == pytest.approx(spreads[2] ** 2 + 4.0)


def test_each_size_weighs_the_same_in_an_interval_whatever_its_number_of_cases():
    seen = named("development", 9)
    found = [made_up(case, "row", 1.0 + i, 1.0) for i, case in enumerate(seen)]
    often = [made_up(seen[0], f"plan {i}", 1.0, 1.0) for i in range(100)]
    assert half_widths([*found, *often]) == half_widths(found) == {"some": 7.0}
    wide = [replace(p, spread=2.0) for p in found]
    assert half_widths(wide) == {"some": 3.5}
