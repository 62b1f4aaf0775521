"""`try-pair` where no GPU is: what a file must define, what is predicted, table and page."""

import json
from pathlib import Path

import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.__main__ import main
from wavesim_gpu.run.timing import Rounds
from wavesim_gpu.trial.pair_command import cells, pair_page, pair_text
from wavesim_gpu.trial.pair_trial import predicted
from wavesim_gpu.trial.user_pair import load_user_pair

PAIR = Path(__file__).parents[3] / "docs" / "pair.toml"
FILE = f"""
description = {str(PAIR)!r}
done = []
def producer(): done.append("A")
def consumer(): done.append("B")
def both(): done.append("AB")
plans = {{"pdl+row": both, "tile grouped:4": both}}
def check(): return True
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pair.py"
    path.write_text(FILE)
    return path


def test_stream_sync_is_one_kernel_after_the_other_and_the_plans_are_the_files(file):
    pair = load_user_pair(str(file))
    assert list(pair.programs) == ["stream", "pdl+row", "tile grouped:4"]
    for run in pair.programs.values():
        run()
    assert pair.kernels[0].__globals__["done"] == ["A", "B", "AB", "AB"]
    assert pair.plans["tile grouped:4"][0].order.name == "grouped:4"


def test_a_description_is_tried_with_the_python_file_beside_it(file):
    toml = file.with_suffix(".toml")
    toml.write_text(PAIR.read_text().replace("gemm1", "mine"))
    file.write_text(FILE.replace("description = ", "unused = "))
    pair = load_user_pair(str(toml))
    assert pair.pipeline.stages[0].name == "mine"
    file.unlink()
    with pytest.raises(DescriptionError, match="beside it has to launch them: it needs `producer"):
        load_user_pair(str(toml))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def producer()", "def first()", "defines no producer; a file to try is right when it defines"),
        ("plans = {", "plans = {} or {1: both} and {}\nothers = {", "plans is {}; write"),
        ('"pdl+row"', '"stream"', "which is timed anyway; leave it out"),
        ('"pdl+row"', '"pdl+magic"', "magic"),
        ("both, ", "3, ", "plans has 'pdl\\+row': 3; write 'pdl\\+row': function"),
        ("done = []", "done = [] + 1", r"pair.py:3: TypeError"),
        (
            "description = ",
            "description = 3 or ",
            "description is 3; give a TOML file or a Pipeline of two stages",
        ),
    ],
)
def test_a_file_that_lacks_something_is_one_line_that_names_it(file, old, new, message):
    text = FILE.replace(old, new)
    assert text != FILE
    file.write_text(text)
    with pytest.raises(DescriptionError, match=message) as refused:
        load_user_pair(str(file))
    assert "\n" not in str(refused.value)


def test_without_a_gpu_it_predicts_from_the_descriptions_times(file, tmp_path, capsys):
    page, out = tmp_path / "pair.html", tmp_path / "pair.json"
    assert main(["try-pair", str(file), "--html", str(page), "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "nothing measured" in text
    assert "Run: pdl+row" in text
    found = json.loads(out.read_text())
    assert found["recommended"] == "pdl+row"
    assert [row["name"] for row in found["plans"]] == ["stream", "pdl+row", "tile grouped:4"]
    assert found["plans"][1]["predicted_gain"] == pytest.approx(12.2, abs=0.3)
    assert "<script" not in page.read_text()


def test_an_output_is_not_written_over_the_pairs_own_file(file, capsys):
    with pytest.raises(SystemExit):
        main(["try-pair", str(file), "--json", str(file)])
    assert str(file) in capsys.readouterr().err
    assert file.read_text() == FILE


def test_predicted_and_measured_stand_side_by_side_with_their_difference(file):
    pair = load_user_pair(str(file))
    measured = {"": 320_000, " ": 255_000, "stream": 580_000, "pdl+row": 515_000, "tile grouped:4": 600_000}
    rounds = {name: Rounds([ns, ns + 1000, ns - 1000, ns], [1.9] * 4) for name, ns in measured.items()}
    trial = predicted(pair, pair.device, {"gemm1": 320_000, "gemm2": 255_000}, rounds, is_graph=True)
    _, row, tile = trial.plans
    assert row.measured_gain == pytest.approx(100 * (1 - 515 / 580))
    assert row.quartiles[0] <= row.measured_gain <= row.quartiles[1]
    assert tile.measured_gain < 0
    name, _, gain, _, time, own, _, error = cells(row)
    assert (name, time, own) == ("pdl+row", "515.0 us", "+11.2 %")
    assert float(error) == pytest.approx(float(gain.split()[0]) - 11.2, abs=0.1)
    assert "medians of 4 interleaved rounds of graph replays" in pair_text(trial)
    assert "pair.py: pdl+row gains 11.2 %" in pair_page(trial)
