"""Views as files: pages that need no network, vector and pixel pictures, and what is refused in words."""

import re
import struct
import xml.etree.ElementTree as ET

import pytest
from plotly.graph_objects import Figure, Scatter

from wavesim import (
    DeviceError,
    SemaphoreSync,
    StreamSync,
    TileSync,
    device,
    simulate,
    toy,
    zero_cost,
)
from wavesim.safe_io.escaping import Markup
from wavesim.view.export import save_html
from wavesim.view.figure import save_figure
from wavesim.widgets import DependencyExplorer, OccupancyExplorer, TunerView, WavePlayer, WhatIf

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def traces():
    pipeline = toy()
    plans = (StreamSync(), SemaphoreSync(TileSync()))
    return [simulate(pipeline, plan, device("toy"), zero_cost(pipeline, 1_000)) for plan in plans]


def texts(picture):
    """All words of an SVG."""
    return [" ".join(node.itertext()) for node in picture.iter(f"{SVG}text")]


def png_size(path):
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def test_a_widgets_page_is_complete_and_fetches_nothing(tmp_path, traces):
    page = (
        WavePlayer(traces[1], step=3).save(tmp_path / "new" / "player.html", theme="dark").read_text("utf-8")
    )
    assert page.startswith("<!DOCTYPE html>")
    assert 'data-theme="dark"' in page
    assert '"step":3' in page
    assert not re.search(r"(src|href)=", page)
    assert set(re.findall(r"https?://[^\"'` ]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_two_widgets_on_one_page_have_places_of_their_own(traces):
    pages = [WavePlayer(traces[1]).html(), WavePlayer(traces[1]).html()]
    names = [re.search(r'<div id="(wavesim-drawn-\d+)">', page)[1] for page in pages]
    assert names[0] != names[1]
    assert all(f"getElementById('{name}')" in page for name, page in zip(names, pages, strict=True))


def test_data_cannot_end_the_script_it_stands_in(traces):
    from dataclasses import replace

    header = replace(traces[1].header, workload="</script><b>")
    assert "</script><b>" not in WavePlayer(replace(traces[1], header=header)).html()


def test_without_a_browser_pictures_are_refused_with_what_to_install_and_pages_are_not(
    tmp_path, traces, monkeypatch
):
    monkeypatch.setattr("wavesim.view.export.shutil.which", lambda _: None)
    for ending in ("png", "svg"):
        with pytest.raises(DeviceError, match="apt-get install chromium"):
            WavePlayer(traces[1]).save(tmp_path / f"player.{ending}")
    assert WavePlayer(traces[1]).save(tmp_path / "player.html").exists()


def test_a_browser_that_fails_is_named(tmp_path, traces, monkeypatch):
    monkeypatch.setattr("wavesim.view.export.shutil.which", lambda _: "/bin/false")
    with pytest.raises(DeviceError, match="/bin/false failed to draw the picture"):
        WavePlayer(traces[1]).save(tmp_path / "player.svg")


@pytest.mark.slow
@pytest.mark.browser
def test_every_drawn_widget_becomes_a_vector_picture_with_its_words(tmp_path, traces, chromium):
    widgets = {
        "player": (WavePlayer(traces[1], step=40), "Tile semaphores: 3 waves, 100 % of SM time busy"),
        "plans": (WhatIf(workload="toy", policy="tile"), "half-empty waves filled, 4 → 3 waves"),
        "tiles": (DependencyExplorer(toy(), SemaphoreSync(TileSync())), "Tile (0, 1) of gemm2 reads 2 tiles"),
        "occupancy": (OccupancyExplorer(), "2 blocks per SM"),
        "gains": (TunerView.recorded(), "points at best"),
    }
    page = Markup("").join(widget.html() for widget, _ in widgets.values())
    drawing = ET.parse(save_html(page, tmp_path / "widgets.svg"))  # noqa: S314  # our own file
    pictures = drawing.getroot().findall(f"{SVG}svg")
    assert len(pictures) == len(widgets) + 1  # the tuner's, the last, shows a run below its gains
    for name, picture, (_, words) in zip(widgets, pictures, widgets.values(), strict=False):
        found = texts(picture)
        assert any(words in text for text in found), (name, found)


@pytest.mark.slow
@pytest.mark.browser
def test_a_picture_has_twice_the_pixels_of_its_drawing(tmp_path, traces, chromium):
    player = WavePlayer(traces[1])
    drawing = ET.parse(player.save(tmp_path / "player.svg", width=900)).getroot()  # noqa: S314  # our own file
    columns, rows = png_size(player.save(tmp_path / "player.png", width=900))
    assert (columns, rows) == (2 * int(drawing.get("width")), 2 * round(float(drawing.get("height"))))
    assert columns == 1800


def test_a_legend_is_whole_where_the_readers_font_is_wider_than_the_writers(tmp_path, chromium):
    figure = Figure([Scatter(y=[1, 2], name="first"), Scatter(y=[2, 1], name="second")])
    drawn = save_figure(figure, tmp_path / "legend.svg").read_text(encoding="utf-8")
    assert 'class="legendtext"' in drawn
    assert not re.search(r'clip-path="[^"]*#legend', drawn)
