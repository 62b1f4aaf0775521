"""Stacked bars, one per row: where time goes, under several ways of doing the same.

Example: a layer under stream sync and with row semaphores; attention, MLP and all-reduce have the same
colours in every bar.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Props, axis, base_layout, heading
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, ROW_HEIGHT, WIDTH = 150, 40, 110, 44, 1000
HOVER = Markup("<b>{}</b>, {}: %{{x:,.1f}}<extra></extra>")
HATCHES = ("", "", "", "", "/", "x")


@dataclass(frozen=True)
class StackedBar:
    """A bar and the lengths of its parts, in the order of the parts' names."""

    name: str
    lengths: tuple[float, ...]


def bars_of_parts(
    bars: Sequence[StackedBar],
    parts: Sequence[str],
    *,
    title: str,
    source: str,
    x_title: str,
    theme: str | Theme = "light",
) -> go.Figure:
    """The bars in their order, the first at the top; `source` says where lengths come from.

    Raises `DescriptionError` for no bars, and for one that has not as many lengths as there are parts.
    """
    if not bars or any(len(bar.lengths) != len(parts) for bar in bars):
        raise DescriptionError(
            f"bars_of_parts: each of {len(bars)} bars needs {len(parts)} lengths; give both"
        )
    palette = find_theme(theme)
    head = heading(title, source, WIDTH - LEFT - RIGHT)
    data: list[Props] = [_part(bars, part, index, palette) for index, part in enumerate(parts)]
    size = (WIDTH, head.height + ROW_HEIGHT * len(bars) + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    layout |= {
        "barmode": "stack",
        "bargap": 0.3,
        "xaxis": axis(palette, x_title, rangemode="tozero"),
        "yaxis": axis(palette, "", autorange="reversed", showgrid=False),
        "showlegend": True,
        "legend": {"orientation": "h", "y": -62 / (ROW_HEIGHT * len(bars)), "x": 0, "traceorder": "normal"},
    }
    return figure_of(data, layout)


def _part(bars: Sequence[StackedBar], part: str, index: int, theme: Theme) -> Props:
    """Colours of the stages first; what is no stage's work is grey, and hatched."""
    hatch = HATCHES[index % len(HATCHES)]
    colour = theme.waiting if hatch else theme.stage_colour(index)
    return {
        "type": "bar",
        "orientation": "h",
        "name": part,
        "y": [bar.name for bar in bars],
        "x": [bar.lengths[index] for bar in bars],
        "marker": {
            "color": colour,
            "line": {"color": theme.background, "width": 1},
            "pattern": {"shape": hatch, "fgcolor": theme.waiting_hatch, "fillmode": "overlay"},
        },
        "hovertemplate": [HOVER.format(part, bar.name) for bar in bars],
    }
