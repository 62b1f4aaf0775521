"""What all figures have in common: paper, fonts, title with subtitle, quiet axes, legend at the bottom.

Example: the finding in 20 pixel letters, below it in grey what it was found on, then the plot.
"""

from typing import Any, NamedTuple

from wavesim.safe_io.bounds import real
from wavesim.safe_io.escaping import Markup, element
from wavesim.view.theme import FONT, Theme
from wavesim.view.wording import wrapped

TITLE_SIZE, SUBTITLE_SIZE = 20, 13
TITLE_LINE, SUBTITLE_LINE, TOP_PAD = 28, 20, 22
LEAST_PX, MOST_PX = 100, 20_000  # of a figure's width

Props = dict[str, Any]


class Heading(NamedTuple):
    """Title and subtitle, wrapped; `height` is what they need above the plot in pixels."""

    title: Markup
    subtitle: Markup

    @property
    def height(self) -> int:
        """Pixels from the figure's top to the plot's."""
        titles, subtitles = self.title.count("<br>") + 1, self.subtitle.count("<br>") + 1
        return TOP_PAD + TITLE_LINE * titles + SUBTITLE_LINE * subtitles + 14

    @property
    def title_centre(self) -> float:
        """Pixels from the figure's top to where plotly hangs the title, whose lines it centres there."""
        return TOP_PAD - 4 + TITLE_LINE * self.title.count("<br>") / 2


def heading(title: str, subtitle: str, room_px: float) -> Heading:
    """The two texts, wrapped to a width."""
    return Heading(wrapped(title, room_px, TITLE_SIZE), wrapped(subtitle, room_px, SUBTITLE_SIZE))


def base_layout(
    theme: Theme, head: Heading, size: tuple[int, int], margin: tuple[int, int, int, int]
) -> Props:
    """Layout properties of a figure of `size` (width, height) with `margin` (left, right, top, bottom).

    Raises `DescriptionError` for a width that no screen has.
    """
    left, right, top, bottom = margin
    real("width", size[0], LEAST_PX, MOST_PX)
    plot_height = max(1, size[1] - top - bottom)
    return {
        "width": size[0],
        "height": size[1],
        "margin": {"l": left, "r": right, "t": top, "b": bottom},
        "paper_bgcolor": theme.background,
        "plot_bgcolor": theme.background,
        "font": {"family": FONT, "color": theme.ink, "size": 13},
        "title": _title(theme, head, size[1]),
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": theme.card, "font": {"color": theme.ink, "family": FONT}},
        "uirevision": 1,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": -(bottom - 42) / plot_height,
            "yanchor": "top",
            "font": {"size": 12, "color": theme.muted},
            "bgcolor": "rgba(0,0,0,0)",
            "traceorder": "normal",
        },
    }


def _title(theme: Theme, head: Heading, height: int) -> Props:
    return {
        "text": head.title,
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": 1 - head.title_centre / height,
        "yref": "container",
        "yanchor": "top",
        "font": {"size": TITLE_SIZE, "color": theme.ink},
        "subtitle": {"text": head.subtitle, "font": {"size": SUBTITLE_SIZE, "color": theme.muted}},
    }


def axis(theme: Theme, title: str = "", **more: object) -> Props:
    """An axis in the theme's quiet style."""
    return {
        "title": {"text": title, "font": {"size": 12, "color": theme.muted}, "standoff": 8},
        "tickfont": {"color": theme.muted, "size": 12},
        # Otherwise the browser measures every label at each redraw, to hide those that overlap an edge.
        "ticklabeloverflow": "allow",
        "gridcolor": theme.grid,
        "zeroline": False,
        "showline": False,
        **more,
    }


def axis_name(index: int, stem: str = "y") -> str:
    """Plotly's name of the axis with this index from 0: "y", "y2", "y3"; stem "yaxis" gives layout's keys."""
    return stem if index == 0 else f"{stem}{index + 1}"


def note(text: str, theme: Theme, size: int = 13, **more: object) -> Props:
    """An annotation without an arrow, muted unless its text says otherwise."""
    return {
        "text": text,
        "showarrow": False,
        "align": "left",
        "font": {"size": size, "color": theme.muted},
        **more,
    }


def section(text: str, theme: Theme, top: float, key: str = "") -> Props:
    """The bold header of a plot inside a figure, with a key behind it, over paper height `top`."""
    name = element("b", text, style=f"font-size:15px;color:{theme.ink}")
    words = Markup("{}  {}").format(name, key)
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": top, "yref": "paper", "yanchor": "bottom"}
    return {**note(words, theme), **place, "yshift": 6}
