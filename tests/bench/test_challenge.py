"""The blind challenge: what is sealed, what is handed out, what a score and the page say."""

import json
from pathlib import Path

import pytest

from wavesim import Trace
from wavesim.bench.challenge import (
    COUNT,
    FILE,
    OURS,
    YOURS,
    pairs,
    read_predictions,
    scores_of,
    sealed_pairs,
)
from wavesim.cli.command_line import main
from wavesim.errors import RecordingError
from wavesim.recordings.split import split_of


def written(path: Path, points: dict[str, float]) -> Path:
    path.write_text("pair,points\n" + "".join(f"{number},{value}\n" for number, value in points.items()))
    return path


def test_the_sealed_pairs_are_sixty_of_the_test_split_and_still_those_of_the_recordings():
    assert json.loads(FILE.read_text())["pairs"] == sealed_pairs()
    assert len({pair.size.name for pair in pairs()}) == COUNT
    assert {split_of(pair.size.name) for pair in pairs()} == {"test"}


def test_whoever_predicts_what_was_measured_makes_no_error():
    scores = {one.name: one for one in scores_of({pair.number: pair.gain() for pair in pairs()})}
    assert (scores[YOURS].median_error, scores[YOURS].worst_error) == (0, 0)
    assert (scores[YOURS].near, scores[YOURS].closer_than_ours) == (COUNT, COUNT)
    assert scores[OURS].closer_than_ours == 0


def test_a_pair_is_handed_out_as_its_stream_sync_run_alone(tmp_path, capsys):
    assert main(["challenge", "trace", "P07", "--out", str(tmp_path / "p07.npz")]) == 0
    trace = Trace.load(tmp_path / "p07.npz")
    assert trace.header.plan.startswith("stream")
    assert trace.time_ns == pairs()[6].facts()["stream_ns"]
    assert "measured on" in capsys.readouterr().out


def test_the_list_is_a_file_to_fill_in_and_to_score(tmp_path, capsys):
    path = tmp_path / "mine.csv"
    assert main(["challenge", "list", "--csv", str(path)]) == 0
    with pytest.raises(RecordingError, match="line 2: points is ''; it must be a number from -1000 to 100"):
        read_predictions(path)
    path.write_text(path.read_text().replace(",,", ",2.5,"))
    capsys.readouterr()
    assert main(["challenge", "score", str(path), "--reveal", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["you"] for one in found["revealed"]] == [2.5] * COUNT
    assert [one["name"] for one in found["scores"]][:2] == [YOURS, OURS]


def test_a_file_that_lacks_a_pair_names_it(tmp_path):
    points = {pair.number: 0.0 for pair in pairs()}
    del points["P60"]
    with pytest.raises(RecordingError, match="1 of 60 pairs are missing, the first is P60; write a number"):
        read_predictions(written(tmp_path / "few.csv", points))
