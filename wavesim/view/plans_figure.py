"""Plans side by side by their improvement over stream sync: one row each, a dot in its interval.

Example: row semaphores at +14.1 points in a bar from 12.9 to 15.3; below them tile semaphores; a hollow dot
and a dotted bar where such predictions were never scored on this device.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Heading, Props, axis, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, ROW_HEIGHT = 250, 96, 92, 30
LONGEST_NAME = 38  # characters of a plan's name beside the plot
HOVER = Markup("<b>{}</b> %{{x:+.1f}} points, {:,.1f} us<extra></extra>")
BASELINE, SCORED, GUESS = "the baseline", "scored on this device", "a guess: never scored on this device"
TRUST = (BASELINE, SCORED, GUESS)


@dataclass(frozen=True)
class PlanGain:
    """One plan: improvement over stream sync in points with its interval, and its simulated time in ns.

    `scored`: whether predictions of the kind were held against measurements on the device. Stream sync, which
    the others are compared with, has 0 and no interval.
    """

    plan: str
    points: float
    low: float
    high: float
    scored: bool
    time_ns: int

    @property
    def trust(self) -> str:
        """What the interval is worth: a word of `TRUST`."""
        if self.low == self.points == self.high == 0:
            return BASELINE
        return SCORED if self.scored else GUESS


def plans_by_gain(
    gains: Sequence[PlanGain],
    *,
    source: str,
    title: str | None = None,
    theme: str | Theme = "light",
    width: int = 1000,
) -> go.Figure:
    """The plans in their order, the first at the top; `source` says what was simulated from what.

    Raises `DescriptionError` for no plans and an unknown theme.
    """
    if not gains:
        raise DescriptionError("plans_by_gain: gains is empty; give at least one PlanGain")
    palette = find_theme(theme)
    head = heading(title if title is not None else plans_finding(gains), source, width - LEFT - RIGHT)
    data = []
    for trust in TRUST:
        places = [place for place, gain in enumerate(gains) if gain.trust == trust]
        data += [_dots(gains, places, trust, palette)]
        data += [_bars(gains, places, trust, palette)] if trust != BASELINE else []
    return figure_of(data, _layout(gains, head, palette, width))


def plans_finding(gains: Sequence[PlanGain]) -> str:
    """A title: the plan that gains most, or that none does."""
    best = max(gains, key=lambda gain: gain.points)
    if best.points <= 0:
        return "No plan tried is predicted to beat stream sync"
    name = best.plan[:1].upper() + best.plan[1:]
    ends = f"{best.low:+.1f} to {best.high:+.1f}".replace("-", "−")
    return f"{name}: {best.points:+.1f} points over stream sync predicted, {ends}"


def _bars(gains: Sequence[PlanGain], places: Sequence[int], trust: str, theme: Theme) -> Props:
    """The intervals: one line with gaps."""
    is_scored = trust == SCORED
    xs: list[float | None] = []
    ys: list[float | None] = []
    for place in places:
        xs += [gains[place].low, gains[place].high, None]
        ys += [place, place, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "80 % interval" if is_scored else "interval, a guess",
        "x": xs,
        "y": ys,
        "line": {
            "color": theme.muted,
            "width": 6 if is_scored else 2,
            "dash": "solid" if is_scored else "dot",
        },
        "opacity": 0.55 if is_scored else 1,
        "hoverinfo": "skip",
        "showlegend": bool(places),
    }


def _dots(gains: Sequence[PlanGain], places: Sequence[int], trust: str, theme: Theme) -> Props:
    colours = [_colour(gains[place].points, theme) for place in places]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": trust,
        "x": [gains[place].points for place in places],
        "y": list(places),
        "text": [f"{gains[place].points:+.1f}".replace("-", "−") for place in places],
        "textposition": "top center",
        "textfont": {"size": 11, "color": theme.ink},
        "cliponaxis": False,
        "marker": {
            "symbol": "circle-open" if trust == GUESS else "circle",
            "size": 11,
            "color": colours,
            "line": {"width": 2, "color": colours},
        },
        "hovertemplate": [HOVER.format(gains[place].plan, gains[place].time_ns / 1e3) for place in places],
        "showlegend": bool(places),
    }


def _colour(points: float, theme: Theme) -> str:
    """Gains and losses as everywhere; what is neither is grey."""
    return theme.good if points >= 0.05 else theme.bad if points <= -0.05 else theme.muted


def _layout(gains: Sequence[PlanGain], head: Heading, theme: Theme, width: int) -> Props:
    height = head.height + round(ROW_HEIGHT * (len(gains) + 1.2)) + BOTTOM
    layout = base_layout(theme, head, (width, height), (LEFT, RIGHT, head.height, BOTTOM))
    values = [value for gain in gains for value in (gain.low, gain.points, gain.high)]
    low, high = min(0.0, *values), max(0.0, *values)
    room = max(1.0, 0.06 * (high - low))
    names = [_cut(gain.plan) for gain in gains]
    layout["xaxis"] = axis(theme, "improvement over stream sync (points)", range=[low - room, high + room])
    layout["yaxis"] = axis(theme, range=[len(gains) - 0.4, -1.0], showgrid=False)
    layout["yaxis"] |= {"tickvals": list(range(len(gains))), "ticktext": names}
    loss = {"type": "rect", "yref": "paper", "xref": "x", "y0": 0, "y1": 1, "x0": low - room, "x1": 0}
    zero = {"type": "line", "yref": "paper", "xref": "x", "y0": 0, "y1": 1, "x0": 0, "x1": 0}
    layout["shapes"] = [
        {**loss, "fillcolor": theme.card, "line": {"width": 0}, "layer": "below"},
        {**zero, "line": {"color": theme.muted, "width": 1.5}, "layer": "below"},
    ]
    corner = {"yref": "paper", "y": 1, "yanchor": "bottom", "xref": "x", "x": 0}
    layout["annotations"] = [
        {**note("gain →", theme, size=11), **corner, "xanchor": "left", "xshift": 4},
        {**note("← loss", theme, size=11), **corner, "xanchor": "right", "xshift": -4},
    ]
    return layout


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
