"""The committed predictions are what the model predicts: a third of the jobs is done again, another each day.

The day is that of the commit, so that a commit passes or fails as it did the last time. `make validate` does
all of them.
"""

import lzma
import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from wavesim.bench import validate_command
from wavesim.bench.jobs import run_each
from wavesim.bench.prediction_store import (
    SAME,
    committed_predictions,
    differences,
    write_predictions,
)
from wavesim.bench.recorded_cases import recorded_jobs
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.bench.validation import all_jobs
from wavesim.errors import RecordingError
from wavesim.predict.prediction import Measured

PARTS = 3
SHARES = 6  # of a part, for several test processes
ONE = ScoredPrediction(
    "a", "row", "a", "own", "some", 1 / 3, Measured(0.1, 0.2, 0.3), 0.0, 0.0, repeats=(0.7, 1e-9)
)


def part_of_the_day() -> int:
    """Which third, by the day of the commit; the first where git does not know it."""
    command = ["git", "log", "-1", "--format=%cs"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return date.fromisoformat(done.stdout.strip()).toordinal() % PARTS if done.stdout.strip() else 0


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_what_is_predicted_again_is_what_is_committed(share: int):
    jobs, committed = all_jobs(), committed_predictions()
    assert len(jobs) == len(committed)
    own = slice(part_of_the_day() + PARTS * share, None, PARTS * SHARES)
    assert len(jobs[own]) >= 20
    assert differences(run_each(jobs[own]), committed[own]) == []


def test_the_parts_are_all_jobs_and_none_twice():
    numbers = range(len(all_jobs()))
    shares = [
        numbers[part + PARTS * share :: PARTS * SHARES] for part in range(PARTS) for share in range(SHARES)
    ]
    assert sorted(number for share in shares for number in share) == list(numbers)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"predicted": ONE.predicted + 2 * SAME}, "predicted is 0.343"),
        ({"measured": Measured(0.1, 0.2, 0.4)}, "measured is"),
        ({"repeats": (0.7,)}, "repeats is (0.7,), was (0.7, 1e-09)"),
        ({"in_cycles": 1.0}, "in_cycles is 1.0, was None"),
        ({"kind": "other"}, "kind is 'other', was 'some'"),
    ],
)
def test_a_changed_prediction_is_named_with_what_it_was(change: dict, words: str):
    (found,) = differences([[replace(ONE, **change)]], [[ONE]])
    assert found.startswith("own a row: ")
    assert words in found


def test_a_prediction_or_a_job_too_few_is_named_and_the_rounding_of_a_nanosecond_is_not():
    assert differences([[ONE]], [[ONE, ONE]]) == ["the job of a row: 1 predictions, 2 were committed"]
    assert differences([], [[ONE]]) == ["0 jobs, 1 were committed"]
    assert differences([[replace(ONE, predicted=ONE.predicted + SAME / 2)]], [[ONE]]) == []


def test_validate_fails_where_a_prediction_is_not_as_committed(monkeypatch, capsys):
    from wavesim.cli.command_line import main

    first, *others = committed_predictions()
    changed = [[replace(first[0], spread=first[0].spread + 1), *first[1:]], *others]
    monkeypatch.setattr(validate_command, "run_each", lambda *_, **__: changed)
    assert main(["validate"]) == 1
    assert "1 predictions have changed, store them by --write: own " in capsys.readouterr().err


def test_every_digit_comes_back_and_the_same_predictions_are_the_same_bytes(tmp_path: Path):
    path = tmp_path / "predictions.json.xz"
    write_predictions([[ONE], []], path)
    before = path.read_bytes()
    assert committed_predictions(path) == [[ONE], []]
    write_predictions([[ONE], []], path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_named(tmp_path: Path):
    path = tmp_path / "predictions.json.xz"
    path.write_bytes(lzma.compress(b"[["))
    with pytest.raises(RecordingError, match=r"predictions\.json\.xz: not JSON"):
        committed_predictions(path)


def test_two_processes_find_what_one_finds_in_the_same_order():
    some = recorded_jobs()[:2]
    seen: list[tuple[int, int]] = []
    alone = run_each(some)
    assert run_each(some, lambda *done: seen.append(done), processes=2) == alone
    assert all(alone)
    assert seen == [(1, 2), (2, 2)]
