"""What Jupyter shows of a pipeline and of a trace: well-formed, escaped, small, and without plotly."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from html import unescape

import pytest
from support.toy_schedules import TOY, run

from wavesim.costs.cost_model import zero_cost
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.sim.simulation import simulate
from wavesim.view.pipeline_picture import MOST_STAGES
from wavesim.view.theme import DARK, LIGHT
from wavesim.view.trace_picture import MOST_RECTANGLES
from wavesim.workloads.catalogue import WORKLOADS, workload
from wavesim.workloads.figure_one import toy

HOSTILE = "<script>alert(1)</script>&\"'"


def parsed(html):
    return ET.fromstring(html)  # noqa: S314  # our own text


def texts(tree, tag="text"):
    return ["".join(node.itertext()) for node in tree.iter(tag)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pipeline_shows_stages_grids_waves_and_dependencies(name):
    pipeline = workload(name)
    html = pipeline._repr_html_()
    tree = parsed(html)
    words = texts(tree)
    for stage in pipeline.stages[:MOST_STAGES]:
        assert stage.name in words
        assert any(text.startswith(f"{stage.grid.y} × {stage.grid.x} tiles") for text in words)
    assert texts(tree, "code") == [str(dependency) for dependency in pipeline.dependencies[:MOST_STAGES]]
    hidden = len(pipeline.stages) - MOST_STAGES
    assert [text for text in texts(tree, "p") if text and text.startswith("and ")] == (
        [f"and {hidden} more stage{'s' * (hidden > 1)}"] if hidden > 0 else []
    )
    assert len(html) < 20_000


def test_waves_are_blocks_over_resident_blocks():
    rows = [list(row) for row in parsed(workload("gpt3-mlp")._repr_html_()).iter("tr")]
    names = [cell.text for cell in rows[0]]
    first = dict(zip(names, [cell.text for cell in rows[1]], strict=True))
    assert first["waves"] == "gemm1"
    assert first["h200"] == f"{24 * 8 / 132:.2f}"
    assert first["t4"] == "–"  # its SMs have no room for 96 KB


def test_the_tiles_that_one_tile_reads_are_marked():
    tree = parsed(toy()._repr_html_())
    solid = [
        (float(rect.get("width")), rect.get("class"))
        for rect in tree.iter("rect")
        if rect.get("class") in ("stage0", "stage1")
    ]
    assert sorted(solid) == [(14.0, "stage1"), (28.0, "stage0")]  # one tile, and a row of two


def test_names_of_a_users_cannot_become_markup():
    kernel = Kernel("k", Grid(2, 2), Block(64))
    first, second = Stage(HOSTILE, kernel), Stage("b", kernel)
    pipeline = Pipeline(HOSTILE, [first, second], [Dependency(second[x, y], [first[x, y]])])
    trace = simulate(pipeline, StreamSync(), TOY, zero_cost(pipeline, 1000))
    for html in (pipeline._repr_html_(), trace._repr_html_()):
        assert "<script" not in html
        assert HOSTILE in unescape(html)
        parsed(html)


def test_a_trace_is_one_rectangle_per_tile_and_says_what_it_found():
    trace = run(toy(), SemaphoreSync(TileSync()))
    tree = parsed(trace._repr_html_())
    tiles = {node.get("class"): node.get("d").count("M") for node in tree.iter("path") if node.get("class")}
    assert (tiles["stage0"], tiles["stage1"]) == (6, 6)
    assert texts(tree)[0] == "Tile semaphores: 3 waves, 100 % of SM time busy"
    assert "SM 3" in texts(tree)


def test_a_large_trace_is_a_small_picture_in_both_themes():
    pipeline, device = workload("gpt3-mlp", 8192), load("h200")
    trace = simulate(pipeline, StreamSync(), device, zero_cost(pipeline, 1000))
    assert len(trace) > MOST_RECTANGLES
    html = trace._repr_html_()
    images = [node.get("class") for node in parsed(html).iter("image")]
    assert images == ["if-light", "if-dark"]
    assert len(html) < 60_000


def test_both_themes_are_in_the_style_and_jupyters_has_the_last_word():
    html = toy()._repr_html_()
    assert html.index("prefers-color-scheme:dark") < html.index('[data-jp-theme-light="false"]')
    for theme in (LIGHT, DARK):
        assert f"--ink:{theme.ink}" in html


def test_a_display_needs_no_plotly(tmp_path):
    code = (
        "import sys; sys.modules['plotly'] = None\n"
        "from wavesim import StreamSync, device, simulate, toy, zero_cost\n"
        "p = toy(); p._repr_html_()\n"
        "simulate(p, StreamSync(), device('toy'), zero_cost(p, 1000))._repr_html_()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
