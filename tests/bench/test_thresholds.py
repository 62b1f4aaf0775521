"""Thresholds and targets, held against the scores."""

from dataclasses import replace

from wavesim.bench.order_choice import OrderChoice, compared_orders
from wavesim.bench.policy_choice import PolicyChoice
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.bench.thresholds import Bound, Threshold, thresholds_of
from wavesim.predict.prediction import Measured
from wavesim.predict.score_history import SetScore
from wavesim.recordings.split import split_of

MLPS = SetScore("published-mlp", 12, 2.0, 4.0, sign_agreement=0.8)
CHOICE = PolicyChoice("published-mlp", 6, 0.83, 0.43, 6, 0)


def standings(found: list[Threshold], name: str) -> dict[str, str]:
    return {one.bound.figure: one.standing for one in found if one.name == name}


def test_a_figure_meets_its_target_or_only_its_threshold_or_neither():
    error, sign = Bound("error", 2.5, 1.5), Bound("sign", 0.85, 0.95, is_least=True)
    assert [error.standing(value) for value in (1.5, 1.51, 2.5, 2.51)] == [
        "target",
        "threshold",
        "threshold",
        "missed",
    ]
    assert [sign.standing(value) for value in (0.95, 0.94, 0.84)] == ["target", "threshold", "missed"]
    assert Bound("width", 4.0).standing(1.0) == "threshold"
    assert error.standing(None) == "not scored"


def test_scores_and_choices_are_held_against_every_threshold_of_their_set():
    found = standings(thresholds_of([MLPS], [CHOICE]), "published-mlp")
    assert found == {
        "median_abs_error_points": "threshold",
        "p90_abs_error_points": "target",
        "sign_agreement": "missed",
        "order_agreement": "threshold",
        "mean_regret_points": "target",
    }


def of_order(order: str, predicted: float, measured: float, noise: float = 0.2) -> ScoredPrediction:
    name = next(f"hopper M={i}" for i in range(100) if split_of(f"hopper M={i}") == "test")
    around = Measured(measured, measured - noise, measured + noise)
    facts = {"source": "judged", "kind": "some", "ceil_formula": 0.0, "time_error_percent": 0.0}
    return ScoredPrediction(
        f"{name} {order}",
        "row",
        name,
        predicted=predicted,
        measured=around,
        set_name="hopper-1-block",
        **facts,
    )


def test_of_two_orders_the_sign_of_what_one_gains_over_the_other_and_its_size_are_thresholds():
    right = compared_orders([of_order("row", 8.0, 9.0), of_order("grouped:4", 5.0, 5.5)])
    assert right == OrderChoice("hopper-orders", 1, 1.0, 1.0, 1)  # 3.0 more predicted, 3.5 measured
    wrong = compared_orders([of_order("row", 5.0, 9.0), of_order("grouped:4", 5.5, 5.5)])
    assert wrong == OrderChoice("hopper-orders", 1, 0.0, 0.0, 1)
    assert set(standings(thresholds_of([], [], wrong), "hopper-orders").values()) == {"missed"}
    assert compared_orders([of_order("row", 8.0, 9.0, 1.2), of_order("grouped:4", 5.0, 5.5)]) is None  # noisy
    assert compared_orders([of_order("row", 8.0, 9.0)]) is None


def test_only_larger_sets_have_to_beat_no_gain_and_counted_waves():
    large = SetScore(
        "own-kernel-times", 20, 2.0, 3.0, no_gain_median_points=4.0, ceil_formula_median_points=1.9
    )
    assert standings(thresholds_of([large], []), "own-kernel-times") == {"median_abs_error_points": "missed"}
    better = replace(large, ceil_formula_median_points=2.1)
    assert standings(thresholds_of([better], []), "own-kernel-times") == {
        "median_abs_error_points": "threshold"
    }
    assert standings(thresholds_of([replace(large, cases=19)], []), "own-kernel-times") == {}


def test_scripts_read_the_names_that_they_know():
    rows = thresholds_of([MLPS], [CHOICE])
    (found,) = [one for one in rows if (one.what, one.standing) == ("row or tile", "target")]
    assert found.json_object == {
        "what": "row or tile",
        "name": "published-mlp",
        "figure": "mean_regret_points",
        "value": 0.43,
        "must": 1.0,
        "aim": 0.5,
        "standing": "aim",
    }
