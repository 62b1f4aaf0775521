"""The timeline: SMs from top to bottom, time from left to right, one panel per trace, busy SMs below.

Picture: stream sync above, row semaphores below, the same two kernels in blue and orange; the dashed
line where the second kernel had to wait is gone, and so is a quarter of the time.

`timeline` makes a figure. A widget makes it once, then hands `timeline_update`'s properties to the same
figure: as long as the numbers of panels and stages stay, so does the number of plotly series.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from wavesim.trace import Trace
from wavesim.view.canvas import Props
from wavesim.view.raster import paint, png_uri
from wavesim.view.theme import Theme, find_theme
from wavesim.view.tile_series import (
    bars_of,
    gap_px,
    hover_points,
    hover_template,
    stage_bars,
    stage_letters,
    waiting_bars,
)
from wavesim.view.timeline_data import PanelParts, TimelineParts, timeline_parts
from wavesim.view.timeline_layout import timeline_layout

ROLES = {0: "producer", 1: "consumer"}
HATCH = {"size": 7, "solidity": 0.22}
RASTER_WIDTH_FACTOR = 2  # picture pixels per screen pixel, for sharp edges on dense screens
MIN_RASTER_HEIGHT = 500
NO_CURVE = (np.array([np.nan]), np.array([np.nan]))


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

    Up to 3,000 tiles in all are bars; more are one picture per panel, exact to the pixel.
    Raises `DescriptionError` for no or empty traces and an unknown theme.
    """
    parts = timeline_parts(traces, title=title, width=width, height=height)
    update = timeline_update(parts, theme)
    return go.Figure(data=update.data, layout=update.layout)


def timeline_update(parts: TimelineParts, theme: str | Theme = "light") -> FigureUpdate:
    """All properties of the figure that shows these parts, for a new figure or an existing one.

    Use: `with figure.batch_update(): [s.update(p) for s, p in zip(figure.data, update.data)];
    figure.layout.update(update.layout)`. Unchanged ones are not sent to the browser again.
    """
    palette = find_theme(theme)
    data: list[Props] = []
    for index, panel in enumerate(parts.panels):
        data += _panel_series(panel, index, parts, palette)
    for index, panel in enumerate(parts.panels):
        data += _step_series(panel, index, parts, palette)
    layout = timeline_layout(parts, palette)
    layout["images"] = (
        [_image(p, i, parts, palette) for i, p in enumerate(parts.panels)] if parts.is_raster else []
    )
    return FigureUpdate(data, layout)


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
            **_idle_style(idle, parts, theme),
            "showlegend": not index,
        }
    ]
    for stage, name in enumerate(parts.stages):
        props = {**bar, **_stage_style(stage, name, len(parts.stages), parts, theme), "showlegend": not index}
        drawn = bars_of(none, parts) if parts.is_raster else stage_bars(panel, stage, parts)
        series.append({**props, **({"text": None, "customdata": None} if parts.is_raster else {}), **drawn})
    waits = bars_of(none, parts) if parts.is_raster else waiting_bars(panel, parts)
    waits = {**bar, **_waiting_style(theme, parts), **waits}
    series.append({**waits, "showlegend": not index and is_waiting_anywhere})
    series.append(_hover_series(panel, index, parts))
    return series


def _bar(index: int, parts: TimelineParts) -> Props:
    axis = "y" if index == 0 else f"y{index + 1}"
    width = 0.8 if parts.frame.row_height >= 8 else 1.0
    return {
        "type": "bar",
        "orientation": "h",
        "xaxis": "x",
        "yaxis": axis,
        "width": width,
        "cliponaxis": True,
    }


def _corner(parts: TimelineParts) -> int:
    return 6 if parts.frame.row_height >= 24 else 2 if parts.frame.row_height >= 10 else 0


def _idle_style(idle: Any, parts: TimelineParts, theme: Theme) -> Props:
    pattern = {**HATCH, "shape": "/", "fgcolor": theme.idle_hatch, "bgcolor": theme.idle}
    line = {"color": theme.idle_hatch, "width": 1 if parts.frame.row_height >= 16 else 0}
    has_room = parts.frame.row_height >= 24 and len(idle) <= 200
    return {
        "name": "idle SM",
        "legendgroup": "idle",
        "legendrank": 1002,
        "marker": {"color": theme.idle, "pattern": pattern, "line": line, "cornerradius": _corner(parts)},
        "text": ["idle"] * max(1, len(idle)) if has_room else None,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textfont": {"color": theme.muted, "size": 11},
        "hoverinfo": "skip",
    }


