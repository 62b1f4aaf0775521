"""Predicted and measured, one under the other on one time axis, with the reasons why they differ.

Picture: for each plan a simulated and a measured timeline; then the busy SMs of one plan, its errors
tile by tile, and for every plan the bars of launch, waves, waiting and slower tiles that add up to
the difference of the two times. All differences are measured minus predicted.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import plotly.graph_objects as go

from wavesim.analysis.difference import Difference, explain_difference
from wavesim.errors import DescriptionError
from wavesim.trace import Trace
from wavesim.view.canvas import Props, axis, axis_name, section
from wavesim.view.difference_series import reason_range, reason_series, strip_series, strips_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.timeline_data import Extras, TimelineParts, timeline_parts
from wavesim.view.timeline_figure import FigureUpdate, timeline, timeline_update
from wavesim.view.wording import signed_percent

STRIP, STRIP_GAP, AXIS, HEADER, REASONS = 62, 10, 58, 46, 140
STRIPS = 3
REASON_WORDS = {  # if positive, if negative
    "launch": ("longer launch gaps", "shorter launch gaps"),
    "waves": ("emptier waves", "fuller waves"),
    "waiting": ("more waiting", "less waiting"),
    "slower tiles": ("slower tiles", "faster tiles"),
}


class Compared(Protocol):
    """What a comparison offers: traces plan by plan, the baseline first; None where nothing was measured."""

    @property
    def predicted(self) -> tuple[Trace, ...]:
        """Simulated traces."""

    @property
    def measured(self) -> tuple[Trace | None, ...]:
        """Measured traces of the same plans."""


class Pair(NamedTuple):
    """One plan, predicted and measured."""

    predicted: Trace
    measured: Trace
    difference: Difference

    @property
    def label(self) -> str:
        """The plan in words."""
        return self.predicted.header.plan_label


def comparison_figure(
    compared: Compared, *, theme: str | Theme = "light", title: str | None = None, width: int = 1000
) -> go.Figure:
    """Timelines of every plan that was measured, details for the fastest; the predicted ones if none was.

    Raises `RecordingError` if a measured trace has other grids than its prediction.
    """
    both = zip(compared.predicted, compared.measured, strict=True)
    measured = [(ours, theirs) for ours, theirs in both if theirs is not None]
    if not measured:
        return timeline(compared.predicted, theme=theme, title=title, width=width)
    focus = min(range(len(measured)), key=lambda index: measured[index][1].time_ns)
    return predicted_and_measured(measured, focus=focus, theme=theme, title=title, width=width)


def predicted_and_measured(
    pairs: Sequence[tuple[Trace, Trace]],
    *,
    focus: int = -1,
    theme: str | Theme = "light",
    title: str | None = None,
    width: int = 1000,
) -> go.Figure:
    """Timelines of (predicted, measured) pairs; busy SMs and tile errors are those of pair `focus`.

    Raises `DescriptionError` for no pairs, `RecordingError` for pairs of different grids.
    """
    update = comparison_update(pairs, focus=focus, theme=theme, title=title, width=width)
    return go.Figure(data=update.data, layout=update.layout)


def comparison_update(
    pairs: Sequence[tuple[Trace, Trace]],
    *,
    focus: int = -1,
    theme: str | Theme = "light",
    title: str | None = None,
    width: int = 1000,
) -> FigureUpdate:
    """The properties of `predicted_and_measured`'s figure, for a new figure or one that is on screen.

    Raises as that does.
    """
    if not pairs:
        raise DescriptionError("comparison: pairs is empty; give at least one (predicted, measured)")
    baseline = next((theirs for _, theirs in pairs if theirs.header.plan == "stream"), None)
    explained = [Pair(ours, theirs, explain_difference(ours, theirs, baseline)) for ours, theirs in pairs]
    chosen = focus % len(explained)
    labels = [f"{pair.label}, {word}" for pair in explained for word in ("predicted", "measured")]
    below = HEADER + STRIPS * (STRIP + STRIP_GAP) + AXIS + HEADER + REASONS
    extras = Extras(tuple(labels), (2 * chosen, 2 * chosen + 1), below)
    text = title if title is not None else _finding(explained[chosen])
    parts = timeline_parts(
        [trace for pair in explained for trace in pair[:2]], title=text, width=width, extras=extras
    )
    palette = find_theme(theme)
    data, layout = timeline_update(parts, palette)
    _add_strips(explained[chosen], parts, palette, data, layout)
    _add_reasons(explained, parts, palette, data, layout)
    return FigureUpdate(data, layout)


def _finding(pair: Pair) -> str:
    """How far off the prediction was, and the reason that weighs most."""
    ours, theirs = pair.predicted.makespan_ns, pair.measured.makespan_ns
    change = signed_percent(theirs / ours - 1)
    name, value = max(pair.difference.reasons.items(), key=lambda item: abs(item[1]))
    text = f"{pair.label}: predicted {ours / 1e3:,.1f} µs, measured {theirs / 1e3:,.1f} µs ({change})"
    if round(value, -2) == 0:
        return text
    words = REASON_WORDS[name][value < 0]
    return f"{text}; largest reason: {words}, {value / 1e3:+,.1f} µs".replace("-", "−")


def _add_strips(pair: Pair, parts: TimelineParts, theme: Theme, data: list[Props], layout: Props) -> None:
    """Three strips of dots under the busy SMs, on the same time axis."""
    first = len(parts.panels) + 1
    bottom_px = REASONS + HEADER + AXIS
    scale = 1 / parts.frame.plot_height
    ends = pair.predicted.end_ns - pair.predicted.issue_ns.min() + pair.difference.tile_end_ns
    unit = f" {parts.unit.symbol}" if parts.unit.symbol else ""
    for place, strip in enumerate(strips_of(pair.difference)):
        low = bottom_px + (STRIPS - 1 - place) * (STRIP + STRIP_GAP)
        name = axis_name(first + place)
        limit = 1.15 * max(1.0, float(abs(strip.values_ns).max())) / parts.unit.ns
        layout[axis_name(first + place, "yaxis")] = {
            **axis(theme, strip.label, domain=[low * scale, (low + STRIP) * scale], range=[-limit, limit]),
            "nticks": 3,
            "zeroline": True,
            "zerolinecolor": theme.muted,
            "zerolinewidth": 1,
            "ticksuffix": unit,
        }
        data += strip_series(strip, pair.predicted, ends, name, parts.unit, theme)
    layout["xaxis"]["anchor"] = axis_name(first + STRIPS - 1)
    top = (bottom_px + STRIPS * (STRIP + STRIP_GAP) - STRIP_GAP) * scale
    key = f"{pair.label}: measured − predicted, above zero later or longer"
    layout["annotations"].append(section("Tile errors", theme, top, key))


def _add_reasons(
    pairs: list[Pair], parts: TimelineParts, theme: Theme, data: list[Props], layout: Props
) -> None:
    """One chart of reasons per plan, side by side at the bottom."""
    first = len(parts.panels) + 1 + STRIPS
    scale = 1 / parts.frame.plot_height
    limits = reason_range([pair.difference for pair in pairs], parts.unit)
    share = 1 / len(pairs)
    for place, pair in enumerate(pairs):
        x_name, y_name = f"x{place + 2}", axis_name(first + place)
        left, right = place * share, (place + 1) * share - (0.04 if place < len(pairs) - 1 else 0)
        layout[f"xaxis{place + 2}"] = axis(theme, domain=[left, right], anchor=y_name, showgrid=False)
        layout[axis_name(first + place, "yaxis")] = {
            **axis(
                theme, domain=[0, REASONS * scale], range=limits, anchor=x_name, showticklabels=place == 0
            ),
            "zeroline": True,
            "zerolinecolor": theme.muted,
            "nticks": 5,
        }
        data.append(reason_series(pair.difference, (x_name, y_name), parts.unit, theme))
        words = "measured − predicted, " + (parts.unit.symbol or "tiles") if len(pairs) == 1 else pair.label
        head = section("Reasons" if place == 0 else "", theme, (REASONS + 6) * scale, words)
        layout["annotations"].append({**head, "x": left})
