"""Predicted and measured improvement over stream sync, size by size: the overview of a whole sweep.

Example: for each number of tokens a filled dot with quartile whiskers (measured) and an open diamond
(predicted); above zero the plan gains, below it loses, and both are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Heading, Props, axis, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, PLOT_HEIGHT = 66, 56, 106, 330
SYMBOLS = ("circle", "square", "triangle-up", "star")
OPEN_SYMBOLS = ("diamond-open", "diamond-open-dot", "diamond-wide-open", "diamond-tall-open")
HOVER = Markup("<b>{}</b> {} %{{y:+.1f}} points<extra></extra>")

TOP_RIGHT = {"xref": "paper", "x": 1, "xanchor": "right", "yref": "paper", "y": 1, "yanchor": "bottom"}


@dataclass(frozen=True)
class Gain:
    """One size and plan: improvement over stream sync in points, 100 (1 - t / t_stream).

    `measured` is None where there is no measurement; `low` and `high` are its quartiles.
    """

    size: str
    plan: str
    predicted: float
    measured: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float | None:
        """Predicted minus measured, in points."""
        return None if self.measured is None else self.predicted - self.measured


def gain_overview(
    gains: Sequence[Gain],
    *,
    source: str,
    size_name: str = "tokens",
    theme: str | Theme = "light",
    title: str | None = None,
    width: int = 1000,
) -> go.Figure:
    """Improvement over size, predicted and measured; `source` says simulated how and measured on what.

    Raises `DescriptionError` for no gains and an unknown theme.
    """
    if not gains:
        raise DescriptionError("gain_overview: gains is empty; give at least one Gain")
    palette = find_theme(theme)
    head = heading(
        title if title is not None else gain_finding(gains, size_name), source, width - LEFT - RIGHT
    )
    sizes, plans = list(dict.fromkeys(g.size for g in gains)), list(dict.fromkeys(g.plan for g in gains))
    data = []
    for index, plan in enumerate(plans):
        shift = (index - (len(plans) - 1) / 2) * min(0.3, 0.7 / len(plans))
        chosen = [gain for gain in gains if gain.plan == plan]
        data += _series(chosen, sizes, shift, index, palette)
    return figure_of(data, _layout(gains, sizes, size_name, head, palette, width))


def gain_finding(gains: Sequence[Gain], size_name: str) -> str:
    """A title: the largest gain and loss, and how well they were predicted."""
    measured = [gain for gain in gains if gain.measured is not None]
    if not measured:
        best = max(gains, key=lambda gain: gain.predicted)
        name = best.plan[:1].upper() + best.plan[1:]
        return f"{name}: predicted gain up to {best.predicted:.1f} points, at {best.size} {size_name}"
    best = max(measured, key=lambda gain: gain.measured or 0.0)
    worst = min(measured, key=lambda gain: gain.measured or 0.0)
    errors = [abs(gain.error) for gain in measured if gain.error is not None]
    text = f"{_signed(best.measured)} points at best ({best.plan}, {best.size} {size_name})"
    text += f", {_signed(worst.measured)} at worst; predicted within {np.median(errors):.1f} (median)"
    return text


def _signed(points: float | None) -> str:
    return f"{points or 0.0:+.1f}".replace("-", "−")


def _plan_colour(index: int, theme: Theme) -> str:
    """Plans are not stages: they take the palette's other end."""
    return (theme.good, theme.bad, theme.ink, theme.muted)[index % 4]


def _series(gains: list[Gain], sizes: list[str], shift: float, index: int, theme: Theme) -> list[Props]:
    colour, plan = _plan_colour(index, theme), gains[0].plan
    measured = [gain for gain in gains if gain.measured is not None]
    common = {"type": "scatter", "mode": "markers", "legendgroup": plan}
    predicted_marker = {"symbol": OPEN_SYMBOLS[index % 4], "size": 13, "color": colour, "line": {"width": 2}}
    return [
        {
            **common,
            "name": f"{plan}, measured",
            "x": [sizes.index(gain.size) + shift for gain in measured],
            "y": [gain.measured for gain in measured],
            "error_y": _whiskers(measured, colour),
            "marker": {"symbol": SYMBOLS[index % 4], "size": 9, "color": colour},
            "showlegend": bool(measured),
            "hovertemplate": HOVER.format(plan, "measured"),
        },
        {
            **common,
            "name": f"{plan}, predicted",
            "x": [sizes.index(gain.size) + shift for gain in gains],
            "y": [gain.predicted for gain in gains],
            "marker": predicted_marker,
            "hovertemplate": HOVER.format(plan, "predicted"),
        },
    ]


def _whiskers(measured: list[Gain], colour: str) -> Props:
    """Error bars to the quartiles, of no length where there are none."""
    middle = np.array([gain.measured for gain in measured], dtype=np.float64)
    high = np.array(
        [gain.measured if gain.high is None else gain.high for gain in measured], dtype=np.float64
    )
    low = np.array([gain.measured if gain.low is None else gain.low for gain in measured], dtype=np.float64)
    reach = {"array": (high - middle).tolist(), "arrayminus": (middle - low).tolist()}
    return {"type": "data", "symmetric": False, **reach, "color": colour, "thickness": 1.6, "width": 5}


def _layout(
    gains: Sequence[Gain], sizes: list[str], size_name: str, head: Heading, theme: Theme, width: int
) -> Props:
    height = head.height + PLOT_HEIGHT + BOTTOM
    layout = base_layout(theme, head, (width, height), (LEFT, RIGHT, head.height, BOTTOM))
    values = [
        v for gain in gains for v in (gain.predicted, gain.measured, gain.low, gain.high) if v is not None
    ]
    low, high = min(0.0, *values), max(0.0, *values)
    room = max(1.0, 0.1 * (high - low))
    layout["xaxis"] = axis(theme, size_name, range=[-0.6, len(sizes) - 0.4], showgrid=False)
    layout["xaxis"] |= {"tickvals": list(range(len(sizes))), "ticktext": sizes}
    layout["yaxis"] = axis(theme, "improvement over stream sync (points)", range=[low - room, high + room])
    loss = {"type": "rect", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": low - room, "y1": 0}
    zero = {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 0, "y1": 0}
    layout["shapes"] = [
        {**loss, "fillcolor": theme.card, "line": {"width": 0}, "layer": "below"},
        {**zero, "line": {"color": theme.muted, "width": 1.5}, "layer": "below"},
    ]
    corner = {"xref": "paper", "x": 1, "xanchor": "left", "xshift": 6, "y": 0}  # beside the markers
    layout["annotations"] = [
        {**note("gain ↑", theme, size=11), **corner, "yanchor": "bottom", "yshift": 2},
        {**note("loss ↓", theme, size=11), **corner, "yanchor": "top", "yshift": -2},
    ]
    if any(gain.low is not None for gain in gains):
        words = note("whiskers: quartiles over interleaved rounds", theme, size=11)
        layout["annotations"].append({**words, **TOP_RIGHT})
    return layout
