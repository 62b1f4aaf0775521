"""The page of the paper's figures: what its command writes, and measured gains by hand."""

import pytest

from wavesim.evaluation import paper_figures as figures
from wavesim.evaluation.model_pages import WORKS


@pytest.fixture
def few(monkeypatch):
    """One model at one size, as simulating takes time."""
    monkeypatch.setattr(figures, "MODELS", {"LLaMA": figures.MODELS["LLaMA"]})
    monkeypatch.setattr(figures, "SIZES", (512,))
    monkeypatch.setattr(figures, "WORKS", WORKS[:1])


def test_the_page_has_the_rows_that_its_command_writes(few):
    page = figures.PAGE.read_text("utf-8")
    for table in (figures.mlp_table(), figures.attention_table(), figures.end_to_end_table()):
        assert all(f"{line}\n" in page for line in table.splitlines())


def test_all_that_is_not_a_table_is_the_text(monkeypatch):
    for name in ("mlp_table", "attention_table", "end_to_end_table"):
        monkeypatch.setattr(figures, name, lambda: "A TABLE")
    for name in ("layer_table", "network_table"):
        monkeypatch.setattr(figures.paper_convolutions, name, lambda: "A TABLE")
    page = figures.PAGE.read_text("utf-8")
    assert all(part.strip() in page for part in figures.page().split("A TABLE"))


def test_a_modelled_all_reduce_on_both_sides_makes_a_measured_gain_smaller(monkeypatch):
    times = {"torch": 1, "stream": 100, "pdl": 95, "semaphores": 90}
    monkeypatch.setattr(figures, "_graph_times", lambda *asked: times)
    assert figures._measured_layer("x", 1, 0) == "+10.0 (semaphores)"
    assert figures._measured_layer("x", 1, 100) == "+5.0 (semaphores)"
    monkeypatch.setattr(figures, "_graph_times", lambda *asked: {})
    assert figures._measured_layer("x", 1, 0) == figures.NOTHING
