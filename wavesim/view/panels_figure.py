"""Small panels beside each other on one scale: one comparison each, dots with whiskers over sizes.

Example: twelve panels, each a rival's name in bold with its mean behind it, a line at 1.0 across, green dots
above it and magenta ones on the shaded side below. What lies off the scale is an arrowhead with its number.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.view.canvas import Props, axis, axis_name, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme


@dataclass(frozen=True)
class Dot:
    """One value at the category with this index; `words` are shown at it."""

    at: int
    value: float
    low: float
    high: float
    words: str


@dataclass(frozen=True)
class Series:
    """Dots of one meaning; `colour` is a colour's name in the theme. `shift` is in categories."""

    name: str
    dots: Sequence[Dot]
    colour: str
    symbol: str = "circle"
    shift: float = 0.0


@dataclass(frozen=True)
class Panel:
    """One small plot. `divider` draws a line after that many categories."""

    title: str
    facts: str
    categories: Sequence[str]
    series: Sequence[Series]
    divider: int = 0


@dataclass(frozen=True)
class Scale:
    """The common y axis. `low` and `high` cut off what lies beyond; the shaded side is below `even`."""

    title: str
    low: float
    high: float
    even: float = 1.0
    is_shaded: bool = True
    digits: int = 2
    suffix: str = ""

    def text(self, value: float) -> str:
        """A value in the axis' digits."""
        return f"{value:.{self.digits}f}{self.suffix}".replace("-", "−")


def fitting(title: str, dots: Iterable[Dot], within: tuple[float, float], even: float = 1.0) -> Scale:
    """A scale that holds all dots and `even`, with some room, but never more than `within`."""
    values = [value for dot in dots for value in (dot.low, dot.high)] + [even]
    room = 0.08 * (max(values) - min(values)) or 0.05
    return Scale(title, max(within[0], min(values) - room), min(within[1], max(values) + room), even)


LEFT, RIGHT, BOTTOM = 66, 24, 96
GAP_X, HEADER, TICKS = 26, 46, 26  # pixels beside a panel, above it by default, and below it
LABEL_ROOM = 36  # pixels that an axis label needs
DOT = 6.5
EDGE = 0.05  # of the scale: how far inside its edges arrowheads stand


@dataclass(frozen=True)
class Places:
    """Where panels stand, in pixels: `columns` beside each other, rows as needed."""

    count: int
    columns: int
    width: int
    panel_height: int
    header: int

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return ceil(self.count / self.columns)

    @property
    def plot(self) -> tuple[int, int]:
        """Width and height between the margins."""
        return self.width - LEFT - RIGHT, self.rows * (self.panel_height + self.header + TICKS)

    @property
    def panel_width(self) -> float:
        """Width of one panel."""
        return (self.plot[0] - (self.columns - 1) * GAP_X) / self.columns

    def domain(self, index: int) -> tuple[list[float], list[float]]:
        """Paper coordinates of a panel: [left, right], [bottom, top]."""
        row, column = divmod(index, self.columns)
        left = column * (self.panel_width + GAP_X)
        top = row * (self.panel_height + self.header + TICKS) + self.header
        width, height = self.plot
        return [left / width, (left + self.panel_width) / width], [
            1 - (top + self.panel_height) / height,
            1 - top / height,
        ]


def small_panels(  # noqa: PLR0913  # named settings of one picture
    panels: Sequence[Panel],
    scale: Scale,
    *,
    title: str,
    source: str,
    size_name: str,
    columns: int = 4,
    panel_height: int = 128,
    header: int = HEADER,
    width: int = 1000,
    theme: str | Theme = "light",
) -> go.Figure:
    """All panels on one scale. Raises `DescriptionError` without panels and for an unknown theme."""
    if not panels:
        raise DescriptionError("small_panels: panels is empty; give at least one Panel")
    palette = find_theme(theme)
    places = Places(len(panels), min(columns, len(panels)), width, panel_height, header)
    head = heading(title, source, width - LEFT - RIGHT)
    height = head.height + places.plot[1] + BOTTOM
    layout = base_layout(palette, head, (width, height), (LEFT, RIGHT, head.height, BOTTOM))
    layout["legend"]["y"] = -(BOTTOM - 62) / places.plot[1]
    layout["shapes"], layout["annotations"] = [], []
    data: list[Props] = []
    for index, panel in enumerate(panels):
        _place(layout, panel, index, places, scale, palette)
        for order, series in enumerate(panel.series):
            named = {entry["name"] for entry in data if entry["showlegend"]}
            drawn = _drawn(series, index, scale, palette, has_key=series.name not in named)
            data += [{**entry, "legendrank": order} for entry in drawn]
    layout["annotations"].append(_below(size_name, palette))
    return figure_of(data, layout)


