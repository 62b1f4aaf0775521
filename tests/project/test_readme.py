"""The example runs and describes docs/pair.toml; claims, and those of the records, are committed."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import own_file
from wavesim.work.description.reader import load_description
from wavesim_gpu.__main__ import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EVIDENCE = (ROOT / "docs" / "records" / "predictions.md").read_text(encoding="utf-8")
COMMITTED = json.loads((ROOT / "wavesim" / "recordings" / "scores.json").read_text(encoding="utf-8"))
SCORES = {score["name"]: score for score in COMMITTED["sets"]}
TEN, MOST_LINES = 10, 90
MEDIAN, P90 = "median_abs_error_points", "p90_abs_error_points"
NO_GAIN, NOISE = "no_gain_median_points", "noise_points"


def ten_lines() -> str:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    return str(code)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the ten lines leave, after a run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(ten_lines(), found)  # noqa: S102  # our own README
    return found


def test_the_readme_is_short():
    assert len(README.splitlines()) <= MOST_LINES


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


def test_the_readme_counts_the_notebooks():
    count = len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert f"[{count} notebooks](notebooks)" in README


def test_the_lab_serves_the_folder_that_the_notebooks_links_lead_to():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "jupyterlab --ServerApp.root_dir=. $(LAB_ARGS) notebooks/01_start_here.ipynb" in makefile


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def points(figure: float) -> str:
    return f"{figure:.1f}"


def test_every_row_of_the_evidence_is_a_committed_score():
    rows = [cells(line) for line in EVIDENCE.splitlines() if re.search(r"\(`[\w-]+`\) \|", line)]
    named = {re.findall(r"`([\w-]+)`", row[0])[-1]: row[1:] for row in rows}
    assert {"own-1-block", "own-kernel-times", "hopper-stream-k", "judged-all"} < set(named)
    for name, row in named.items():
        score = SCORES[name]
        errors = [points(score[MEDIAN]), points(score[P90])]
        if score[f"before_{MEDIAN}"] is not None:
            before = [points(score[f"before_{MEDIAN}"]), points(score[f"before_{P90}"])]
            errors = [", ".join(before), ", ".join(errors)]
        expected = [str(score["cases"]), *errors, points(score[NO_GAIN]), points(score[NOISE])]
        assert [cell.removesuffix(" points") for cell in row] == expected, name


MODEL = " ".join(
    " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    for page in ("the-model.md", "mechanisms.md", "records/predictions.md")
)


def both(name: str, before: str = "") -> str:
    return f"{points(SCORES[name][before + MEDIAN])}, {points(SCORES[name][before + P90])}"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("portable GEMM: {now} with one block per SM", "own-1-block"),
        ("Hopper GEMM: {now} |", "hopper-1-block"),
        ("; {now} with two. Hopper GEMM", "own-2-blocks"),
        ("| {now} (our GEMM);", "own-kernel-times"),
        ("(our GEMM); {now} (published V100 and A100 MLPs)", "published-mlp"),
        ("Errors are {now} points (median, 90 %; test split)", "hopper-stream-k"),
        ("one block per SM ({before} to {now} points)", "hopper-1-block"),
        ("dependent launch ({before} to {now})", "hopper-pdl"),
        ("Stream-K ({before} to {now})", "hopper-stream-k"),
        ("split-K ({before} to {now})", "hopper-split-k"),
        ("unequal tiles ({before} to {now})", "hopper-unequal"),
        ("{coverage} % of the first recordings", "own-all"),
        ("{coverage} % of the blind run", "judged-all"),
    ],
)
def test_what_the_model_page_says_of_errors_is_a_committed_score(words, name):
    shown = {"now": both(name), "before": both(name, "before_") if "{before}" in words else ""}
    assert words.format(**shown, coverage=round(100 * (SCORES[name]["coverage"] or 0))) in MODEL


def test_the_page_of_evidence_has_every_device_and_family_left_out_as_committed():
    left_out = COMMITTED["left_out"]
    assert left_out
    for one in left_out:
        share = f"{round(100 * one['coverage'])} % | ±{one['median_half_width_points']:.1f} |"
        lines = [
            line for line in EVIDENCE.splitlines() if line.startswith(f"| {one['what'].replace(': ', ' ')} |")
        ]
        assert [line.endswith(share) for line in lines] == [True], one["what"]


def test_every_file_that_the_model_page_names_exists():
    for path in re.findall(r"`(wavesim/[\w/.]+)`", MODEL):
        assert (ROOT / path).exists(), path


def constant(name: str) -> float:
    """The value of "section.name", or of "backends.backend.schedule.name", in the H200's data files."""
    return float(own_file("h200").constants[name].value)


@pytest.mark.parametrize(
    ("words", "name", "unit"),
    [
        ("where n·d exceeds {:g}, otherwise 0", "sharing.crowded_demand", 1),
        ("together demand {:g} SMs", "sharing.full_demand", 1),
        ("where they reach 4.1 | {:g} TB/s", "memory.dram_bytes_per_s", 1e12),
        ("copies of what the other holds | {:g} MB", "memory.l2_bytes", 1e6),
        ("the bend: {:g} with one block per SM", "memory.sharpness", 1),
        ("one block per SM, {:g} with more", "memory.shared_sharpness", 1),
        ("at their own place in K | {:g} |", "memory.scattered_share", 1),
        ("nearly idle device | {:g} on an H200", "clock.gain", 1),
        ("spread² = {:g} + 100", "interval.least_points", 1),
        ("100 · {:g} µs / t_stream", "interval.startup_ns", 1_000),
        ("+ {:g} · idle", "interval.idle_share", 1),
        ("+ {:g} · slower", "interval.dram_share", 1),
        ("+ {:g} · gain", "interval.gain_share", 1),
        ("Hopper kernel | {:g} and 7.2 µs", "backends.hopper.tile.partial_ns", 1_000),
        ("Hopper kernel | 5.4 and {:g} µs", "backends.hopper.tile.fixup_ns", 1_000),
    ],
)
def test_a_constant_on_the_model_page_is_the_data_files(words, name, unit):
    assert words.format(constant(name) / unit) in MODEL


def test_every_cost_that_the_model_page_names_is_a_field_of_the_cost_model():
    named = set(re.findall(r"`CostModel\.(\w+)`", MODEL))
    assert len(named) > 10
    assert named <= {field.name for field in fields(CostModel)}


def test_the_lines_for_a_pytorch_program_name_what_is_there():
    (code,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    named = set(re.findall(r"wavesim_gpu\.torch\.(\w+)", code))
    public = (ROOT / "gpu" / "wavesim_gpu" / "torch" / "__init__.py").read_text(encoding="utf-8")
    assert named == {"optimize", "restore"}
    assert named <= set(re.findall(r'"(\w+)"', public.partition("__all__")[2]))
    for command in re.findall(r"python -m wavesim_gpu (\w+)", README):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0, command
