"""The advise command and what it writes: JSON, the report, a pair as a description, a line for bad input."""

import json
from pathlib import Path

import pytest
from kineto_traces import REAL, kernel, write_trace

from wavesim.cli.command_line import main
from wavesim.errors import DescriptionError
from wavesim.predict.forecast import Forecast
from wavesim.predict.recommendation import verdict_on
from wavesim.profile.advice import Advice
from wavesim.profile.pair_file import pair_toml
from wavesim.work.description.reader import load_description

each_trace = pytest.mark.parametrize("name", REAL)


def test_a_pair_written_out_is_read_back_and_predicted(tmp_path: Path, advices: dict[str, Advice]):
    pair = advices["v100"].pair(4)
    path = tmp_path / "pair.toml"
    path.write_text(pair_toml(pair, "v100"))
    description = load_description(path)
    first, second = description.pipeline.stages
    assert (first.grid.size, second.grid.size) == (pair.producer.shape.blocks, pair.consumer.shape.blocks)
    assert first.kernel.block.registers == pair.producer.shape.registers
    assert description.kernel_ns["producer"] == pytest.approx(pair.producer.mean_ns, abs=1)
    verdict = verdict_on(description.pipeline, description.device, description.kernel_ns)
    assert verdict.low <= verdict.improvement_points <= verdict.high


@pytest.mark.slow
@each_trace
def test_every_visible_pair_can_be_written_out(name: str, tmp_path: Path, advices: dict[str, Advice]):
    for pair in advices[name].visible_pairs[:12]:
        if pair.producer.shape.blocks * pair.consumer.shape.blocks < 10**9:
            (tmp_path / "p.toml").write_text(pair_toml(pair, name))
            assert load_description(tmp_path / "p.toml").pipeline.dependencies


def test_a_hidden_pair_says_why_it_cannot_be_predicted(advices: dict[str, Advice]):
    hidden = next(pair for pair in advices["h100"].pairs if not pair.is_visible)
    with pytest.raises(DescriptionError, match="persistent"):
        pair_toml(hidden, "h100")


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        ([[2**31 - 1, 65_535, 65_535]] * 2, "18,446,181,119,461,425,150 blocks in all; at most 262,144 are"),
        ([[200_000, 1, 1], [100_000, 1, 1]], "300,000 blocks in all; at most 262,144 are simulated"),
        ([[60_000, 2, 1]] * 2, "at most 67,108,864"),
    ],
)
def test_a_pair_too_large_to_be_predicted_is_not_written_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], grids: list[list[int]], message: str
):
    events = [
        kernel(name, 102 * start, 100, grid=grid)
        for start, (name, grid) in enumerate([*zip(("gemm", "copy"), grids, strict=True)] * 3)
    ]
    toml = tmp_path / "p.toml"
    trace = write_trace(tmp_path, events)
    assert main(["advise", str(trace), "--toml", str(toml)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not toml.exists()


def test_the_profile_is_not_replaced_by_what_is_written_of_it(tmp_path: Path):
    profile = tmp_path / "in.json.gz"
    profile.write_bytes(REAL["h100"].read_bytes())
    with pytest.raises(SystemExit, match="2"):
        main(["advise", str(profile), "--toml", str(profile)])
    assert profile.read_bytes() == REAL["h100"].read_bytes()


@each_trace
def test_the_command_prints_one_json_object_with_the_agreed_names(
    name: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["advise", str(REAL[name]), "--json", "--verdicts", "0"]) == 0
    document = json.loads(capsys.readouterr().out)
    top = {"device", "kernels", "compute_ns", "tail_loss_ns", "launch_gap_ns", "blind_share", "pairs"}
    top |= {"answer"}
    told = set(Forecast(0.0, 0.0, 0.0).as_json())
    assert {"basis", "defaults", "low", "high", "scored"} <= told
    assert document.pop("verdicts") == []
    assert document["answer"]["tile_sync"] in ("yes", "no", "measure")
    assert document["answer"]["command"].startswith("wavesim ")
    assert set(document) == top | told
    each = {"producer", "consumer", "count", "recoverable_ns", "low_ns", "high_ns"}
    assert document["pairs"]
    assert all(set(pair) == each | told for pair in document["pairs"])
    for entry in (document, *document["pairs"]):
        assert entry["low"] <= entry["improvement_points"] <= entry["high"]
        assert entry["scored"] is False
        assert "estimated, not simulated" in entry["basis"]


def test_the_command_writes_the_report_and_the_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, toml = tmp_path / "r.html", tmp_path / "p.toml"
    arguments = [
        "--html",
        str(page),
        "--toml",
        str(toml),
        "--pair",
        "2",
        "--depend",
        "2",
        "--verdicts",
        "0",
        "--verbose",
    ]
    assert main(["advise", str(REAL["h100"]), *arguments]) == 0
    assert "(dependent)" in capsys.readouterr().out
    html = page.read_text()
    assert "<script src" not in html
    assert "1. Between kernels nothing runs" in html
    assert "2. flash_fwd_kernel" in html
    assert load_description(toml).pipeline.stages


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.json"], "nowhere.json: cannot be read"),
        ([__file__], "not JSON"),
        ([str(REAL["h100"]), "--depend", "one"], "--depend is 'one'"),
        ([str(REAL["h100"]), "--pair", "999", "--toml", "x.toml"], "pair is 999"),
        ([str(REAL["h100"]), "--device", "h300"], "h300"),
    ],
)
def test_bad_input_is_one_line_and_status_two(arguments, message, capsys: pytest.CaptureFixture[str]):
    assert main(["advise", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
