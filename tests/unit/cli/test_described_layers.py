"""Commands take a description of a layer's kernels, as the page has it, in a small size."""

import json
import re
from pathlib import Path

import pytest

from wavesim.cli.command_line import main

PAGE = (Path(__file__).parents[3] / "docs" / "describe-your-kernels.md").read_text(encoding="utf-8")
(LAYER,) = [text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "rope =" in text]
(DECODE,) = [text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "decode =" in text]


@pytest.fixture
def layer(tmp_path: Path) -> str:
    """256 rows of it, each kernel timed alone."""
    text = re.sub(r"\b(m|length|rows) = 1024", r"\1 = 256", LAYER)
    for name, time_us in (("qkv", 25.0), ("attention", 12.0), ("out", 18.0), ("norm", 3.0)):
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nkernel_us = {time_us}\n')
    path = tmp_path / "layer.toml"
    path.write_text('device = "h200"\n' + text)
    return str(path)


def found_by(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_layer_has_the_same_number_by_every_command(layer, capsys):
    compared = found_by(capsys, "compare", layer, "--sync", "row")["rows"]
    simulated = found_by(capsys, "simulate", layer, "--sync", "row")
    assert simulated["improvement_points"] == compared[1]["predicted_points"] != 0
    predicted = found_by(capsys, "predict", layer)
    assert predicted["recommended"] == found_by(capsys, "compare", layer, "--sync", "row")["recommended"]


def test_generated_code_waits_for_the_tiles_of_a_layer_and_for_the_splits_that_a_device_needs(
    layer, tmp_path, capsys
):
    assert main(["gen", layer, "--sync", "row"]) == 0
    assert "qkv[(40 + (x // 4)), :(y + 1)]" in capsys.readouterr().out
    after = '[[stages]]\nname = "out"\ngrid = [32, 1]\nflops = 1e9\nthreads = 128\nregisters = 168\n'
    needs = '[[dependencies]]\nconsumer = "out"\nneeds = ["attention[:, :]"]\n'
    path = tmp_path / "decode.toml"
    path.write_text(f'device = "h200"\n{DECODE}{after}shared_bytes = 98304\n{needs}')
    assert main(["gen", str(path), "--sync", "tile"]) == 0
    text = capsys.readouterr().out
    assert "8 x 4 x 4" in text
    ranked = found_by(capsys, "tune", str(path))["plans"]
    assert 0 < ranked[0]["predicted_ns"] == min(plan["predicted_ns"] for plan in ranked)
