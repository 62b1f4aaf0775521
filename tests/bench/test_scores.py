"""The shipped measurements are predicted as well as we claim, and the scores are those of the predictions."""

import json
import statistics
from dataclasses import asdict

import pytest

from wavesim.bench import validate_command
from wavesim.bench.blind_runs import find_runs
from wavesim.bench.claims import load_claims
from wavesim.bench.interval_fit import left_out, widths_of
from wavesim.bench.prediction_store import committed_predictions
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.bench.validation import scores, worse_sets
from wavesim.cli.command_line import main
from wavesim.predict.intervals import committed_widths
from wavesim.predict.score_history import committed_scores
from wavesim.recordings.published_rows import published_runs


def test_row_semaphores_with_one_block_per_sm_are_predicted_within_a_point(predicted: list[ScoredPrediction]):
    score = next(score for score in scores(predicted) if score.name == "own-1-block-row")
    assert score.median_abs_error_points <= 1.0
    assert score.p90_abs_error_points <= 3.0


def test_replayed_tile_times_give_the_measured_makespan_within_one_percent(predicted: list[ScoredPrediction]):
    score = next(score for score in scores(predicted) if score.name == "own-replay")
    assert score.median_abs_error_points <= 0.5
    assert score.p90_abs_error_points <= 1.0


def test_the_scores_are_those_committed_and_none_is_worse(predicted: list[ScoredPrediction]):
    assert worse_sets(scores(predicted)) == []
    assert {score.name for score in scores(predicted)} == set(committed_scores())
    found, committed = widths_of(predicted), committed_widths()
    # Those of layers and of convolutions are learnt from blind runs of their own.
    others = {
        kind: one for kind, one in committed.kinds.items() if not kind.startswith(("layer,", "convolutions,"))
    }
    assert set(found.kinds) == set(others)
    assert found.unseen == pytest.approx(committed.unseen, abs=0.1)
    for kind, one in others.items():
        assert found.kinds[kind].half_width_over_spread == pytest.approx(one.half_width_over_spread, abs=0.05)
        assert found.kinds[kind].devices == one.devices


# Missed thresholds, which `wavesim validate` and docs/the-model.md name too; whoever mends one takes it out.
NOT_HELD = {
    "device: v100",
    "family: foreign before-main-loop",
    "family: published CUTLASS",
    "family: published convolutions",
    "family: stream-k",
}


def test_intervals_hold_for_devices_and_kernels_that_they_were_not_learnt_on(
    predicted: list[ScoredPrediction],
):
    apart = left_out(predicted)
    assert {one.what.split(":")[0] for one in apart} == {"device", "family"}
    assert {one.what for one in apart if one.cases >= 20 and one.coverage < 0.7} == NOT_HELD
    claimed = {claim.name: claim.value for claim in load_claims()}
    known = [score for score in scores(predicted) if score.coverage is not None]
    families = [one for one in apart if one.what.startswith("family") and one.cases >= 20]
    assert (
        0.75 <= statistics.mean(one.coverage for one in families) <= 0.88
    )  # 80 % is promised, over families
    half = statistics.median(one.median_half_width_points for one in families)
    assert claimed["truth.width_new_kernel_median"] == round(2 * half, 1)
    least = min(one.coverage for one in apart if one.cases >= 20)
    assert claimed["truth.coverage_min"] == min(least, *(one.coverage for one in known if one.cases >= 20))


def test_every_set_of_20_or_more_beats_no_gain_and_the_ceil_formula(predicted: list[ScoredPrediction]):
    for score in scores(predicted):
        if score.cases >= 20 and not score.name.endswith("-replay"):
            rivals = (score.no_gain_median_points, score.ceil_formula_median_points)
            assert all(rival is not None and score.median_abs_error_points < rival for rival in rivals)


def test_published_rows_are_predicted_as_well_as_we_claim(predicted: list[ScoredPrediction]):
    by_name = {score.name: score for score in scores(predicted)}
    for name, median, p90 in (
        ("published-mlp-no-constants", 4.0, 10.0),
        ("published-mlp", 2.5, 7.0),
        ("published-resnet", 3.0, 9.0),
    ):
        assert by_name[name].median_abs_error_points <= median
        assert by_name[name].p90_abs_error_points <= p90


def test_validate_reports_the_committed_scores(monkeypatch, capsys):
    monkeypatch.setattr(validate_command, "run_each", lambda *_, **__: committed_predictions())
    assert main(["validate", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sets"] == [asdict(score) for score in committed_scores().values()]
    assert {run.split(":")[0] for run in document["judged_runs"]} == {run.name for run in find_runs()}


def test_published_rows_that_nothing_can_predict_are_flagged_by_name(predicted: list[ScoredPrediction]):
    flagged = {(run.case, run.policy) for run in published_runs("mlp") if run.beats_work_conservation}
    assert len(flagged) == 8
    assert ("V100 gpt3 M=2560", "row") in flagged
    found = [p for p in predicted if p.source in ("published-mlp", "published-unequal-tiles")]
    changed = {(run.case, run.policy) for run in published_runs("mlp") if not run.is_same_configuration}
    assert {(p.case, p.plan) for p in found if "a fully used" in p.outlier} == flagged - changed
    assert sum(not p.outlier for p in found) == 30