def _place(layout: Props, panel: Panel, index: int, places: Places, scale: Scale, theme: Theme) -> None:
    across, up = places.domain(index)
    x, y = axis_name(index, "x"), axis_name(index)
    edge = len(panel.categories) - 0.5
    chosen = _labelled(panel.categories, places.panel_width)
    layout[axis_name(index, "xaxis")] = axis(
        theme, domain=across, anchor=y, range=[-0.5, edge], showgrid=False
    ) | {
        "tickvals": chosen,
        "ticktext": [panel.categories[i] for i in chosen],
        "tickfont": {"size": 11, "color": theme.muted},
    }
    is_left = index % places.columns == 0
    layout[axis_name(index, "yaxis")] = axis(
        theme,
        scale.title if is_left and index // places.columns == (places.rows - 1) // 2 else "",
        domain=up,
        anchor=x,
        range=[scale.low, scale.high],
        showticklabels=is_left,
        ticksuffix=scale.suffix,
        nticks=6,
    )
    box = {"xref": f"{x} domain", "yref": y, "x0": 0, "x1": 1, "layer": "below"}
    if scale.is_shaded:
        layout["shapes"].append(
            {**box, "type": "rect", "y0": scale.low, "y1": scale.even, "fillcolor": theme.card}
            | {"line": {"width": 0}}
        )
    layout["shapes"].append(
        {**box, "type": "line", "y0": scale.even, "y1": scale.even}
        | {"line": {"color": theme.muted, "width": 1.5}}
    )
    if 0 < panel.divider < len(panel.categories):
        at = panel.divider - 0.5
        layout["shapes"].append(
            {"type": "line", "xref": x, "yref": f"{y} domain", "x0": at, "x1": at, "y0": 0, "y1": 1}
            | {"line": {"color": theme.idle_hatch, "width": 1, "dash": "dot"}, "layer": "below"}
        )
    place = {"xref": "paper", "yref": "paper", "x": across[0], "xanchor": "left", "y": up[1]}
    title = element("b", panel.title, style=f"color:{theme.ink}")
    words = BREAK.join([title, element("span", panel.facts)])
    layout["annotations"].append({**note(words, theme, size=12), **place, "yanchor": "bottom", "yshift": 3})


def _labelled(categories: Sequence[str], width: float) -> list[int]:
    """Which categories get a label: powers of two first, as many as there is room for."""
    pitch = width / max(1, len(categories))

    def importance(index: int) -> tuple[bool, int]:
        number = int(categories[index]) if categories[index].isdigit() else 0
        return bool(number & (number - 1)), -index

    chosen: list[int] = []
    for index in sorted(range(len(categories)), key=importance):
        if all(abs(index - other) * pitch >= LABEL_ROOM for other in chosen):
            chosen.append(index)
    return sorted(chosen)


def _drawn(series: Series, index: int, scale: Scale, theme: Theme, *, has_key: bool) -> list[Props]:
    """Dots on the scale, then arrowheads at its edges for those beyond it."""
    inside = [dot for dot in series.dots if scale.low <= dot.value <= scale.high]
    beyond = [dot for dot in series.dots if dot not in inside]
    colour = getattr(theme, series.colour)
    common = {
        "type": "scatter",
        "name": series.name,
        "legendgroup": series.name,
        "xaxis": axis_name(index, "x"),
        "yaxis": axis_name(index),
        "hovertemplate": Markup("%{customdata}<extra></extra>"),
        "cliponaxis": False,
    }
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": [dot.high - dot.value for dot in inside],
        "arrayminus": [dot.value - dot.low for dot in inside],
        "color": colour,
        "thickness": 1.4,
        "width": 0,
    }
    marker = {"symbol": series.symbol, "size": DOT, "color": colour, "line": {"width": 1.5, "color": colour}}
    drawn = [
        {
            **common,
            "mode": "markers",
            "x": [dot.at + series.shift for dot in inside],
            "y": [dot.value for dot in inside],
            "customdata": [dot.words for dot in inside],
            "error_y": whiskers,
            "marker": marker,
            "showlegend": bool(inside) and has_key,
        }
    ]
    if beyond:
        is_over = [dot.value > scale.high for dot in beyond]
        inset = EDGE * (scale.high - scale.low)
        drawn.append(
            {
                **common,
                "mode": "markers+text",
                "x": [dot.at + series.shift for dot in beyond],
                "y": [scale.high - inset if over else scale.low + inset for over in is_over],
                "text": [scale.text(dot.value) for dot in beyond],
                "textposition": ["bottom center" if over else "top center" for over in is_over],
                "textfont": {"size": 9, "color": theme.muted},
                "customdata": [dot.words for dot in beyond],
                "marker": marker | {"symbol": ["triangle-up" if o else "triangle-down" for o in is_over]},
                "showlegend": False,
            }
        )
    return drawn


def _below(text: str, theme: Theme) -> Props:
    place = {"xref": "paper", "yref": "paper", "x": 0.5, "xanchor": "center", "y": 0, "yanchor": "top"}
    return {**note(text, theme, size=12), **place, "yshift": -2}
