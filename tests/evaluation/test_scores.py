"""The shipped measurements are predicted as well as we claim, and no score is worse than committed."""

import pytest

from wavesim.evaluation.interval_fit import half_widths
from wavesim.evaluation.scored_case import Prediction
from wavesim.evaluation.validation import all_predictions, scores, worse_sets
from wavesim.predict.intervals import committed_half_widths
from wavesim.predict.score_history import committed_scores

# Every stored measurement is predicted once, for all tests: two minutes of one core, more beside other work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def found() -> list[Prediction]:
    return all_predictions()


def test_row_semaphores_with_one_block_per_sm_are_predicted_within_a_point(found: list[Prediction]):
    score = next(score for score in scores(found) if score.name == "own-1-block-row")
    assert score.median_abs_error_points <= 1.0
    assert score.p90_abs_error_points <= 3.0


def test_replayed_tile_times_give_the_measured_makespan_within_one_percent(found: list[Prediction]):
    score = next(score for score in scores(found) if score.name == "own-replay")
    assert score.median_abs_error_points <= 0.5
    assert score.p90_abs_error_points <= 1.0


def test_the_scores_are_those_committed_and_none_is_worse(found: list[Prediction]):
    assert worse_sets(scores(found)) == []
    assert {score.name for score in scores(found)} == set(committed_scores())
    assert half_widths(found) == pytest.approx(committed_half_widths(), abs=0.05)


def test_every_set_of_20_or_more_beats_no_gain_and_the_ceil_formula(found: list[Prediction]):
    for score in scores(found):
        if score.cases >= 20 and not score.name.endswith("-replay"):
            rivals = (score.no_gain_median_points, score.ceil_formula_median_points)
            assert all(rival is not None and score.median_abs_error_points < rival for rival in rivals)


def test_published_rows_are_predicted_as_well_as_we_claim(found: list[Prediction]):
    by_name = {score.name: score for score in scores(found)}
    for name, median, p90 in (
        ("published-mlp-no-constants", 4.0, 10.0),
        ("published-mlp", 2.5, 7.0),
        ("published-resnet", 3.0, 9.0),
    ):
        assert by_name[name].median_abs_error_points <= median
        assert by_name[name].p90_abs_error_points <= p90
