"""Predicted and measured, one under the other on one time axis, with the reasons why they differ.

Example: for each plan a simulated and a measured timeline; then the busy SMs of one plan, its errors
tile by tile, and for every plan the bars of launch, waves, waiting and tile times that add up to
the difference of the two passes. All differences are measured minus predicted.
"""

from collections.abc import Sequence
from math import floor, log10
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.trace.difference import Difference, explain_difference
from wavesim.trace.trace import IntArray, Trace
from wavesim.view.canvas import Props, axis, axis_name, section
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.timeline_data import Extras, TimelineParts, timeline_parts
from wavesim.view.timeline_figure import timeline, timeline_update
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.view.wording import MICROSECONDS, TimeUnit, plan_labels, signed_percent, text_width

TILE_HOVER = Markup(
    "<b>{}</b> tile (%{{customdata[0]}}, %{{customdata[1]}})<br>{} %{{y:+,.2f}}{} against the prediction"
    "<extra></extra>"
)
MAX_DOTS = 3_000  # per strip; more are thinned evenly


class Strip(NamedTuple):
    """One strip of per-tile errors: its words and the values, measured minus predicted, (blocks,)."""

    label: str
    values_ns: IntArray


class Step(NamedTuple):
    """One bar of the reasons: from `base_ns` it climbs by `value_ns`."""

    label: str
    base_ns: float
    value_ns: float


def strips_of(difference: Difference) -> tuple[Strip, ...]:
    """Errors of start, work and end, in this order."""
    return (
        Strip("start", difference.tile_start_ns),
        Strip("work", difference.tile_work_ns),
        Strip("end", difference.tile_end_ns),
    )


def steps_of(difference: Difference) -> tuple[Step, ...]:
    """The reasons, each from where the one before ended, and the total from zero."""
    steps, reached = [], 0.0
    for label, value in difference.finest_reasons.items():
        steps.append(Step(label, reached, value))
        reached += value
    return (*steps, Step("total", 0.0, float(difference.total_ns)))