def _stage_style(stage: int, name: str, count: int, parts: TimelineParts, theme: Theme) -> Props:
    role = f", {ROLES[stage]}" if count == 2 else ""
    return {
        "name": f"{stage_letters(count)[stage]} = tile of {name}{role}",
        "legendgroup": name,
        "marker": {"color": theme.stage_colour(stage), "cornerradius": _corner(parts), "line": {"width": 0}},
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"color": theme.text_on(stage), "size": 13, "weight": 600},
        "hovertemplate": hover_template(name, parts.unit),
        "hoverlabel": {
            "bgcolor": theme.card,
            "bordercolor": theme.stage_colour(stage),
            "font": {"color": theme.ink},
        },
    }


def _waiting_style(theme: Theme, parts: TimelineParts) -> Props:
    pattern = {**HATCH, "shape": "\\", "fgcolor": theme.waiting_hatch, "bgcolor": theme.waiting}
    return {
        "name": "waiting for a semaphore",
        "legendgroup": "waiting",
        "legendrank": 1001,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": theme.text_on(1), "size": 11},
        "marker": {
            "color": theme.waiting,
            "pattern": pattern,
            "line": {"width": 0},
            "cornerradius": _corner(parts),
        },
        "hoverinfo": "skip",
    }


def _hover_series(panel: PanelParts, index: int, parts: TimelineParts) -> Props:
    points = hover_points(panel, parts) if parts.is_raster else {"x": [None], "y": [None], "customdata": None}
    return {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "xaxis": "x",
        "yaxis": "y" if index == 0 else f"y{index + 1}",
        "hovertemplate": hover_template("%{text}", parts.unit),
        "showlegend": False,
        **points,
    }


def _step_series(panel: PanelParts, index: int, parts: TimelineParts, theme: Theme) -> list[Props]:
    """Resident below busy, as steps: the baseline dashed and muted, the last one filled."""
    is_last, is_base = index == len(parts.panels) - 1, index == 0 and len(parts.panels) > 1
    colour = step_colour(index, len(parts.panels), theme)
    axis = f"y{len(parts.panels) + 1}"
    common = {"type": "scatter", "mode": "lines", "xaxis": "x", "yaxis": axis, "showlegend": False}
    series = []
    resident = panel.resident if len(panel.rows.waiting) else NO_CURVE  # without waits it is the busy curve
    for kind, (time, share) in (("resident", resident), ("busy", panel.busy)):
        is_busy = kind == "busy"
        dash = ("dash" if is_base else "solid") if is_busy else "dot"
        series.append(
            {
                **common,
                "x": (time / parts.unit.ns).astype(np.float32),
                "y": share.astype(np.float32),
                "line": {"color": colour, "width": 2.4 if is_busy else 1.2, "dash": dash, "shape": "hv"},
                "fill": "tozeroy" if is_busy and is_last else "none",
                "fillcolor": theme.translucent(colour, 0.13),
                "hovertemplate": f"{panel.trace.header.plan_label}: %{{y:.0%}} {kind}<extra></extra>",
            }
        )
    return series


def step_colour(index: int, count: int, theme: Theme) -> str:
    """The colour of a panel's curve: the baseline muted, the last in the colour of a gain."""
    if index == count - 1:
        return theme.good
    return theme.muted if index == 0 else theme.bad


def _image(panel: PanelParts, index: int, parts: TimelineParts, theme: Theme) -> Props:
    """The raster of a panel, stretched over its axes."""
    rows = panel.rows
    scale = max(1, -(-MIN_RASTER_HEIGHT // rows.count), round(2 * parts.frame.row_height))
    width = RASTER_WIDTH_FACTOR * parts.frame.plot_width
    codes = paint(rows, panel.trace.stage, width, scale, float(parts.end_ns), parts.frame.row_height >= 5)
    return {
        "source": png_uri(codes, theme, len(parts.stages)),
        "xref": "x",
        "yref": "y" if index == 0 else f"y{index + 1}",
        "x": 0,
        "y": -0.5,
        "sizex": float(parts.unit.of(parts.end_ns)),
        "sizey": rows.count,
        "xanchor": "left",
        "yanchor": "top",
        "sizing": "stretch",
        "layer": "above",
    }
