"""Scores: recomputed from measurements, changed by a changed one, failing when worse."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from made_up_predictions import made_up, named
from recorded import pretended, write_case

from wavesim.bench import validation
from wavesim.bench.blind_sizes import all_sizes
from wavesim.bench.policy_choice import policy_choices
from wavesim.bench.scored_case import by_ceil_formula, ceil_formula
from wavesim.bench.validation import outliers, predictions, scores, worse_sets
from wavesim.errors import RecordingError
from wavesim.model.device import load
from wavesim.plan.parsing import parse_plan
from wavesim.predict.prediction import (
    measured_improvement,
    predict_from_stream,
    replay,
)
from wavesim.predict.score_history import SetScore
from wavesim.recordings.published_rows import published_runs
from wavesim.recordings.shipped import cases
from wavesim.recordings.sketches import sketch_cases
from wavesim.recordings.split import committed_split, split_of
from wavesim.trace.trace import Trace
from wavesim.workloads.mlps import gpt3_mlp

IN_TEST_HALF = 1024  # tokens of "gpt3-mlp 128x256", by its hash
IN_STEP = "grouped:4"  # an order in which tiles as fast as the pretended ones ask little of DRAM


def test_runs_with_unequal_rounds_are_not_compared():
    stream, row = pretended(512, "stream"), pretended(512, "row")
    short = replace(row, header=replace(row.header, rounds_ns=row.header.rounds_ns[:7]))
    with pytest.raises(RecordingError, match="7 and 20 rounds"):
        measured_improvement(short, stream)


def test_cases_are_found_by_file_name_and_a_stray_name_is_an_error(tmp_path: Path):
    write_case(tmp_path, 512, "grouped:8")
    (case,) = cases(tmp_path)
    assert (case.tokens, case.order, sorted(case.paths)) == (512, "grouped:8", ["row", "stream", "tile"])
    (tmp_path / "h200" / "stray.npz").touch()
    with pytest.raises(RecordingError, match=r"stray\.npz"):
        cases(tmp_path)


def test_a_world_that_behaves_like_the_model_is_predicted_and_replayed_exactly(tmp_path: Path):
    write_case(tmp_path, IN_TEST_HALF, IN_STEP)
    found = [p for p in predictions(tmp_path) if p.source == "own"]
    assert [p.plan for p in found] == ["row", "tile"]
    assert [p.error for p in found] == pytest.approx([0.0, 0.0], abs=0.15)  # its clock does not move
    assert found[0].replay_error_percent == pytest.approx(0.0, abs=0.2)  # it leaves out what a wait costs


def test_a_perturbed_recording_changes_the_score(tmp_path: Path):
    write_case(tmp_path, IN_TEST_HALF, IN_STEP)
    before = scores(predictions(tmp_path))[0]
    path = next(tmp_path.glob("*/*_row.npz"))
    trace = Trace.load(path)
    slower = tuple(int(time * 1.05) for time in trace.header.rounds_ns)
    replace(trace, header=replace(trace.header, rounds_ns=slower)).save(path)
    after = scores(predictions(tmp_path))[0]
    assert after.p90_abs_error_points > before.p90_abs_error_points + 3.0


def test_the_ceil_formula_counts_waves():
    stream = pretended(1024, "stream")  # 192 and 384 blocks on 132 SMs: 1.45 and 2.91 waves
    assert ceil_formula(stream) == pytest.approx(0.0)  # ceil(4.36) = 5 = 2 + 3
    assert by_ceil_formula([96, 96], [80, 80]) == pytest.approx(25.0)  # ceil(2.4) = 3 of 2 + 2


def test_a_score_that_gets_worse_or_loses_cases_is_named(monkeypatch: pytest.MonkeyPatch):
    old = SetScore("own-all", 10, 1.0, 3.0)
    monkeypatch.setattr(validation, "committed_scores", lambda: {"own-all": old})
    assert worse_sets([old]) == []
    assert worse_sets([replace(old, median_abs_error_points=1.2)]) == [
        "own-all: median_abs_error_points is 1.2, was 1.0"
    ]
    assert worse_sets([replace(old, cases=9)]) == ["own-all: 9 cases, were 10"]
    assert worse_sets([]) == ["own-all: no cases, were 10"]


def test_a_replay_refuses_kernels_that_are_not_those_of_the_recording():
    with pytest.raises(RecordingError, match="gemm1: grid and blocks per SM"):
        replay(gpt3_mlp(1280), pretended(1024, "row"), load("h200"))


def test_the_committed_split_is_the_hash_of_every_stored_case():
    split = committed_split()
    own = {f"{case.workload} {case.tile} M={case.tokens}" for case in cases()}
    published = {run.case for operation in ("mlp", "conv", "chain") for run in published_runs(operation)}
    sketches = {case.group for case in sketch_cases()}
    assert published | sketches | {size.name for size in all_sizes()} <= set(split)
    assert {name: split_of(name) for name in split} == split
    assert {split_of(name) for name in own} == {"development", "test"}
    for name in ("gpt3-mlp 128x256 M=1024", "gpt3-mlp 128x256 M=1536"):
        assert (split_of(name) == "test") == (sha256(name.encode()).digest()[0] % 2 == 1)


def test_an_outlier_is_named_and_not_scored_but_counts_for_the_interval():
    names = [*named("development", 6), *named("test", 2)]
    found = [made_up(name, "row", 1.0, 1.0) for name in names]
    strange = made_up(names[-1], "tile", 90.0, 1.0, outlier="faster than can be")
    with_it, without = scores([*found, strange])[0], scores(found)[0]
    assert (with_it.cases, with_it.p90_abs_error_points) == (without.cases, without.p90_abs_error_points)
    assert (with_it.coverage, without.coverage) == (0.667, 1.0)
    assert outliers([*found, strange]) == [f"{names[-1]} tile: faster than can be"]


def test_a_recording_that_beats_work_conservation_is_an_outlier(tmp_path: Path):
    write_case(tmp_path, IN_TEST_HALF, IN_STEP)
    path = next(tmp_path.glob("*/*_row.npz"))
    trace = Trace.load(path)
    faster = tuple(int(time * 0.8) for time in trace.header.rounds_ns)
    replace(trace, header=replace(trace.header, rounds_ns=faster)).save(path)
    found = predictions(tmp_path)
    assert [bool(p.outlier) for p in found if p.source == "own"] == [True, False]
    assert "a fully used h200 needs" in outliers(found)[0]
    assert "own-1-block-row" not in {score.name for score in scores(found)}


def test_a_damaged_sketch_is_named(tmp_path: Path):
    case = replace(sketch_cases()[0], folder=tmp_path)
    (tmp_path / "blocks.csv").write_text("trace,blocks\n")
    (tmp_path / "blocks.npy.xz").write_bytes(b"not packed")
    with pytest.raises(RecordingError, match=r"blocks\.npy\.xz: damaged"):
        case.trace("row")


def test_the_choice_of_a_policy_has_an_order_and_a_regret():
    case = named("test", 1)[0]
    found = [made_up(case, "row", 18.8, 15.0), made_up(case, "tile", 16.2, 19.0)]
    (choice,) = policy_choices(found)
    assert (choice.order_agreement, choice.mean_regret_points) == (0.0, 4.0)
    assert (choice.orders, choice.predicted_equal) == (1, 0)


def test_validate_writes_the_page_and_one_json_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from wavesim.bench import validate_command
    from wavesim.cli.command_line import main

    found = [made_up(name, "row", 3.0, 2.5) for name in [*named("development", 5), *named("test", 5)]]
    monkeypatch.setattr(validate_command, "run_each", lambda *_, **__: [found])
    monkeypatch.setattr(validate_command, "committed_predictions", lambda: [found])
    monkeypatch.setattr(validation, "committed_scores", dict)
    page = tmp_path / "scores.html"
    assert main(["validate", "--json", "--html", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {entry["name"] for entry in document["sets"]} == {"own-1-block", "own-1-block-row", "own-all"}
    assert document["choices"] == document["outliers"] == []
    assert "own-1-block-row: median error 0.5 points" in page.read_text()


def test_a_calibration_run_faster_than_the_devices_peak_is_named_and_not_scored(tmp_path: Path):
    write_case(tmp_path, IN_TEST_HALF, IN_STEP)
    path = next(tmp_path.glob("*/*_stream.npz"))
    trace = Trace.load(path)
    fields = {name: getattr(trace, name) // 4 for name in ("issue_ns", "start_ns", "end_ns")}
    rounds = tuple(time // 4 for time in trace.header.rounds_ns)
    replace(trace, **fields, header=replace(trace.header, rounds_ns=rounds)).save(path)
    named_cases = outliers(predictions(tmp_path))
    assert any(
        "gemm1 is said to reach" in line and "above the h200's peak of 989" in line for line in named_cases
    )


def test_a_trace_of_a_device_with_other_sms_is_not_calibrated_on():
    with pytest.raises(RecordingError, match="h200 has 66 SMs here, 132 in the recording"):
        predict_from_stream(
            gpt3_mlp(512), parse_plan("row"), load("h200").with_sm_count(66), pretended(512, "stream")
        )
