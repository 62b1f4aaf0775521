"""Every command takes a description of a user's own kernels, and gives the same number for the same plan."""

import gzip
import json
from pathlib import Path

import pytest

from wavesim.cli.command_line import main

PAIR = """
device = "DEVICE"
[[stages]]
name = "gemm1"
m = 896
n = 2048
k = 4096
tile = [128, 256, 64]
threads = 256
registers = 232
shared_bytes = 98304
kernel_us = 170.0
[[stages]]
name = "gemm2"
m = 896
n = 8192
k = 2048
tile = [128, 256, 64]
threads = 256
registers = 232
shared_bytes = 98304
kernel_us = 310.0
[[dependencies]]
consumer = "gemm2"
needs = ["gemm1[:, y]"]
"""


def written(folder: Path, device: str = "h200", more: str = "") -> str:
    path = folder / "pair.toml"
    path.write_text(PAIR.replace("DEVICE", device) + more)
    return str(path)


def found_by(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("device", ["h200", "v100"])
def test_all_commands_give_the_same_number_for_the_same_plan(tmp_path, capsys, device: str):
    pair = written(tmp_path, device)
    compared = found_by(capsys, "compare", "--file", pair, "--sync", "row,tile")
    simulated = found_by(capsys, "simulate", "--file", pair, "--sync", "row")
    tuned = found_by(capsys, "tune", "--file", pair)
    stream, row, tile = compared["rows"]
    assert row["predicted_points"] == simulated["improvement_points"] != 0
    assert (row["low"], row["high"], row["scored"]) == tuple(
        simulated[key] for key in ("low", "high", "scored")
    )
    ranked = {plan["plan"]: plan["predicted_ns"] for plan in tuned["plans"]}
    assert ranked["stream row"] == stream["predicted_ns"]
    assert ranked["row row"] == row["predicted_ns"]
    predicted = found_by(capsys, "predict", "--file", pair)
    same = {"row": row, "tile": tile, "stream": stream}.get(predicted["best"])
    if same is not None:
        assert predicted["improvement_points"] == same["predicted_points"]
        assert predicted["basis"] == compared["basis"] == simulated["basis"] == tuned["basis"]


def test_a_split_along_k_goes_as_hardware_issues_it_in_every_command(tmp_path, capsys):
    path = tmp_path / "split.toml"
    path.write_text(PAIR.replace("DEVICE", "h200").replace("k = 4096", "k = 4096\nsplit_k = 2"))
    assert main(["predict", str(path), "--verbose"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    compared = found_by(capsys, "compare", str(path), "--sync", "row")
    assert f"row {compared['rows'][1]['predicted_points']:+.1f}," in line
    assert compared["rows"][1]["order"] == "slices-last:row"


def test_a_file_in_the_workloads_place_is_the_same_as_the_option(tmp_path, capsys):
    pair = written(tmp_path)
    for command in ("compare", "simulate", "predict", "gen"):
        assert found_by(capsys, command, pair) == found_by(capsys, command, "--file", pair)


def test_the_file_says_which_plans_and_order_unless_the_command_line_does(tmp_path, capsys):
    pair = written(tmp_path, more='[plans]\nsync = ["tile", "pdl+row"]\norder = "grouped:2"\n')
    rows = found_by(capsys, "compare", pair)["rows"]
    assert [(row["plan"], row["order"]) for row in rows[:2]] == [
        ("stream", "grouped:2"),
        ("tile", "grouped:2"),
    ]
    assert len(rows) == 3
    given = found_by(capsys, "compare", pair, "--sync", "row", "--order", "row")["rows"]
    assert [(row["plan"], row["order"]) for row in given] == [("stream", "row"), ("row", "row")]


def test_without_times_the_roofline_is_taken_and_said_and_predict_wants_them(tmp_path, capsys):
    path = tmp_path / "untimed.toml"
    path.write_text(
        "".join(line for line in PAIR.replace("DEVICE", "h200").splitlines(True) if "_us" not in line)
    )
    document = found_by(capsys, "compare", str(path))
    assert "roofline" in document["basis"]
    assert document["scored"] is False
    assert main(["predict", str(path)]) == 2
    assert "write kernel_us = " in capsys.readouterr().err


def test_what_is_not_scored_is_not_said_to_be(tmp_path, capsys):
    rows = found_by(capsys, "compare", written(tmp_path), "--sync", "row,stream-k,pdl+row")["rows"]
    assert [row["scored"] for row in rows] == [True, True, False, True]  # the foreign pairs ran pdl+row
    assert "8 times in 10" not in rows[2]["interval"]


@pytest.mark.parametrize("command", ["compare", "predict", "simulate", "tune"])
def test_every_command_draws_a_page_and_writes_timelines(tmp_path, capsys, command: str):
    page, timelines = tmp_path / "page.html", tmp_path / "timelines.json.gz"
    words = ["--sync", "row"] if command in ("simulate", "compare") else []
    pair = written(tmp_path)
    arguments = [command, "--file", pair, *words, "--html", str(page), "--perfetto", str(timelines), "--json"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert "2 timelines" in captured.err or command == "predict"
    html = page.read_text(encoding="utf-8")
    assert "<script src" not in html
    assert "pair" in html
    events = json.loads(gzip.decompress(timelines.read_bytes()))["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert any("stream sync: SM 0" in name for name in names)
    assert {event["cat"] for event in events if event["ph"] == "s"} == {"dependency"}


def test_a_workload_of_ours_has_pictures_too(tmp_path, capsys):
    page = tmp_path / "toy.html"
    assert main(["simulate", "toy", "--sync", "tile", "--html", str(page)]) == 0
    assert "Tile semaphores" in page.read_text(encoding="utf-8")
