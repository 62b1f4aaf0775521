"""The page: one file with everything in it, in either theme, and safe against what stands in its texts."""

import json
import re
from pathlib import Path

import plotly.graph_objects as go
import pytest

from wavesim import StreamSync, gpt3_mlp, simulate, timeline
from wavesim.model.device import load
from wavesim.predict.defaults import default_costs
from wavesim.view.figure import figure_html
from wavesim.view.page import Table, page_html, write_page
from wavesim.view.theme import DARK, LIGHT, counterparts


@pytest.fixture
def figure() -> go.Figure:
    bar = go.Bar(x=[1], y=[2], marker_color=LIGHT.stages[0])
    return go.Figure(bar, layout={"paper_bgcolor": LIGHT.background})


def embedded(page: str) -> dict:
    found = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def test_a_page_is_one_file_that_loads_nothing(figure: go.Figure, tmp_path: Path) -> None:
    path = write_page(tmp_path / "new" / "page.html", title="Finding", figures=[figure])
    text = path.read_text(encoding="utf-8")
    assert [path.name for path in path.parent.iterdir()] == ["page.html"]
    own = text.replace(max(re.findall(r"<script>.*?</script>", text, re.DOTALL), key=len), "")
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(""", own)


def test_plotly_is_inside_once_however_many_figures(figure: go.Figure) -> None:
    one, three = (len(page_html(title="t", figures=[figure] * count)) for count in (1, 3))
    assert 400_000 < one < 1_000_000
    assert three - one < 50_000


def test_every_colour_of_the_light_theme_has_a_dark_counterpart() -> None:
    colours = counterparts(LIGHT, DARK)
    assert colours[LIGHT.background] == DARK.background
    assert colours[LIGHT.ink] == DARK.ink
    assert [colours[colour] for colour in LIGHT.stages] == list(DARK.stages)
    assert colours["rgba(11,122,102,"] == "rgba(46,211,176,"


def test_texts_are_escaped_and_cannot_end_the_script(figure: go.Figure) -> None:
    figure.update_layout(title="</script><script>alert(1)</script>")
    page = page_html(title="a < b & c", figures=[figure], notes=["<b>"])
    assert "<h1>a &lt; b &amp; c</h1>" in page
    assert "<li>&lt;b&gt;</li>" in page
    assert "alert(1)</script>" not in page


def test_table_numbers_stand_right_and_gains_and_losses_are_told_apart(figure: go.Figure) -> None:
    table = Table(
        ("tokens", "plan", "measured"),
        [("1024", "row", "+14.3"), ("2048", "row", "−0.4"), ("4096", "row", "–")],
        "Points, measured on NVIDIA H200.",
        signed=("measured",),
    )
    page = page_html(title="t", figures=[figure], table=table)
    assert '<td class="number gain">+14.3</td>' in page
    assert '<td class="number loss">−0.4</td>' in page
    assert '<td class="number">–</td>' in page
    assert "<td>row</td>" in page
    assert "<caption>Points, measured on NVIDIA H200.</caption>" in page


def test_a_page_carries_large_timelines_in_both_themes() -> None:
    trace = simulate(
        gpt3_mlp(6144), StreamSync(), load("h200"), default_costs(gpt3_mlp(6144), load("h200"))[0]
    )
    light, dark = (timeline([trace, trace], theme=theme) for theme in ("light", "dark"))
    layout = embedded(page_html(title="t", figures=[light]))["figures"][0]["layout"]
    assert len(layout["images"]) == 2
    assert layout["meta"]["darkImages"] == [image.source for image in dark.layout.images]
    # plotly writes a slash of base64 as its code
    assert figure_html(light).replace("\\u002f", "/").count(dark.layout.images[0].source) == 2
