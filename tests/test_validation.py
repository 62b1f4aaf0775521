"""Scores: recomputed from recordings, changed by a changed recording, failing when worse."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recorded import pretended, write_case

from wavesim.analysis import validation
from wavesim.analysis.prediction import improvement_points, measured_improvement, replay
from wavesim.analysis.validation import Score, ceil_formula, predictions, scores, worse_sets
from wavesim.errors import RecordingError
from wavesim.io.recordings import cases
from wavesim.model.device import load
from wavesim.trace import Trace
from wavesim.workloads.gpt3 import gpt3_mlp


def test_improvement_is_one_minus_the_ratio_in_points():
    assert improvement_points(860, 1_000) == pytest.approx(14.0)


def test_a_clock_that_moves_for_both_plans_cancels_in_the_quartiles():
    stream, row = pretended(1024, "stream"), pretended(1024, "row")
    found = measured_improvement(row, stream)
    assert found.high - found.low < 0.01
    assert found.median == pytest.approx(improvement_points(row.time_ns, stream.time_ns), abs=0.01)


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
    write_case(tmp_path, 1024)
    found = predictions(tmp_path)
    assert [p.plan for p in found] == ["row", "tile"]
    assert [p.error for p in found] == pytest.approx([0.0, 0.0], abs=0.02)
    assert found[0].replay_error_percent == pytest.approx(0.0, abs=0.2)  # it leaves out what a wait costs


def test_a_perturbed_recording_changes_the_score(tmp_path: Path):
    write_case(tmp_path, 1024)
    before = scores(predictions(tmp_path))[0]
    path = next(tmp_path.glob("*/*_row.npz"))
    trace = Trace.load(path)
    slower = tuple(int(time * 1.05) for time in trace.header.rounds_ns)
    replace(trace, header=replace(trace.header, rounds_ns=slower)).save(path)
    after = scores(predictions(tmp_path))[0]
    assert after.p90_abs_error_points > before.p90_abs_error_points + 3.0


def test_the_ceil_formula_counts_waves(tmp_path: Path):
    stream = pretended(1024, "stream")  # 192 and 384 blocks on 132 SMs: 1.45 and 2.91 waves
    assert ceil_formula(stream) == pytest.approx(0.0)  # ceil(4.36) = 5 = 2 + 3


def test_a_score_that_gets_worse_or_loses_cases_is_named(monkeypatch: pytest.MonkeyPatch):
    old = Score("own-all", 10, 1.0, 3.0, 1.0, 0.2, 5.0, 6.0)
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


def test_a_replay_gives_every_block_its_own_time():
    measured = pretended(1024, "row")
    rng = np.random.default_rng(7)
    longer = measured.end_ns + 0
    last = int(np.argmax(measured.end_ns))
    longer[last] += int(rng.integers(1_000, 9_000))
    again = replay(gpt3_mlp(1024), replace(measured, end_ns=longer), load("h200"))
    assert again.makespan_ns == pytest.approx(int(longer.max()), abs=2_000)
