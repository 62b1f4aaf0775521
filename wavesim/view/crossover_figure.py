"""Gain over M for each way of synchronising, with its interval; underneath the way that is taken.

Example: of GPT-3's MLP Stream-K's line falls from 38 points, that of row semaphores jumps to 27 at 641 rows,
and the strip below changes colour there. A way keeps its colour and its dash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Props, axis, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, PLOT_HEIGHT, WIDTH = 66, 24, 110, 400, 1000
STRIP = (0.0, 0.09)  # of the plot's height
GAINS = (0.2, 1.0)
DASHES = ("solid", "dash", "dot", "dashdot")
BAND = 0.13
NARROW = 0.05  # of the axis: a strip's label does not fit into less
HOVER = Markup(
    "<b>{}</b> at %{{x}} rows: %{{y:+.1f}} points (%{{customdata[0]:+.1f}} to %{{customdata[1]:+.1f}})"
    "<extra></extra>"
)


@dataclass(frozen=True)
class GainStep:
    """A way's gain in points, and its interval, from `m_from` to `m_to` rows."""

    m_from: int
    m_to: int
    points: float
    low: float
    high: float


@dataclass(frozen=True)
class ChosenWay:
    """The way that the table takes from `m_from` to `m_to` rows."""

    m_from: int
    m_to: int
    way: str


def gains_over_rows(
    gains: Mapping[str, Sequence[GainStep]],
    chosen: Sequence[ChosenWay],
    *,
    title: str,
    source: str,
    theme: str | Theme = "light",
    width: int = WIDTH,
) -> go.Figure:
    """The figure; `source` says what gains were predicted from. Raises `DescriptionError` for no gains."""
    if not gains or not chosen:
        raise DescriptionError("gains_over_rows: gains or chosen is empty; give at least one way and one row")
    palette = find_theme(theme)
    head = heading(title, source, width - LEFT - RIGHT)
    count = len(palette.stages)
    styles = {way: (palette.stage_colour(i), DASHES[i // count % 4]) for i, way in enumerate(gains)}
    data: list[Props] = []
    for way, steps in gains.items():
        data += _series(way, steps, *styles[way], palette, is_taken=any(one.way == way for one in chosen))
    size = (width, head.height + PLOT_HEIGHT + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    first, last = chosen[0].m_from, chosen[-1].m_to
    layout |= {
        "xaxis": axis(palette, "rows M", range=[first, last], anchor="y2"),
        "yaxis": axis(palette, "gain over stream sync, points", domain=GAINS, zeroline=True),
        "yaxis2": {"domain": STRIP, "range": [0, 1], "visible": False, "fixedrange": True},
        "shapes": [_block(one, styles[one.way], palette) for one in chosen],
        "annotations": [
            *layout.get("annotations", []),
            *(_label(one, palette) for one in chosen if one.m_to - one.m_from > NARROW * (last - first)),
            note("taken:", palette, xref="paper", x=-0.005, xanchor="right", yref="paper", y=STRIP[1] / 2),
        ],
    }
    return figure_of(data, layout)


def _series(
    way: str, steps: Sequence[GainStep], colour: str, dash: str, theme: Theme, *, is_taken: bool
) -> list[Props]:
    """The band and the line, each a step per range of M. Bands of ways that are never taken are not drawn."""
    at = [m for step in steps for m in (step.m_from, step.m_to)]

    def twice(values: Sequence[float]) -> list[float]:
        return [value for value in values for _ in range(2)]

    low, high = twice([step.low for step in steps]), twice([step.high for step in steps])
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": way,
        "legendgroup": way,
        "x": at,
        "y": twice([step.points for step in steps]),
        "line": {"color": colour, "dash": dash, "width": 2.4 if is_taken else 1.4},
        "customdata": [list(pair) for pair in zip(low, high, strict=True)],
        "hovertemplate": HOVER.format(way),
    }
    band = {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": way,
        "showlegend": False,
        "hoverinfo": "skip",
        "x": [*at, *reversed(at)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": theme.translucent(colour, BAND),
        "line": {"width": 0},
    }
    return [band, line] if is_taken else [line]


def _block(one: ChosenWay, style: tuple[str, str], theme: Theme) -> Props:
    """A rectangle of the strip; a dashed way's edge is dashed too."""
    colour, dash = style
    return {
        "type": "rect",
        "xref": "x",
        "yref": "y2",
        "x0": one.m_from - 0.5,
        "x1": one.m_to + 0.5,
        "y0": 0,
        "y1": 1,
        "fillcolor": theme.translucent(colour, 0.35),
        "line": {"color": colour, "dash": dash, "width": 1.5},
    }


def _label(one: ChosenWay, theme: Theme) -> Props:
    return note(
        one.way.partition(" ")[0],
        theme,
        11,
        xref="x",
        yref="y2",
        x=(one.m_from + one.m_to) / 2,
        y=0.5,
        xanchor="center",
        yanchor="middle",
        font={"color": theme.ink, "size": 11},
    )
