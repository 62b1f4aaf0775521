"""The ten lines of the README run as they stand and describe docs/pair.toml; the lab serves its links."""

import re
from pathlib import Path
from typing import Any

import pytest

from wavesim.model.description import load_description

ROOT = Path(__file__).parents[2]
TEN = 10


def ten_lines() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return str(code)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the ten lines leave, after a run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(ten_lines(), found)  # noqa: S102  # our own README
    return found


def test_the_ten_lines_are_ten_and_write_a_page_with_a_gain(names, tmp_path):
    assert len([line for line in ten_lines().splitlines() if line]) == TEN
    stream, row = names["traces"]
    assert row.time_ns < stream.time_ns
    assert "plotly" in (tmp_path / "pair.html").read_text(encoding="utf-8")


def test_the_ten_lines_and_the_toml_file_describe_one_pair(names):
    described, ours = load_description(ROOT / "docs" / "pair.toml"), names["pipeline"]
    assert described.device == names["device"]("h200")
    for stage, other in zip(described.pipeline.stages, ours.stages, strict=True):
        assert (stage.name, stage.kernel.grid) == (other.name, other.kernel.grid)
        assert stage.kernel.block == other.kernel.block
        waves = -(-stage.kernel.grid.size // described.device.sm_count)
        assert described.kernel_ns[stage.name] == waves * names["costs"].tile_ns[stage.name]
    assert described.pipeline.dependencies[0].producer_tiles(5, 3) == ours.dependencies[0].producer_tiles(
        5, 3
    )


def test_the_lab_serves_the_folder_that_the_notebooks_links_lead_to():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "jupyterlab --ServerApp.root_dir=. notebooks/01_start_here.ipynb" in makefile
