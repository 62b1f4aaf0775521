"""Lines over one axis, each in a colour and a dash of its own.

Example: the time of a layer over the bytes of an SM's ring, a line for each model.
"""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Props, axis, base_layout, heading
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, PLOT_HEIGHT, WIDTH = 66, 24, 96, 300, 1000
DASHES = ("solid", "dash", "dot", "dashdot")
Points = Sequence[tuple[float, float]]


def lines_figure(
    lines: Mapping[str, Points],
    *,
    title: str,
    source: str,
    x_title: str,
    y_title: str,
    hover: str,
    theme: str | Theme = "light",
) -> go.Figure:
    """`hover` follows a line's name and has plotly's `%{x}` and `%{y}`. Raises `DescriptionError` where a
    line is empty.
    """
    if not lines or not all(lines.values()):
        raise DescriptionError("lines_figure: a line is empty; give each at least one point")
    palette = find_theme(theme)
    head = heading(title, source, WIDTH - LEFT - RIGHT)
    data: list[Props] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": [x for x, _ in line],
            "y": [y for _, y in line],
            "line": {"color": palette.stage_colour(index), "dash": DASHES[index % len(DASHES)], "width": 2.2},
            "hovertemplate": Markup("<b>{}</b>{}<extra></extra>").format(name, hover),
        }
        for index, (name, line) in enumerate(lines.items())
    ]
    size = (WIDTH, head.height + PLOT_HEIGHT + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    layout |= {
        "xaxis": axis(palette, x_title, rangemode="tozero"),
        "yaxis": axis(palette, y_title, rangemode="tozero"),
        "showlegend": True,
    }
    return figure_of(data, layout)
