"""Which way to take from how many rows on: the ranges, what pays, the command's text, JSON and page."""

import json

import pytest

from wavesim.cli.command_line import main
from wavesim.predict.peer_ways import PeerCrossover, WaysAtM, text_of
from wavesim.view.crossover_figure import times_as_fast_over_rows


def at(m: int, **times: int) -> WaysAtM:
    """The fastest is taken; "stores" is ours."""
    best = min(times, key=lambda way: times[way])
    library = min((way for way in times if way != "stores"), key=lambda way: times[way])
    return WaysAtM(m, times, best, library)


def crossover(*sizes: WaysAtM) -> PeerCrossover:
    return PeerCrossover("one", "h200", 2, "h200", 4096, 7168, sizes)


def crossover_command(words: str) -> int:
    return main(["crossover", "--gpus", "2", *words.split()])


def test_a_range_reaches_to_the_row_before_the_next_size_that_takes_another_way():
    found = crossover(
        at(16, sequence=20, chunks=10, stores=15),
        at(32, sequence=20, chunks=12, stores=15),
        at(64, sequence=30, chunks=40, stores=20),
    )
    assert [(row.m_from, row.m_to, row.way) for row in found.table] == [
        (16, 63, "chunks"),
        (64, 64, "stores"),
    ]
    assert (found.table[0].least, found.table[0].most) == (pytest.approx(20 / 12), 2.0)
    assert found.pays_from == 64
    assert "from: M = 64" in text_of(found)
    words = [note.text for note in times_as_fast_over_rows(found, "simulated").layout.annotations]
    assert "taken: 16 to 63: chunks; 64: stores" in words


def test_tiles_pay_from_where_no_larger_size_takes_a_library_again():
    ours, theirs = {"sequence": 20, "stores": 10}, {"sequence": 20, "stores": 30}
    assert crossover(at(16, **ours), at(32, **theirs), at(64, **ours)).pays_from == 64
    assert crossover(at(16, **ours), at(32, **theirs)).pays_from is None


def test_the_command_prints_ranges_and_writes_json_and_a_page_that_say_predicted(tmp_path, capsys):
    page, table = tmp_path / "page.html", tmp_path / "ways.json"
    product = "--n 2048 --k 1024 --m 64:256 --sync one-shot,stores"
    assert crossover_command(f"{product} --html {page} --dispatch {table}") == 0
    assert "predicted: simulated, not measured" in capsys.readouterr().out
    found = json.loads(table.read_text("utf-8"))["crossovers"][0]
    assert [size["m"] for size in found["sizes"]] == [64, 128, 256]
    assert found["table"][0]["m_from"] == 64
    assert found["table"][-1]["m_to"] == 256
    assert set(found["sizes"][0]["times_ns"]) == {"sequence", "one-shot", "stores", "stores one-shot"}
    assert "Predicted: simulated, not measured" in page.read_text("utf-8")


def test_a_models_two_products_that_end_in_an_all_reduce_are_compared(capsys):
    assert crossover_command("--model qwen2.5-0.5b --m 16:16 --sync one-shot --json") == 0
    found = json.loads(capsys.readouterr().out)["crossovers"]
    assert [(one["product"], one["n"], one["k"]) for one in found] == [
        ("qwen2.5-0.5b down", 896, 2432),
        ("qwen2.5-0.5b out", 896, 448),
    ]
