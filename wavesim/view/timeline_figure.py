"""The timeline: SMs from top to bottom, time from left to right, one panel per trace, busy SMs below.

Example: stream sync above, row semaphores below, the same two kernels in blue and orange; the dashed
line where the second kernel had to wait is gone, and so is a quarter of the time.

`timeline` makes a figure. A widget makes it once, then hands `timeline_update`'s properties to the same
figure: as long as the numbers of panels and stages stay, so does the number of plotly series.
"""

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from wavesim.safe_io.escaping import Markup
from wavesim.trace.trace import Trace
from wavesim.view.canvas import Props, axis_name
from wavesim.view.figure import escaped, figure_of
from wavesim.view.raster import paint, png_uri
from wavesim.view.theme import Theme, find_theme
from wavesim.view.tile_series import (
    bar_width,
    bars_of,
    gap_px,
    hover_points,
    hover_template,
    idle_style,
    stage_bars,
    stage_style,
    waiting_bars,
    waiting_style,
)
from wavesim.view.timeline_data import PanelParts, TimelineParts, timeline_parts
from wavesim.view.timeline_layout import curve_series, layout_of
from wavesim.view.timeline_scene import scene_of_timeline

RASTER_WIDTH_FACTOR = 2  # picture pixels per screen pixel, for sharp edges on dense screens
MIN_RASTER_HEIGHT = 500


class FigureUpdate(NamedTuple):
    """Properties to set on an existing figure: one dictionary per series, and the layout's."""

    data: list[Props]
    layout: Props


def timeline(
    traces: Trace | Sequence[Trace],
    *,
    theme: str | Theme = "light",
    title: str | None = None,
    width: int = 1000,
    height: int | None = None,
) -> go.Figure:
    """A timeline of one trace, or of several under each other with the first as the baseline.

    A notebook draws it on the canvas of our widgets. Elsewhere up to 3,000 tiles in all are bars of plotly's;
    more are one picture per panel, exact to the pixel.
    Raises `DescriptionError` for no or empty traces and an unknown theme.
    """
    parts = timeline_parts(traces, title=title, width=width, height=height)
    figure = figure_of(*timeline_update(parts, theme))
    return figure.draw_as([("plans", scene_of_timeline(parts, title))])


def timeline_update(parts: TimelineParts, theme: str | Theme = "light") -> FigureUpdate:
    """All properties of the figure that shows these parts, for a new figure or an existing one.

    Use: `with figure.batch_update(): [s.update(p) for s, p in zip(figure.data, update.data)];
    figure.layout.update(update.layout)`. Unchanged ones are not sent to the browser again.
    """
    palette = find_theme(theme)
    data: list[Props] = []
    for index, panel in enumerate(parts.panels):
        data += _panel_series(panel, index, parts, palette)
    for place in range(len(parts.curves)):
        data += curve_series(parts, place, palette)
    layout = layout_of(parts, palette)
    layout["images"] = (
        [_image(p, i, parts, palette) for i, p in enumerate(parts.panels)] if parts.is_raster else []
    )
    return FigureUpdate(escaped(data), escaped(layout))


def _panel_series(panel: PanelParts, index: int, parts: TimelineParts, theme: Theme) -> list[Props]:
    """Idle, each stage, waiting and the raster's hover points: always in this order and number."""
    idle_px = 2.0 * float(parts.end_ns) / parts.frame.plot_width
    idle = panel.rows.idle.longer_than(idle_px)
    none = panel.rows.idle.where(panel.rows.idle.row < 0)
    if parts.is_raster:
        idle = none
    bar = _bar(index, parts)
    is_waiting_anywhere = any(len(p.rows.waiting) for p in parts.panels)
    series = [
        {
            **bar,
            **bars_of(idle, parts, gap_px(parts)),
            **idle_style(len(idle), parts, theme),
            "showlegend": not index,
        }
    ]
    for stage in range(len(parts.stages)):
        props = {**bar, **stage_style(stage, parts, theme), "showlegend": not index}
        drawn = bars_of(none, parts) if parts.is_raster else stage_bars(panel, stage, parts)
        series.append({**props, **({"text": None, "customdata": None} if parts.is_raster else {}), **drawn})
    waits = bars_of(none, parts) if parts.is_raster else waiting_bars(panel, parts)
    waits = {**bar, **waiting_style(parts, theme), **waits}
    series.append({**waits, "showlegend": not index and is_waiting_anywhere})
    series.append(_hover_series(panel, index, parts))
    return series


def _bar(index: int, parts: TimelineParts) -> Props:
    return {
        "type": "bar",
        "orientation": "h",
        "xaxis": "x",
        "yaxis": axis_name(index),
        "width": bar_width(parts),
        "cliponaxis": True,
    }


def _hover_series(panel: PanelParts, index: int, parts: TimelineParts) -> Props:
    none = {"x": [None], "y": [None], "customdata": None, "text": None}
    points = hover_points(panel, parts) if parts.is_raster else none
    return {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "xaxis": "x",
        "yaxis": axis_name(index),
        "hovertemplate": hover_template(Markup("%{text}"), parts.unit),
        "showlegend": False,
        **points,
    }


def _image(panel: PanelParts, index: int, parts: TimelineParts, theme: Theme) -> Props:
    """The raster of a panel, stretched over its axes."""
    rows = panel.rows
    scale = max(1, -(-MIN_RASTER_HEIGHT // rows.count), round(2 * parts.frame.row_height))
    width = RASTER_WIDTH_FACTOR * parts.frame.plot_width
    codes = paint(rows, panel.trace.stage, width, scale, float(parts.end_ns), parts.frame.row_height >= 5)
    return {
        "source": png_uri(codes, theme, len(parts.stages)),
        "xref": "x",
        "yref": axis_name(index),
        "x": 0,
        "y": -0.5,
        "sizex": float(parts.unit.of(parts.end_ns)),
        "sizey": rows.count,
        "xanchor": "left",
        "yanchor": "top",
        "sizing": "stretch",
        "layer": "above",
    }
