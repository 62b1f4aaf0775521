"""Models' pages: what their command writes, parts in percent, and measured layers beside their simulation."""

import pytest

from wavesim.evaluation import model_pages as pages
from wavesim.evaluation.layer_graphs_table import newest_run

NAME = "qwen2.5-0.5b"
WORK = pages.LayerWork("prefill", 256)
LABEL = "pdl+row, best tiles, attention reversed:row"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(pages, "WORKS", (WORK,))


def run_of(**changes):
    stream = {"class": "stream", "label": "stream, best tiles, attention row", "median_ns": 110_000}
    finalist = {"class": "semaphores", "label": LABEL, "median_ns": 100_000}
    torch = {"class": "torch", "label": "cuBLASLt", "median_ns": 120_000}
    case = {
        "kind": "layer",
        "model": NAME,
        "tokens": 256,
        "name": "x",
        "finalists": [torch, stream, finalist],
    }
    top = {"device": {"name": "a GPU"}, "date": "2026-01-02T03:04", "commit": "abcdef123"}
    return {**top, "cases": [{**case, **changes}]}


def test_the_smallest_models_page_is_what_its_command_writes():
    path = pages.DOCS / "models" / f"{NAME}.md"
    assert path.read_text("utf-8") == pages.page(NAME, newest_run(pages.FOLDER)) + "\n"


def test_every_model_has_a_page_and_pictures():
    for name in pages.MODELS:
        assert (pages.DOCS / "models" / f"{name}.md").exists()
        for theme in pages.THEMES:
            assert (pages.DOCS / "images" / "models" / f"{name}-{theme}.svg").exists()


def test_the_first_ways_bar_is_a_hundred_percent_and_others_what_they_save(small):
    found = pages.simulated(NAME, WORK)
    drawn = pages.figure(NAME).data
    for index, way in enumerate(found.ways):
        length = sum(part.x[index] for part in drawn)
        assert length == pytest.approx(100 - found.gain_points(way))


def test_a_measured_layer_stands_beside_pytorch_and_the_simulation_of_its_own_plan(small):
    ns = pages.simulated_plan_ns(NAME, WORK, LABEL)
    stream_ns = pages.simulated_plan_ns(NAME, WORK, "stream, best tiles, attention row")
    text = pages.page(NAME, {**run_of(), "serialises_bias": False})
    saved = 100 * (1 - ns / stream_ns)
    said = f"{ns / 1e3:.1f} | {saved:+.1f} | {ns / 1e3 - 100:+.1f}"
    assert f"| {LABEL} | 100.0 | 1.200 | +9.1 | {said} |" in text
    assert "| cuBLASLt | 120.0 | 1.000 |  |  |  |  |" in text
    assert "One a GPU, 2026-01-02, commit abcdef1" in text
    assert pages.OLDER_BIAS not in text


def test_a_layer_of_older_kernels_stands_beside_the_simulation_of_these(small):
    older_ns = pages.simulated_plan_ns(NAME, WORK, LABEL, serialises_bias=True)
    assert older_ns > pages.simulated_plan_ns(NAME, WORK, LABEL)
    text = pages.page(NAME, run_of())
    assert f"| {LABEL} | 100.0 | 1.200 | +9.1 | {older_ns / 1e3:.1f} |" in text
    assert pages.OLDER_BIAS in text


@pytest.mark.parametrize("changes", [{"model": "llama-65b"}, {"failed": "no memory"}, {"kind": "chain"}])
def test_without_a_measured_layer_of_the_model_the_page_says_so(small, changes):
    assert pages.UNMEASURED in pages.page(NAME, run_of(**changes))


def test_no_measurement_at_all_is_said_too(small, tmp_path):
    assert newest_run(tmp_path) is None
    assert pages.UNMEASURED in pages.page(NAME, None)


def test_other_tiles_than_those_simulated_have_no_prediction():
    assert pages.simulated_plan_ns(NAME, WORK, "row, 128x128 tiles, attention row") is None
