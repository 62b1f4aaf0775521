"""A published page holds the notebook with its figures and fetches nothing; the gallery is complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from wavesim.profile.advice import advise
from wavesim.profile.profile_file import EXAMPLE, load_profile
from wavesim.widgets.advice_browser import AdviceBrowser
from wavesim.widgets.static import SHOWN

ROOT = Path(__file__).parents[2]
QUICK = "03_stream_order"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pages") / "out"
    notebook = ROOT / "notebooks" / f"{QUICK}.ipynb"
    command = [sys.executable, ROOT / "tools" / "render_pages.py", notebook, "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return out


def test_a_page_shows_figures_widgets_predictions_and_results(pages):
    text = (pages / f"{QUICK}.html").read_text(encoding="utf-8")
    assert text.count("plotly-graph-div") == 1
    assert text.count("new PageModel(") >= 2  # a timeline and the widgets
    assert "wavesim-drawn" in text
    assert "Commit to an answer before you read on" in text
    assert "<b>240</b>" in text
    assert "3.1 is open" in text
    assert "application/vnd.jupyter.widget" not in text
    assert "This widget needs a running kernel" not in text
    assert "show_static" not in text


def test_the_advice_browser_shows_its_findings_and_its_pair_without_a_kernel():
    browser = AdviceBrowser(advise(load_profile(EXAMPLE)))
    text = browser.html()
    assert browser.findings.value in text
    assert "flash_fwd_kernel" in text
    assert text.count('<div id="wavesim-drawn-') == 1
    assert AdviceBrowser in SHOWN


def test_a_page_fetches_nothing_and_carries_plotly_once(pages):
    for path in pages.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        fetched = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"([^\"]+)\"", text)
        assert all(not source.startswith(("http", "//")) for source in fetched), (path.name, fetched)
        assert path.stat().st_size < 1_000_000
    assert (pages / "plotly.min.js").stat().st_size > 1_000_000


def test_a_pages_links_lead_to_pages(pages):
    text = (pages / f"{QUICK}.html").read_text(encoding="utf-8")
    local = [link for link in re.findall(r'<a href="([^"#]+)"', text) if not link.startswith("http")]
    assert "solutions/index.html" in local
    assert not [link for link in local if link.endswith(".ipynb")]
    index = (pages / "index.html").read_text(encoding="utf-8")
    for link in (
        *re.findall(r'href="([^"#]+)"', index),
        "solutions/index.html",
        "synchronise-your-kernel.html",
    ):
        assert (pages / link).is_file(), link


def test_the_gallery_shows_every_picture_that_is_drawn_and_no_other():
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(images/gallery/(\w+)\.webp\)", text))
    drawn = set(
        re.findall(r'^    "(\w+)": ', (ROOT / "tools" / "draw_gallery.py").read_text(), flags=re.MULTILINE)
    )
    assert shown == drawn == {path.stem for path in (ROOT / "docs" / "images" / "gallery").glob("*.webp")}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / "docs" / target).exists(), target