def scene_of_difference(predicted: Trace, difference: Difference) -> Props:
    """Strips and reasons as plain values for a browser that draws them itself, in microseconds."""
    unit = MICROSECONDS
    thin = slice(None, None, -(-len(predicted) // MAX_DOTS))
    ends = predicted.end_ns - predicted.issue_ns.min() + difference.tile_end_ns
    *_, total = steps = steps_of(difference)
    words = f"{total.value_ns / unit.ns:+,.1f} µs from the first issue to the last end".replace("-", "−")
    return {
        "title": "Tile errors: measured − predicted",
        "subtitle": "A dot per tile; above the line later or longer than predicted.",
        "unit": f" {unit.symbol}",
        "axis": unit.axis,
        "end": float(unit.of(max(1, predicted.makespan_ns, int(ends.max())))),
        "names": [info.name for info in predicted.header.stages],
        "stage": predicted.stage[thin].tolist(),
        "tiles": np.column_stack([predicted.x, predicted.y])[thin].tolist(),
        "ends": np.round(unit.of(ends[thin]), 3).tolist(),
        "strips": [
            {"label": strip.label, "values": np.round(unit.of(strip.values_ns[thin]), 3).tolist()}
            for strip in strips_of(difference)
        ],
        "reasons": [
            {"label": step.label, "base": step.base_ns / unit.ns, "value": step.value_ns / unit.ns}
            for step in steps
        ],
        "total": words,
    }


def strip_series(
    strip: Strip, predicted: Trace, ends: IntArray, axis: str, unit: TimeUnit, theme: Theme
) -> list[Props]:
    """Dots of one strip, a series per stage, over the time each block really ended."""
    thin = -(-len(predicted) // MAX_DOTS)
    size = 5 if len(predicted) <= 500 else 3
    series = []
    for stage, info in enumerate(predicted.header.stages):
        blocks = np.flatnonzero(predicted.stage == stage)[::thin]
        x, y = unit.of(ends[blocks]), unit.of(strip.values_ns[blocks])
        tiles = np.column_stack([predicted.x[blocks], predicted.y[blocks]]).tolist()
        symbol = f" {unit.symbol}" if unit.symbol else ""
        series.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": x.astype(np.float32),
                "y": y.astype(np.float32),
                "customdata": tiles,
                "xaxis": "x",
                "yaxis": axis,
                "showlegend": False,
                "marker": {
                    "color": theme.stage_colour(stage),
                    "size": size,
                    "opacity": 0.75,
                    "symbol": SYMBOLS[stage % 4],
                },
                "hovertemplate": TILE_HOVER.format(info.name, strip.label, symbol),
            }
        )
    return series


SYMBOLS = ("circle", "diamond", "square", "cross")


def reason_series(difference: Difference, axes: tuple[str, str], unit: TimeUnit, theme: Theme) -> Props:
    """The reasons as floating bars with their numbers; longer is magenta, shorter green, the total ink."""
    steps = steps_of(difference)
    colours = [theme.bad if step.value_ns > 0 else theme.good for step in steps[:-1]] + [theme.muted]
    values = [float(unit.of(round(step.value_ns))) for step in steps]
    symbol = f" {unit.symbol}" if unit.symbol else ""
    return {
        "type": "bar",
        "x": [BREAK.join(step.label.split(" ")) for step in steps],
        "y": values,
        "base": [float(unit.of(round(step.base_ns))) for step in steps],
        "width": 0.55,
        "xaxis": axes[0],
        "yaxis": axes[1],
        "showlegend": False,
        "marker": {"color": colours, "cornerradius": 3},
        "text": [f"{value:+.1f}".replace("-", "−") for value in values],
        "textposition": "outside",
        "cliponaxis": False,
        "textfont": {"color": theme.ink, "size": 12},
        "hovertemplate": Markup("%{{x}}: %{{y:+,.2f}}{}<extra></extra>").format(symbol),
    }


def reason_range(differences: list[Difference], unit: TimeUnit) -> list[float]:
    """One range for all charts of reasons, with room for the numbers."""
    edges = [0.0]
    for difference in differences:
        for step in steps_of(difference):
            edges += [step.base_ns, step.base_ns + step.value_ns]
    low, high = min(edges) / unit.ns, max(edges) / unit.ns
    room = 0.28 * max(high - low, 1e-9)
    return [low - (room if low < 0 else 0.04 * room), high + room]


STRIP, STRIP_GAP, AXIS, HEADER, REASONS = 62, 10, 58, 46, 140
REASONS_HEADER = 66  # a line each for the word, the plan and its times
KEY_SIZE, TIGHT_SIZE = 13, 10
KEY_SHARE = 0.85  # of the room, which other fonts than Inter need more of
STRIPS = 3


@runtime_checkable
class Compared(Protocol):
    """What a comparison offers: traces plan by plan, the baseline first; None where nothing was measured."""

    @property
    def predicted(self) -> tuple[Trace, ...]:
        """Simulated traces."""

    @property
    def measured(self) -> tuple[Trace | None, ...]:
        """Measured traces of the same plans."""


class TracePair(NamedTuple):
    """One plan, predicted and measured; `label` is the plan in words."""

    label: str
    predicted: Trace
    measured: Trace
    difference: Difference


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
    if not pairs:
        raise DescriptionError("comparison: pairs is empty; give at least one (predicted, measured)")
    baseline = next((theirs for _, theirs in pairs if theirs.header.plan == "stream"), None)
    names = plan_labels([ours.header for ours, _ in pairs])
    explained = [
        TracePair(name, ours, theirs, explain_difference(ours, theirs, baseline))
        for name, (ours, theirs) in zip(names, pairs, strict=True)
    ]
    chosen = focus % len(explained)
    labels = [f"{pair.label}, {word}" for pair in explained for word in ("predicted", "measured")]
    below = HEADER + STRIPS * (STRIP + STRIP_GAP) + AXIS + REASONS_HEADER + REASONS
    extras = Extras(tuple(labels), (2 * chosen, 2 * chosen + 1), below)
    text = title if title is not None else comparison_finding(explained[chosen])
    parts = timeline_parts(
        [trace for pair in explained for trace in (pair.predicted, pair.measured)],
        title=text,
        width=width,
        extras=extras,
    )
    palette = find_theme(theme)
    data, layout = timeline_update(parts, palette)
    _add_strips(explained[chosen], parts, palette, data, layout)
    _add_reasons(explained, parts, palette, data, layout)
    scenes = [("plans", scene_of_timeline(parts, text)), *(_errors(pair) for pair in explained)]
    return figure_of(data, layout).draw_as(scenes)


def _errors(pair: TracePair) -> tuple[str, Props]:
    scene = scene_of_difference(pair.predicted, pair.difference)
    return "errors", {**scene, "title": f"{pair.label}: {scene['title']}"}


def comparison_finding(pair: TracePair) -> str:
    """How far off the prediction was, and the reason that weighs most."""
    ours, theirs = pair.predicted.time_ns, pair.measured.time_ns
    change = signed_percent(theirs / ours - 1)
    *steps, _ = steps_of(pair.difference)
    largest = max(steps, key=lambda step: abs(step.value_ns))
    text = f"{pair.label}: predicted {ours / 1e3:,.1f} µs, measured {theirs / 1e3:,.1f} µs ({change})"
    if round(largest.value_ns, -2) == 0:
        return text
    # Both times are medians of rounds where there are any; the reasons are of one recorded run.
    where = " in the run drawn" if pair.measured.header.rounds_ns else ""
    reason = f"{largest.label}, {largest.value_ns / 1e3:+,.1f} µs".replace("-", "−")
    return f"{text}; largest reason{where}: {reason}"


def _add_strips(
    pair: TracePair, parts: TimelineParts, theme: Theme, data: list[Props], layout: Props
) -> None:
    """Three strips of dots under the busy SMs, on the same time axis."""
    first = len(parts.panels) + 1
    bottom_px = REASONS + REASONS_HEADER + AXIS
    scale = 1 / parts.frame.plot_height
    ends = pair.predicted.end_ns - pair.predicted.issue_ns.min() + pair.difference.tile_end_ns
    unit = f" {parts.unit.symbol}" if parts.unit.symbol else ""
    for place, strip in enumerate(strips_of(pair.difference)):
        low = bottom_px + (STRIPS - 1 - place) * (STRIP + STRIP_GAP)
        name = axis_name(first + place)
        limit = 1.15 * max(1.0, float(abs(strip.values_ns).max())) / parts.unit.ns
        tick = _round_down(limit / 1.15)
        layout[axis_name(first + place, "yaxis")] = {
            **axis(theme, strip.label, domain=[low * scale, (low + STRIP) * scale], range=[-limit, limit]),
            "tickvals": [-tick, 0, tick],
            "ticktext": [f"−{tick:g}{unit}", f"0{unit}", f"+{tick:g}{unit}"],
            "zeroline": True,
            "zerolinecolor": theme.muted,
            "zerolinewidth": 1,
        }
        data += strip_series(strip, pair.predicted, ends, name, parts.unit, theme)
    layout["xaxis"]["anchor"] = axis_name(first + STRIPS - 1)
    top = (bottom_px + STRIPS * (STRIP + STRIP_GAP) - STRIP_GAP) * scale
    key = f"{pair.label}: measured − predicted, above zero later or longer"
    if text_width(f"Tile errors  {key}", KEY_SIZE) > KEY_SHARE * parts.frame.plot_width:
        key = Markup("{}{}").format(BREAK, key)
    layout["annotations"].append(section("Tile errors", theme, top, key))


def _round_down(value: float) -> float:
    """The largest 1, 2 or 5 times a power of ten that is not above a positive value."""
    power = 10.0 ** floor(log10(value))
    return power * max(digit for digit in (1, 2, 5) if digit * power <= value * (1 + 1e-9))


def _add_reasons(
    pairs: list[TracePair], parts: TimelineParts, theme: Theme, data: list[Props], layout: Props
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
        room_px = (right - left) * parts.frame.plot_width
        words = _reason_text(pair, parts, room_px, is_alone=len(pairs) == 1)
        head = section("Reasons" if place == 0 else "", theme, (REASONS + 6) * scale, words)
        layout["annotations"].append({**head, "x": left})


def _reason_text(pair: TracePair, parts: TimelineParts, room_px: float, *, is_alone: bool) -> str:
    """What the bars explain: the drawn passes, which rounds and setup are no part of.

    Beside others the plan and its times, each on a line, in `room_px` as well as they go.
    """
    ours, theirs = parts.unit.text(pair.predicted.makespan_ns), parts.unit.text(pair.measured.makespan_ns)
    if is_alone:
        return f"from {ours} predicted to {theirs} measured, first issue to last end"
    lines = (pair.label, f"{ours} → {theirs}")
    fits = max(text_width(line, KEY_SIZE) for line in lines) < KEY_SHARE * room_px
    size = KEY_SIZE if fits else TIGHT_SIZE
    spans = [element("span", line, style=f"font-size:{size}px") for line in lines]
    return BREAK.join(["", *spans])
