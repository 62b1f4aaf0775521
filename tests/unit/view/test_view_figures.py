"""Comparisons and overviews: structure and numbers, recomputed by hand."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from wavesim.costs.cost_model import zero_cost
from wavesim.model.device import load
from wavesim.plan.order import ColumnMajor, RowMajor
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.sim.simulation import simulate
from wavesim.trace.difference import explain_difference
from wavesim.trace.trace import Trace
from wavesim.view.comparison import comparison_figure, predicted_and_measured, steps_of
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.theme import find_theme
from wavesim.view.timeline_data import Frame, timeline_parts
from wavesim.view.timeline_layout import curve_style
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
