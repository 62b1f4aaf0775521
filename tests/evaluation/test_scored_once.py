"""The shared predictions: made once for the same code, made anew for any other, equal to the digit."""

import shutil
from pathlib import Path

import pytest
from scored_once import fingerprint, scored_once

from wavesim.evaluation import jobs, recorded_cases
from wavesim.evaluation.scored_case import ScoredPrediction
from wavesim.predict.prediction import Measured

ONE = ScoredPrediction(
    "a", "row", "a", "own", "some", 1 / 3, Measured(0.1, 0.2, 0.3), 0.0, 0.0, repeats=(0.7, 1e-9)
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package" / "recordings"
    folder.mkdir(parents=True)
    (folder.parent / "model.py").write_text("x = 1\n")
    (folder / "trace.npz").write_bytes(b"1")
    return folder.parent


def test_the_same_code_predicts_once_and_every_digit_comes_back(tmp_path: Path, package: Path):
    calls = []

    def predict() -> list[ScoredPrediction]:
        calls.append(1)
        return [ONE]

    assert [scored_once(tmp_path / "cache", predict, package) for _ in range(2)] == [[ONE], [ONE]]
    assert len(calls) == 1


@pytest.mark.parametrize("change", ["model.py", "recordings/trace.npz", "new.toml"])
def test_a_changed_or_new_file_predicts_anew_and_the_old_result_goes(
    tmp_path: Path, package: Path, change: str
):
    scored_once(tmp_path / "cache", lambda: [ONE], package)
    (package / change).write_text("2")
    assert scored_once(tmp_path / "cache", list, package) == []
    assert len(list((tmp_path / "cache").glob("*.json"))) == 1


def test_a_moved_file_is_another_package(package: Path):
    before = fingerprint(package)
    shutil.move(package / "model.py", package / "recordings" / "model.py")
    assert fingerprint(package) != before


def test_a_prediction_that_fails_leaves_nothing_to_read(tmp_path: Path, package: Path):
    def fail() -> list[ScoredPrediction]:
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        scored_once(tmp_path / "cache", fail, package)
    assert not list((tmp_path / "cache").glob("*.json"))


def test_two_processes_find_what_one_finds_in_the_same_order():
    some = recorded_cases.recorded_jobs()[:2]
    seen: list[tuple[int, int]] = []
    alone = jobs.run_jobs(some)
    assert jobs.run_jobs(some, lambda *done: seen.append(done), processes=2) == alone
    assert alone
    assert seen == [(1, 2), (2, 2)]
