"""Timelines: what is on the figure, recomputed from the traces; pixels are looked at, not tested."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import ColumnMajor
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import Semaphores
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.view.raster import FIRST_STAGE, lay_out, paint
from wavesim.view.theme import DARK, LIGHT
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.timeline_figure import timeline
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.workloads.figure_one import TILE_NS, toy
from wavesim.workloads.mlps import gpt3_mlp


def run(plan: Plan, pipeline: Pipeline | None = None) -> Trace:
    chosen = pipeline or toy()
    return simulate(chosen, plan, load("toy"), zero_cost(chosen, TILE_NS))


@pytest.fixture(scope="module")
def figure_one() -> list[Trace]:
    return [run(StreamSync()), run(SemaphoreSync())]


@pytest.fixture(scope="module")
def waiting_trace() -> Trace:
    """Both orders by columns: one tile of the second kernel waits half a tile time for its second input."""
    return run(SemaphoreSync(TileSync(), order=ColumnMajor()))


@pytest.fixture(scope="module")
def large() -> list[Trace]:
    return [simulate(gpt3_mlp(3072), plan, load("h200")) for plan in (StreamSync(), SemaphoreSync())]


def as_measured(trace: Trace, rounds_ns: tuple[int, ...] = (4_000,) * 20) -> Trace:
    device = {**trace.header.device, "name": "NVIDIA H200"}
    header = replace(
        trace.header,
        source="measured",
        device=device,
        date="2026-11-20T10:00",
        commit="abc1234def",
        rounds_ns=rounds_ns,
    )
    return replace(trace, header=header)


def tiles(figure: go.Figure) -> list[go.Bar]:
    return [series for series in figure.data if series.type == "bar" and series.name.partition(" = ")[1]]


def drawn(series: go.Bar) -> int:
    return sum(x is not None for x in series.x)


def words(figure: go.Figure) -> str:
    return "\n".join(note.text for note in figure.layout.annotations)


def test_every_stage_has_one_colour_in_all_panels(figure_one: list[Trace]) -> None:
    for theme in (LIGHT, DARK):
        colours = [series.marker.color for series in tiles(timeline(figure_one, theme=theme.name))]
        assert colours == [*theme.stages[:2], *theme.stages[:2]]


def test_bars_stand_where_the_trace_says(figure_one: list[Trace]) -> None:
    producer = tiles(timeline(figure_one[0]))[0]
    middle = np.asarray(producer.base, dtype=float) + np.asarray(producer.x) / 2
    np.testing.assert_allclose(middle, [0.5, 0.5, 0.5, 0.5, 1.5, 1.5], atol=1e-3)
    np.testing.assert_array_equal(producer.y, [0, 1, 2, 3, 0, 1])
    assert list(producer.text) == ["P0", "P1", "P2", "P3", "P4", "P5"]


def test_the_title_says_what_the_traces_show_together(figure_one: list[Trace]) -> None:
    stream, rows = figure_one
    said = {
        "Row semaphores: half-empty waves filled, 4 → 3 waves, 25 % less time": [stream, rows],
        "Row semaphores: 3 waves, 100 % of SM time busy": [rows],
        "Stream sync: 3 → 4 waves, 33.3 % more time": [rows, stream],
        "Stream sync: no gain, 4 → 4 waves": [stream, replace(stream)],
    }
    assert [timeline(traces).layout.title.text for traces in said.values()] == list(said)


def test_headers_and_end_lines_say_what_was_simulated_or_measured_where(figure_one: list[Trace]) -> None:
    text = words(timeline(figure_one, width=1400))
    for said in ("3 waves · 100 % of SM time busy · simulated on toy", "t = 4", "t = 3", "−25 %"):
        assert said in text
    text = words(timeline(as_measured(figure_one[1]), width=1200))
    assert "measured on NVIDIA H200, 2026-11-20, commit abc1234" in text
    assert "simulated" not in text


def test_gains_of_measured_traces_come_from_the_unrecorded_rounds(figure_one: list[Trace]) -> None:
    stream, row = as_measured(figure_one[0], (10_000,) * 20), as_measured(figure_one[1], (9_000,) * 20)
    text = words(timeline([stream, row]))
    assert "−10 %" in text
    assert "median: " in text


def test_a_measured_trace_has_no_gain_over_a_simulated_one(figure_one: list[Trace]) -> None:
    figure = timeline([figure_one[0], as_measured(figure_one[1])])
    assert "less time" not in figure.layout.title.text
    assert "−25 %" not in words(figure)


def test_stream_sync_shows_a_dashed_kernel_boundary(figure_one: list[Trace]) -> None:
    dashed = [shape for shape in timeline(figure_one).layout.shapes if shape.line.dash]
    assert [(shape.x0, shape.yref) for shape in dashed] == [(2.0, "y domain")]


def test_idle_slots_are_hatched_segments(figure_one: list[Trace]) -> None:
    idle = [series for series in timeline(figure_one).data if series.name == "idle SM"]
    assert [drawn(series) for series in idle] == [4, 0]
    assert idle[0].marker.pattern.shape == "/"


def test_a_wait_inside_a_block_is_drawn_where_it_was(waiting_trace: Trace) -> None:
    series = timeline(waiting_trace).data
    waits = next(one for one in series if one.name == "waiting for a semaphore")
    assert [list(part) for part in (waits.base, waits.x, waits.y)] == [[1.5], [0.5], [3]]
    assert list(waits.text) == ["C2 waits"]
    assert waits.marker.pattern.shape == "\\"
    assert waits.showlegend


def test_hovering_names_tile_sm_times_and_the_semaphore_awaited(waiting_trace: Trace) -> None:
    consumer = tiles(timeline(waiting_trace))[1]
    facts = next(row for row in consumer.customdata if "awaited" in row[9])
    assert facts[:9] == [0, 1, 3, 0, 1.0, 1.0, 2.5, 1.0, 0.5]
    assert facts[9] == "<br>awaited tile 3 of gemm1 = 1 for 0.5"


def test_segments_of_a_row_fill_its_time_exactly(waiting_trace: Trace) -> None:
    rows = lay_out(waiting_trace)
    blocks = (waiting_trace.end_ns - waiting_trace.issue_ns).sum()
    idle = (rows.idle.end_ns - rows.idle.start_ns).sum()
    assert blocks + idle == rows.count * rows.makespan_ns


@pytest.fixture
def uneven() -> Trace:
    """On 2 SMs of an H200 four blocks of one per SM, then eight of two per SM, each 1 us long."""
    sizes = {"large": (4, 150), "small": (8, 100)}
    stages = [
        Stage(name, Kernel(name, Grid(count), Block(128, 64, dynamic_shared_bytes=kib * 1024)))
        for name, (count, kib) in sizes.items()
    ]
    pipeline = Pipeline("uneven", stages)
    return simulate(pipeline, StreamSync(), load("h200").with_sm_count(2), zero_cost(pipeline, 1_000))


def test_a_block_that_fills_an_sm_covers_all_of_its_rows(uneven: Trace) -> None:
    rows = lay_out(uneven)
    assert (rows.count, rows.span.tolist()) == (4, [2] * 4 + [1] * 8)
    assert sorted(rows.work.row[:4].tolist()) == [0, 0, 2, 2]
    codes = paint(rows, uneven.stage, width=40, scale=1, end_ns=4_000)
    assert {line[5] for line in codes} == {FIRST_STAGE}
    assert {line[25] for line in codes} == {FIRST_STAGE + 1}
    large, small = (one for one in timeline(uneven).data if (one.name or "").startswith(("P =", "C =")))
    assert set(large.y) == {0.5, 2.5}
    assert [set(one.width) for one in (large, small)] == [{1.8}, {0.8}]
    assert not len(rows.idle)
    blocks = scene_of_timeline(timeline_parts([uneven]))["panels"][0]["blocks"]
    assert list(np.frombuffer(blocks["span"]["data"], np.uint8)) == [2] * 4 + [1] * 8


def test_busy_curves_come_from_the_trace(figure_one: list[Trace]) -> None:
    figure = timeline(figure_one)
    busy = [
        series
        for series in figure.data
        if series.type == "scatter" and "busy" in (series.hovertemplate or "")
    ]
    assert np.asarray(busy[0].y).tolist() == [1.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    assert np.asarray(busy[0].x).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 4.0]


@pytest.mark.parametrize("width", [700, 1000, 1200])
def test_panels_keep_apart_at_every_width(figure_one: list[Trace], width: int) -> None:
    layout = timeline(figure_one, width=width).layout
    domains = [layout.yaxis.domain, layout.yaxis2.domain, layout.yaxis3.domain]
    assert domains[0][0] > domains[1][1]
    assert domains[1][0] > domains[2][1]
    assert layout.width == width


def test_no_traces_an_empty_one_and_an_unknown_theme_are_refused(figure_one: list[Trace]) -> None:
    with pytest.raises(DescriptionError, match="traces is empty"):
        timeline([])
    with pytest.raises(DescriptionError, match="known are light, dark"):
        timeline(figure_one, theme="sepia")
    with pytest.raises(DescriptionError, match="width is 100"):
        timeline(figure_one, width=100)


def test_parts_of_tiles_are_outlined_numbered_and_explained() -> None:
    figure = timeline(run(Plan(StreamK(waves=1))))
    first = tiles(figure)[0]
    assert list(first.text) == ["P4.0", "P4.1", "P5.0", "P5.1", "P0", "P1", "P2", "P3"]
    assert [width > 0 for width in first.marker.line.width] == [True] * 4 + [False] * 4
    assert [facts[9] for facts in first.customdata[2:5]] == [
        ", part: K iterations 0 to 48 of 96",
        ", part: K iterations 48 to 96 of 96",
        "",
    ]
    assert all(bar.marker.line.width == 0 for bar in tiles(timeline(run(StreamSync()))))


@pytest.mark.parametrize(
    "plan", [StreamSync(), StreamSync(launch="graph"), Plan(StreamK()), Plan(Persistent())]
)
def test_kernel_boundaries_are_drawn_for_every_plan_that_runs_kernel_after_kernel(plan: Plan) -> None:
    assert "kernel boundary" in words(timeline(run(plan)))
    assert "kernel boundary" not in words(timeline(run(Plan(Persistent(fused=True), sync=Semaphores()))))


def test_the_time_axis_of_a_figure_can_be_zoomed_and_moved(figure_one: list[Trace]) -> None:
    figure = timeline(figure_one)
    assert figure.layout.dragmode in (None, "zoom")  # dragging zooms, a double click shows all again
    times = [axis for axis in figure.select_xaxes() if axis.title.text]
    assert times
    assert not any(axis.fixedrange for axis in times)
