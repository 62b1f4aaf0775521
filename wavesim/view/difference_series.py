"""Why a measurement differs from its prediction, as charts: per tile over time, and reason by reason.

Example: dots above zero for tiles that ended later than predicted, blue for producers and orange for
consumers; below, bars that climb from 0 by launch, waves, waiting and tile times to the total. Where cycles
were recorded tile times are three bars: the shared SM, the clock, and the tile's own cycles.
"""

from typing import NamedTuple

import numpy as np

from wavesim.safe_io.escaping import BREAK, Markup
from wavesim.trace.difference import Difference
from wavesim.trace.trace import IntArray, Trace
from wavesim.view.canvas import Props
from wavesim.view.theme import Theme
from wavesim.view.time_unit import MICROSECONDS, TimeUnit

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
