"""Case lists: those that ship are read whole, and one goes from registration over results to its page."""

import hashlib
import json

import pytest

from wavesim.bench.__main__ import main
from wavesim.bench.blind_runs import find_runs
from wavesim.bench.case_list import list_names, load_list
from wavesim.bench.registration import CasePrediction, predict_from_streams, register, registered
from wavesim.bench.results import ResultRow, append, done_cases, merged, read, start
from wavesim.bench.scoring import scores_of
from wavesim.errors import RecordingError

HEADER = {
    "list": "own",
    "list_sha256": "1" * 64,
    "device": "h200",
    "versions": {},
    "commit": "abc",
    "kernel_sources": "2" * 16,
    "date": "2026-11-28",
}
OWN = """\
kind = "convolutions"
title = "Two pairs"
plans = ["pdl"]
[[case]]
part = "pair"
size = 7
channels = 512
tile = [64, 128, 1]
images = [1, 2]
"""
PAIRS = ("pair 7x512 batch 1 64x128", "pair 7x512 batch 2 64x128")


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize("name", list_names())
def test_every_case_of_a_list_that_ships_has_a_name_and_plans_and_most_a_pipeline(name):
    cases = load_list(name)
    assert cases.cases
    for case in cases.cases[:: max(1, len(cases.cases) // 8)]:
        if cases.kind not in ("foreign", "two-gpus", "crossover", "lab", "mlps"):
            assert case.pipeline().stages
            assert [word for _, word in case.entries].count(case.baseline) == len(case.orders)


# K per GPU and N of the down and output projections of well-known models over two GPUs.
PROJECTIONS = [
    *((7168, 4096), (2048, 4096), (14336, 8192), (4096, 8192), (6912, 5120), (13824, 5120), (2560, 5120)),
    *((6144, 4096), (14336, 12288), (6144, 12288), (16384, 5120), (9472, 3584), (1792, 3584), (11008, 8192)),
]


@pytest.mark.parametrize(
    ("name", "taken", "rows"),
    [
        ("third", {"all-reduce": 3}, (1, 16, 128, 512, 1024, 2048, 4096, 8192)),
        ("third", {"reduce-scatter": 1}, (1024, 2048, 4096, 8192)),
        ("fourth", {"all-reduce": 4}, (1536, 3072, 6144, 768, 384, 96)),
    ],
)
def test_lists_of_two_gpus_are_what_their_rule_draws(name, taken, rows):
    ((kind, count),) = taken.items()
    drawn = []
    for m in rows:
        stamps = {hashlib.sha256(f"{kind} {m} {k} {n}".encode()).hexdigest(): (k, n) for k, n in PROJECTIONS}
        sizes = [stamps[stamp] for stamp in sorted(stamps)]
        drawn += [f"{kind} {m}x{k}x{n}" for k, n in sizes[:count]]
    cases = load_list(f"two-gpus-{name}").cases
    assert [case.name for case in cases if case.name.startswith(kind)] == drawn


def test_a_new_list_is_a_file_and_goes_from_registration_to_its_page(own, tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    monkeypatch.setattr("sys.argv", ["bench", "register", str(own), "--out", str(run), "--commit", "abc"])
    assert main() == 0
    stamp = capsys.readouterr().out.split()[1]
    predictions = registered(run, "costs")
    assert {case for case, _, _ in predictions} == set(PAIRS)
    start(run / "rows.jsonl", HEADER)
    for case in PAIRS:
        for plan, ns in (("stream", (1_000, 1_200)), ("pdl", (900, 1_080))):
            append(run / "rows.jsonl", [ResultRow(case, "row", plan, correct=True, ns=ns, ghz=(1.7, 1.7))])
    assert scores_of(predictions, read(run / "rows.jsonl")[1]).gains == 2
    page = tmp_path / "page.md"
    monkeypatch.setattr("sys.argv", ["bench", "page", str(own), str(run), "--out", str(page)])
    assert main() == 0
    assert "| pair 7x512 batch 1 64x128 | row | pdl | 1.0 | +10.0 |" in page.read_text()
    assert stamp == (run / "costs.sha256").read_text().split()[0]


def test_predictions_are_written_once_and_a_changed_file_is_refused(tmp_path):
    register(tmp_path, "costs", [CasePrediction("a", "row", "pdl", 900, 10.0)], {"commit": "abc"})
    with pytest.raises(RecordingError, match="predictions are written once"):
        register(tmp_path, "costs", [], {})
    text = (tmp_path / "costs.json").read_text()
    (tmp_path / "costs.json").write_text(text.replace("900", "901"))
    with pytest.raises(RecordingError, match="the file was changed"):
        registered(tmp_path, "costs")


def test_a_run_goes_on_where_it_was_cut_off_and_shards_are_put_together(tmp_path):
    for shard in ("1", "2"):
        start(tmp_path / f"{shard}.jsonl", HEADER)
        append(
            tmp_path / f"{shard}.jsonl", [ResultRow(f"case {shard}", "row", "stream", correct=True, ns=(5,))]
        )
    with (tmp_path / "2.jsonl").open("a") as file:
        file.write('{"case": "cut')
    assert done_cases(tmp_path / "2.jsonl") == {"case 2"}
    _, rows = merged(sorted(tmp_path.glob("*.jsonl")))
    assert [row.case for row in rows] == ["case 1", "case 2"]
    with pytest.raises(RecordingError, match="commit is 'abc', now 'def'; use another file"):
        start(tmp_path / "1.jsonl", {**HEADER, "commit": "def"})
    (tmp_path / "3.jsonl").write_text(json.dumps({"header": {**HEADER, "device": "h100"}}) + "\n")
    with pytest.raises(RecordingError, match="device differs between shards"):
        merged(sorted(tmp_path.glob("*.jsonl")))


def test_a_row_without_a_right_output_is_no_result():
    rows = [
        ResultRow("a", "row", "stream", correct=True, ns=(1_000,)),
        ResultRow("a", "row", "pdl", correct=False, ns=(500,)),
        ResultRow("a", "row", "tile", correct=True, ns=(800,)),
    ]
    predicted = {
        ("a", "row", plan): CasePrediction("a", "row", plan, 700, points)
        for plan, points in (("pdl", 50.0), ("tile", 30.0))
    }
    scores = scores_of(predicted, rows)
    assert (scores.gains, scores.median_abs_error_points, scores.regret_points) == (1, 10.0, 0.0)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (('kind = "convolutions"', 'kind = "conv"'), "kind is 'conv'; it must be one of"),
        (("size = 7\n", ""), "case\\[0\\] lacks 'size'"),
        (("title", "titel"), "field 'titel' is not known"),
        (("images = [1, 2]", "images = [1, 1]"), "two cases have one name"),
    ],
)
def test_a_list_with_a_mistake_is_refused_with_its_field(own, change, fault):
    own.write_text(OWN.replace(*change))
    with pytest.raises(RecordingError, match=fault):
        load_list(own)


def test_a_list_that_is_not_there_names_those_that_are():
    with pytest.raises(RecordingError, match="layers-third"):
        load_list("layers-fourth")


def test_gemms_are_predicted_from_recordings_as_users_are_told_with_the_interval():
    run = find_runs()[-1]
    case = next(case for case in load_list("gemms-second").cases if case.name in run.comparisons)
    size = next(size for size in run.sizes() if size.name == case.name)
    said = predict_from_streams({case: {"row": run.stream(size, "row")}}, "h200")
    assert set(said) == {"trace", "kernel-times"}
    before = run.predictions
    for entry in said["trace"][1:]:
        known = before[entry.case, "row", entry.plan]
        assert entry.points == pytest.approx(known.improvement_points, abs=3)  # the model has changed since
        assert entry.low < entry.points < entry.high
        assert entry.support == "here"
    other = predict_from_streams({case: {"row": run.stream(size, "row")}}, "h100")["trace"]
    assert {entry.support for entry in other[1:]} == {"elsewhere"}
