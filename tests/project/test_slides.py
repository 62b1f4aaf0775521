"""The lecture's slides: every figure that they name is drawn, and each is a page of its own."""

import importlib
import tomllib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def make_slides(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("make_slides")


def test_the_slides_are_one_file_with_every_title_and_figure_and_fetch_nothing(make_slides):
    slides = tomllib.loads(make_slides.FILE.read_text(encoding="utf-8"))["slides"]
    named = {slide["figure"] for slide in slides if "figure" in slide}
    assert named <= set(make_slides.FIGURES)
    assert all(slide.keys() <= {"title", "says", "figure", "ask"} for slide in slides)
    page = make_slides.slides_page(slides, dict.fromkeys(named, b"<svg/>"))
    assert page.count("<section") == len(slides) >= 12
    assert page.count("data:image/svg+xml") == sum("figure" in slide for slide in slides)
    assert "http" not in page
