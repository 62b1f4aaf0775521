"""`wavesim crossover`: its JSON, its files, and the kernels that it takes."""

import json
from pathlib import Path

import pytest

from wavesim.cli.command_line import main

PAIR = str(Path(__file__).parents[3] / "docs" / "pair.toml")
FEW = ["--sync", "stream,pdl+row"]


def answer(capsys, *words):
    assert main(["crossover", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_json_has_the_table_and_what_every_prediction_carries(capsys):
    document = answer(capsys, "--model", "gpt3-145b", "--tp", "8", "--m", "513:768", "--device", "h200", *FEW)
    assert [(row["m_from"], row["m_to"], row["plan"]) for row in document["table"]] == [
        (513, 640, "stream"),
        (641, 768, "pdl+row"),
    ]
    assert {"gain_points", "low", "high"} <= set(document["table"][0])
    assert {"basis", "defaults", "low", "high", "scored"} <= set(document)
    assert document["pays_from"] == {"pdl+row grouped:4": 641}


def test_bare_dimensions_and_a_file_are_families_too(capsys):
    bare = answer(capsys, "--n", "6144", "--k", "12288", "--m", "513:768", *FEW)
    assert [row["m_from"] for row in bare["table"]] == [513, 641]
    described = answer(capsys, "--file", PAIR, "--tile-rows", "128", "--m", "900:1024", *FEW)
    assert described["table"][0]["gain_points"] > 5
    assert any("every M" in text for text in described["defaults"])


def test_files_are_written_beside_the_table(capsys, tmp_path):
    files = {name: tmp_path / name for name in ("page.html", "plans.py", "table.json")}
    words = ["--model", "qwen2.5-0.5b", "--m", "1:128", *FEW]
    words += ["--html", str(files["page.html"]), "--python", str(files["plans.py"])]
    assert main(["crossover", *words, "--dispatch", str(files["table.json"])]) == 0
    assert "qwen2.5-0.5b" in capsys.readouterr().out
    assert all(path.stat().st_size > 500 for path in files.values())


@pytest.mark.parametrize("words", [["--m", "1:2"], ["--model", "gpt3-145b", "--n", "64", "--k", "64"]])
def test_kernels_are_named_in_one_way(capsys, words):
    assert main(["crossover", *words]) == 2
    assert "give one of --model NAME, --n N with --k K, and --file FILE" in capsys.readouterr().err
