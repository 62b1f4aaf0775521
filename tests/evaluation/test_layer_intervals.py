"""Intervals of layers: widths by hand, and the committed file beside the run that it was learnt on."""

import json

import pytest

from wavesim.evaluation.layer_blind_cases import all_cases
from wavesim.evaluation.layer_blind_scores import is_in_test_split
from wavesim.evaluation.layer_intervals import SpreadError, coverage, kinds_of
from wavesim.predict.intervals import LAYER_INTERVALS, committed_widths

NAMES = [case.name for case in all_cases()]
LEARNT = [name for name in NAMES if not is_in_test_split(name)]
TESTED = [name for name in NAMES if is_in_test_split(name)]


def test_widths_are_learnt_on_the_development_split_and_held_against_the_other():
    found = [SpreadError("own", name, 2.0, 1.0) for name in LEARNT]
    found += [SpreadError("own", name, -1.0 if i % 2 else 5.0, 1.0) for i, name in enumerate(TESTED)]
    kinds = kinds_of(found, "h200")
    assert kinds["own"].half_width_over_spread == pytest.approx(2.0)
    assert (kinds["own"].cases, kinds["own"].p90_abs_error_points) == (len(TESTED), 5.0)
    assert coverage(found, kinds) == pytest.approx((len(TESTED) // 2) / len(TESTED))


def test_without_a_split_all_cases_give_width_and_errors():
    found = [SpreadError("own", name, 2.0, 1.0) for name in (*LEARNT, *TESTED)]
    only = kinds_of(found, "h200", is_split=False)["own"]
    assert only.half_width_over_spread == pytest.approx(2.0)
    assert only.cases == len(LEARNT) + len(TESTED)


def test_the_committed_widths_of_layers_stand_beside_those_of_all_other_kinds():
    kinds = json.loads(LAYER_INTERVALS.read_text())["kinds"]
    assert set(kinds) == {
        "layer, device constants, pdl",
        "layer, device constants, semaphores by pdl",
        "layer, device constants, chained products, semaphores by pdl",
        "layer, device constants, chained products, persistent+pdl+row",
    }
    for kind in kinds:
        assert committed_widths().support(kind, "h200") == "here"
        assert committed_widths().support(kind, "h100") == "elsewhere"
    assert (
        committed_widths().support("layer, device constants, semaphores by pdl, chained", "h200") == "never"
    )
