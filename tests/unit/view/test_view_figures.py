"""Utilisation, semaphores, dependencies and comparisons: structure and numbers, recomputed by hand."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.order import ColumnMajor, RowMajor
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.plan.stream_k import StreamK
from wavesim.sim.simulation import simulate
from wavesim.trace.difference import explain_difference
from wavesim.trace.trace import Trace
from wavesim.view.comparison import comparison_figure, predicted_and_measured
from wavesim.view.dependency_figure import dependency_picture
from wavesim.view.difference_series import steps_of
from wavesim.view.frame import Frame
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.semaphore_data import semaphore_histories
from wavesim.view.semaphore_figure import semaphore_map
from wavesim.view.step_series import curve_style
from wavesim.view.theme import find_theme
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.utilisation_figure import utilisation
from wavesim.view.wording import text_width
from wavesim.workloads.figure_one import TILE_NS, toy

THEMES = pytest.mark.parametrize("theme", ["light", "dark"])


def run(plan: Plan, tile_ns: int = TILE_NS) -> Trace:
    pipeline = toy()
    return simulate(pipeline, plan, load("toy"), zero_cost(pipeline, tile_ns))


def as_measured(trace: Trace) -> Trace:
    header = replace(
        trace.header, source="measured", date="2026-11-20", commit="abc1234", rounds_ns=(5_000,) * 20
    )
    return replace(trace, header=header)


@pytest.fixture(scope="module")
def columns() -> Trace:
    """Both orders by columns, a semaphore per tile: 3.5 waves, one wait of half a tile."""
    return run(SemaphoreSync(TileSync(), order=ColumnMajor()))


@THEMES
def test_utilisation_says_the_share_of_every_plan(columns: Trace, theme: str) -> None:
    figure = utilisation([run(StreamSync()), columns], theme=theme)
    assert figure.layout.title.text.endswith("Stream sync 75 %, Tile semaphores 86 %")
    assert len(figure.data) == 4
    assert "simulated on toy" in figure.layout.annotations[0].text


def test_resident_minus_busy_is_the_waiting_time(columns: Trace) -> None:
    busy, resident = utilisation(columns).data
    widths = np.diff(np.asarray(busy.x, dtype=float))
    gap = np.asarray(resident.y, dtype=float)[:-1] - np.asarray(busy.y, dtype=float)[:-1]
    assert float((gap * widths).sum()) == pytest.approx(columns.wait_ns.sum() / TILE_NS)


def test_a_row_semaphore_is_ready_with_the_last_tile_of_its_row() -> None:
    (history,) = semaphore_histories(run(SemaphoreSync()))
    assert history.awaited.tolist() == [2, 2, 2]
    assert history.ready_ns.tolist() == [1_000, 1_000, 2_000]
    levels = history.levels(np.array([0, 999, 1_000, 1_500, 2_000]))
    assert levels.tolist() == [[0, 0, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]


def test_a_tile_is_posted_by_its_last_split_k_slice() -> None:
    block = Block(threads=1_024, registers=64)
    first, second = Stage("a", Kernel("a", Grid(2, 1, 2), block)), Stage("b", Kernel("b", Grid(1, 1), block))
    pipeline = Pipeline("split", [first, second], [Dependency(second[x, y], [first[:, y]])])
    trace = simulate(pipeline, SemaphoreSync(TileSync()), load("toy"), zero_cost(pipeline, 1_000))
    late = replace(trace, end_ns=np.where(trace.z == 1, trace.end_ns + 70, trace.end_ns))
    (history,) = semaphore_histories(late)
    assert history.post_ns.tolist() == [1_070, 1_070]


@THEMES
def test_the_semaphore_map_marks_ready_and_first_asked(columns: Trace, theme: str) -> None:
    figure = semaphore_map(columns, theme=theme)
    heat, ready, asked = figure.data
    assert np.asarray(heat.z).shape[0] == 6
    assert list(ready.x) == [1, 1, 1, 2, 1, 2]
    assert (list(asked.x), list(asked.y)) == ([1.5], [3])
    assert figure.layout.title.text == "Tile semaphores: all 6 ready from 1 to 2, 1 waited for"
    assert "simulated on toy" in figure.layout.title.subtitle.text


def test_stream_sync_has_no_semaphores_to_draw() -> None:
    with pytest.raises(DescriptionError, match="'Stream sync' has no semaphores"):
        semaphore_map(run(StreamSync()))


def test_dependent_launch_has_one_semaphore_per_grid_and_partial_sums_are_none_between_stages() -> None:
    (history,) = semaphore_histories(run(Plan(launch=DependentLaunch())))
    assert (history.awaited.tolist(), history.ready_ns.tolist()) == ([6], [2_000])
    assert history.asked_ns.tolist() == [1_000]
    with pytest.raises(DescriptionError, match="has no semaphores"):
        semaphore_map(run(Plan(StreamK(waves=1))))


@THEMES
def test_the_dependency_picture_counts_tiles_and_semaphores(theme: str) -> None:
    rows = dependency_picture(toy(), tile=(1, 2), theme=theme)
    tiles = dependency_picture(toy(), SemaphoreSync(TileSync()), tile=(1, 2), theme=theme)
    assert rows.layout.title.text == "gemm2 tile (1, 2) reads 2 tiles of gemm1, behind 1 row semaphore"
    assert tiles.layout.title.text == "gemm2 tile (1, 2) reads 2 tiles of gemm1, behind 2 tile semaphores"
    assert "row 2<br>= 2" in [note.text for note in rows.layout.annotations]


def test_the_picture_highlights_exactly_what_the_tile_reads() -> None:
    figure = dependency_picture(toy(), tile=(0, 1))
    producer, consumer = figure.data[1], figure.data[3]
    assert np.isfinite(producer.z).tolist() == [[False, False], [True, True], [False, False]]
    assert np.isfinite(consumer.z).tolist() == [[False, False], [True, False], [False, False]]
    assert [list(row) for row in producer.text] == [["", ""], ["2", "3"], ["", ""]]


def test_a_fork_of_three_boxes_gets_three_arrows() -> None:
    block = Block(threads=256)
    first, second = (
        Stage("qkv", Kernel("qkv", Grid(6, 2), block)),
        Stage("mix", Kernel("mix", Grid(2, 2), block)),
    )
    needs = [first[x, y], first[x + 2, y], first[x + 4, y]]
    pipeline = Pipeline("attention", [first, second], [Dependency(second[x, y], needs)])
    assert len(dependency_picture(pipeline).layout.shapes) == 3


def test_tiles_and_stages_that_are_not_there_are_refused() -> None:
    with pytest.raises(DescriptionError, match=r"tile is \(9, 9\)"):
        dependency_picture(toy(), tile=(9, 9))
    with pytest.raises(DescriptionError, match="these do: \\['gemm2'\\]"):
        dependency_picture(toy(), consumer="gemm1")


@pytest.fixture(scope="module")
def pair() -> tuple[Trace, Trace]:
    """Predicted with tiles of 1,000 ns, "measured" with 1,100: tile times are the whole difference."""
    return run(SemaphoreSync()), as_measured(run(SemaphoreSync(), tile_ns=1_100))


def figure_words(figure: Any) -> str:
    return "\n".join(note.text for note in figure.layout.annotations)


@THEMES
def test_a_comparison_says_both_times_and_the_largest_reason(pair: tuple[Trace, Trace], theme: str) -> None:
    figure = predicted_and_measured([pair], theme=theme, width=1400)
    assert figure.layout.title.text == (
        "Row semaphores: predicted 3.0 µs, measured 5.0 µs (+66.7 %); "
        "largest reason in the run drawn: tile times, +0.3 µs"
    )  # the rounds' median, as tables say; the reasons are those of the recorded pass
    assert "from 3.00 µs predicted to 3.30 µs measured, first issue to last end" in figure_words(figure)
    text = figure_words(figure)
    assert "simulated on toy" in text
    assert "measured on toy, 2026-11-20, commit abc1234" in text


@pytest.mark.parametrize(("width", "size"), [(560, 10), (1_000, 13)])
def test_in_a_narrow_comparison_no_plans_reasons_run_into_the_next_ones(
    pair: tuple[Trace, Trace], width: int, size: int
) -> None:
    figure = predicted_and_measured([pair] * 3, width=width)
    words = [one for one in figure.layout.annotations if one.text and "→" in one.text]
    assert [one.text.count("<br>") for one in words] == [2, 2, 2]
    assert all(one.text.count(f"font-size:{size}px") == 2 for one in words)
    longest = max(text_width(line, size) for line in ("Row semaphores (1)", "3.00 µs → 3.30 µs"))
    margin = figure.layout.margin
    assert longest < (words[1].x - words[0].x) * (width - margin.l - margin.r)


def test_the_reasons_add_up_to_the_total(pair: tuple[Trace, Trace]) -> None:
    *reasons, total = steps_of(explain_difference(*pair))
    assert total.value_ns == 300
    assert sum(step.value_ns for step in reasons) == pytest.approx(300)
    assert [step.base_ns for step in reasons] == pytest.approx([0, 0, 0, 0])
    bars = predicted_and_measured([pair]).data[-1]
    assert list(bars.text) == ["+0.0", "+0.0", "+0.0", "+0.3", "+0.3"]


def test_tile_errors_are_measured_minus_predicted(pair: tuple[Trace, Trace]) -> None:
    figure = predicted_and_measured([pair])
    dots = [series for series in figure.data if "against the prediction" in (series.hovertemplate or "")]
    assert [len(series.y) for series in dots] == [6] * 6
    scales = [figure.layout[f"yaxis{number}"] for number in (4, 5, 6)]
    assert all(len(scale.tickvals) == 3 and scale.ticktext[1] == "0 µs" for scale in scales)
    assert all(
        scale.range[0] < scale.tickvals[0] < 0 < scale.tickvals[2] < scale.range[1] for scale in scales
    )
    starts, works, ends = dots[::2]
    np.testing.assert_allclose(starts.y, [0, 0, 0, 0, 0.1, 0.1], atol=1e-6)
    np.testing.assert_allclose(works.y, [0.1] * 6, atol=1e-6)
    np.testing.assert_allclose(ends.y, [0.1, 0.1, 0.1, 0.1, 0.2, 0.2], atol=1e-6)


@dataclass
class Compared:
    predicted: tuple[Trace, ...]
    measured: tuple[Trace | None, ...]


def test_a_comparison_shows_every_measured_plan_and_details_the_fastest(pair: tuple[Trace, Trace]) -> None:
    stream = run(StreamSync())
    compared = Compared((stream, pair[0]), (as_measured(stream), replace(pair[1], header=pair[0].header)))
    figure = comparison_figure(compared)
    panels = [note.text for note in figure.layout.annotations if "SM time busy" in note.text]
    assert len(panels) == 4
    assert figure.layout.title.text.startswith("Row semaphores")


def test_a_comparison_without_measurements_shows_the_predictions() -> None:
    figure = comparison_figure(Compared((run(StreamSync()), run(SemaphoreSync())), (None, None)))
    assert "4 → 3 waves" in figure.layout.title.text


GAINS = [
    Gain("1024", "Row semaphores", predicted=14.1, measured=14.3, low=13.6, high=14.9),
    Gain("2048", "Row semaphores", predicted=0.5, measured=-0.4, low=-1.0, high=0.2),
    Gain("4096", "Row semaphores", predicted=0.2),
]


@THEMES
def test_the_overview_shows_wins_and_losses_alike(theme: str) -> None:
    figure = gain_overview(GAINS, source="simulated; measured on NVIDIA H200", theme=theme)
    measured, predicted = figure.data
    assert list(measured.y) == [14.3, -0.4]
    assert list(predicted.y) == [14.1, 0.5, 0.2]
    assert list(measured.error_y.array) == pytest.approx([0.6, 0.6])
    assert list(measured.error_y.arrayminus) == pytest.approx([0.7, 0.6])
    text = figure.layout.title.text.replace("<br>", " ")
    assert text.startswith("+14.3 points at best (Row semaphores, 1024 tokens), −0.4 at worst")
    assert "measured on NVIDIA H200" in figure.layout.title.subtitle.text


def test_an_overview_of_predictions_alone_says_so() -> None:
    title = gain_overview([GAINS[2]], source="simulated on H200").layout.title.text
    assert title == "Row semaphores: predicted gain up to 0.2 points, at 4096 tokens"


def test_an_empty_overview_and_an_empty_comparison_are_refused() -> None:
    with pytest.raises(DescriptionError, match="gains is empty"):
        gain_overview([], source="")
    with pytest.raises(DescriptionError, match="pairs is empty"):
        predicted_and_measured([])


def test_plans_of_the_same_words_are_told_apart() -> None:
    traces = [run(StreamSync()), *(run(SemaphoreSync(order=order)) for order in (RowMajor(), ColumnMajor()))]
    traces.append(run(SemaphoreSync(order=ColumnMajor())))
    panels = timeline_parts(traces).panels
    words = "Row semaphores, column by column"
    assert [panel.label for panel in panels] == [
        "Stream sync",
        "Row semaphores, row by row",
        f"{words} (1)",
        f"{words} (2)",
    ]
    theme = find_theme("light")
    assert len({curve_style(place, 4, theme)[0] for place in range(4)}) == 4
    assert theme.bad not in {curve_style(place, 4, theme)[0] for place in range(4)}
    assert curve_style(1, 2, theme, gain=-0.05) == (theme.bad, "solid")  # as its end line


def test_panels_of_more_slots_than_pixels_stay_on_a_screen() -> None:
    slots = Frame(width=1000, rows=(16 * 132,) * 2, header_lines=(1, 1), top=80)
    assert slots.height < 1_700
    assert replace(slots, wanted_height=620).height < 1_100
