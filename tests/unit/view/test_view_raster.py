"""Large timelines: the picture that replaces bars holds the schedule to the pixel."""

import plotly.graph_objects as go
import pytest

from wavesim.costs.cost_model import zero_cost
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.view.raster import EMPTY, FIRST_STAGE, IDLE, IDLE_HATCH, lay_out, paint
from wavesim.view.timeline_data import MAX_BARS
from wavesim.view.timeline_figure import timeline
from wavesim.workloads.figure_one import TILE_NS, toy
from wavesim.workloads.mlps import gpt3_mlp


@pytest.fixture(scope="module")
def large() -> list[Trace]:
    return [simulate(gpt3_mlp(3072), plan, load("h200")) for plan in (StreamSync(), SemaphoreSync())]


@pytest.fixture(scope="module")
def stream() -> Trace:
    return simulate(toy(), StreamSync(), load("toy"), zero_cost(toy(), TILE_NS))


def bars_drawn(figure: go.Figure) -> int:
    stages = [series for series in figure.data if series.type == "bar" and " = " in series.name]
    return sum(x is not None for series in stages for x in series.x)


def test_up_to_3000_tiles_are_bars_and_more_are_a_picture(large: list[Trace]) -> None:
    one, two = timeline(large[0]), timeline(large)
    assert len(large[0]) <= MAX_BARS < sum(map(len, large))
    assert bars_drawn(one) == len(large[0])
    assert not one.layout.images
    assert bars_drawn(two) == 0
    assert [image.source[:22] for image in two.layout.images] == ["data:image/png;base64,"] * 2


def test_a_picture_still_names_tiles_under_the_pointer(large: list[Trace]) -> None:
    points = [
        series
        for series in timeline(large).data
        if series.type == "scatter" and series.customdata is not None
    ]
    assert len(points) == 2
    assert set(points[0].text) == {"gemm1", "gemm2"}


def test_the_picture_holds_exactly_as_many_pixels_of_each_kind_as_the_schedule(
    stream: Trace,
) -> None:
    rows = lay_out(stream)
    pixels = b"".join(paint(rows, stream.stage, width=80, scale=1, end_ns=4_000))
    counts = {code: pixels.count(code) for code in range(FIRST_STAGE + 2)}
    gaps = 12  # one pixel at the end of each tile
    assert counts[FIRST_STAGE] == counts[FIRST_STAGE + 1] == 6 * 20 - 6
    assert counts[IDLE] + counts[IDLE_HATCH] == 4 * 20
    assert counts[EMPTY] == gaps
