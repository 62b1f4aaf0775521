"""The pages of descriptions have every field as the code knows it, and their examples are read."""

import re
from pathlib import Path

import pytest

from wavesim.profile.pair_file import load_answers
from wavesim.work.description.fields import fields_table
from wavesim.work.description.reader import load_description
from wavesim.work.kinds import sections

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PROFILE_PAGE = (
    (DOCS / name).read_text(encoding="utf-8") for name in ("describe-your-kernels.md", "from-a-profile.md")
)
EXAMPLE, CONVOLUTION, LAYER, DECODE, DEVICE = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
(ANSWERS,) = re.findall(r"```toml\n(.*?)```", PROFILE_PAGE, re.DOTALL)


@pytest.mark.parametrize("section", sections())
def test_the_page_has_the_table_of_fields_as_the_code_has_it(section: str):
    assert fields_table(sections()[section]) in PAGE


def test_every_field_says_what_to_write():
    assert all(field.example for fields in sections().values() for field in fields)


def test_the_example_and_its_device_are_read(tmp_path: Path):
    path = tmp_path / "pair.toml"
    path.write_text(EXAMPLE)
    found = load_description(path)
    assert [str(stage.grid) for stage in found.pipeline.stages] == ["24 x 8", "96 x 4"]
    assert found.syncs == ("row", "tile", "pdl+row")
    path.write_text('device = "h200"\ndependencies = []\n' + CONVOLUTION)
    assert [str(stage.grid) for stage in load_description(path).pipeline.stages] == ["1 x 49"]
    path.write_text('device = "h200"\n' + LAYER)
    stages = load_description(path).pipeline.stages
    assert [str(stage.grid) for stage in stages] == ["48 x 8", "32 x 8", "32 x 8", "1 x 128"]
    path.write_text('device = "h200"\ndependencies = []\n' + DECODE)
    assert [str(stage.grid) for stage in load_description(path).pipeline.stages] == ["8 x 4 x 4"]
    path.write_text(DEVICE + EXAMPLE.replace('device = "h200"', ""))
    assert load_description(path).device.sm_count == 114


def test_the_lines_of_python_run_on_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "pair.toml").write_text(EXAMPLE)
    monkeypatch.chdir(tmp_path)
    exec(code, {})  # noqa: S102  # our own page
    assert "Row semaphores" in capsys.readouterr().out


def test_the_answers_about_a_pair_are_read(tmp_path: Path):
    path = tmp_path / "answers.toml"
    path.write_text(ANSWERS)
    found = load_answers(path)
    assert (found.pair, found.reads) == (1, "row")
    assert found.producer["tile"] == [128, 256, 64]
    assert found.consumer["kernel_us"] == 135.0
