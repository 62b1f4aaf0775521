"""SMs busy and resident over time, one panel per trace: how much of the device worked, waited or idled.

Example: stream sync drops to half before the kernel boundary; with semaphores the dip is gone, or it
is hatched, because its SMs are held by blocks that wait.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from wavesim.safe_io.escaping import Markup
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace
from wavesim.view.canvas import Heading, Props, axis, axis_name, base_layout, heading, section
from wavesim.view.figure_text import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.timeline_data import PanelParts, TimelineParts, timeline_parts
from wavesim.view.wording import workload_text

LEFT, RIGHT, BOTTOM = 62, 30, 96
PANEL_HEIGHT, HEADER_HEIGHT = 120, 46
HOVER = Markup("%{{y:.4~g}} of {} SMs {}<extra>{}</extra>")

FloatArray = NDArray[np.float64]


def utilisation(
    traces: Trace | Sequence[Trace],
    *,
    theme: str | Theme = "light",
    title: str | None = None,
    width: int = 1000,
) -> go.Figure:
    """SMs busy (filled) and waiting (hatched, up to the resident ones) over time, a panel per trace.

    Raises `DescriptionError` for no or empty traces and an unknown theme.
    """
    parts, palette = timeline_parts(traces, width=width), find_theme(theme)
    text = title if title is not None else _finding(parts)
    head = heading(text, workload_text(parts.panels[0].trace.header), width - LEFT - RIGHT)
    data = [props for i, panel in enumerate(parts.panels) for props in _series(panel, i, parts, palette)]
    return figure_of(data, _layout(parts, head, palette, width))


def _finding(parts: TimelineParts) -> str:
    shares = [
        f"{panel.label} {metrics_of(panel.trace).busy_utilisation:.0%}".replace("%", " %")
        for panel in parts.panels
    ]
    return f"Share of SM time spent computing: {', '.join(shares)}"


def _series(panel: PanelParts, index: int, parts: TimelineParts, theme: Theme) -> list[Props]:
    common = {
        "type": "scatter",
        "mode": "lines",
        "xaxis": "x",
        "yaxis": axis_name(index),
        "showlegend": index == 0,
    }
    sm_count = panel.rows.sm_count
    (busy_time, busy), (resident_time, resident) = panel.busy, panel.resident
    times = np.union1d(busy_time, resident_time)
    levels = {"busy": _at(times, busy_time, busy), "resident": _at(times, resident_time, resident)}
    hatch = {"shape": "\\", "fgcolor": theme.waiting, "size": 6, "solidity": 0.35}
    looks: dict[str, Props] = {
        "busy": {"line": {"color": theme.good, "width": 2, "shape": "hv"}, "fill": "tozeroy"},
        "resident": {"line": {"color": theme.waiting, "width": 0, "shape": "hv"}, "fill": "tonexty"},
    }
    looks["busy"]["fillcolor"] = theme.translucent(theme.good, 0.22)
    looks["resident"]["fillpattern"] = hatch
    names = {"busy": "busy: computing", "resident": "resident but waiting for a semaphore"}
    x = (times / parts.unit.ns).astype(np.float32)
    return [
        {
            **common,
            **looks[kind],
            "name": names[kind],
            "legendgroup": kind,
            "x": x,
            "y": (levels[kind] * sm_count).astype(np.float32),
            "hovertemplate": HOVER.format(sm_count, kind, panel.label),
        }
        for kind in ("busy", "resident")
    ]


def _at(times: FloatArray, steps: FloatArray, levels: FloatArray) -> FloatArray:
    """The level of a step curve at each time."""
    found = levels[np.clip(np.searchsorted(steps, times, side="right") - 1, 0, None)]
    return np.where(times < steps[0], 0.0, found)


def _layout(parts: TimelineParts, head: Heading, theme: Theme, width: int) -> Props:
    count = len(parts.panels)
    each = PANEL_HEIGHT + HEADER_HEIGHT
    height = head.height + each * count + BOTTOM
    layout = base_layout(theme, head, (width, height), (LEFT, RIGHT, head.height, BOTTOM))
    end = float(parts.unit.of(parts.end_ns))
    bottom = axis_name(count - 1)
    layout["xaxis"] = axis(
        theme, parts.unit.axis, range=[0, end], griddash="dot", anchor=bottom, dtick=parts.dtick
    )
    layout["annotations"] = []
    for index, panel in enumerate(parts.panels):
        low = (count - 1 - index) * each / (each * count)
        top = low + PANEL_HEIGHT / (each * count)
        most = panel.rows.sm_count
        layout[axis_name(index, "yaxis")] = axis(
            theme,
            "SMs",
            domain=[low, top],
            range=[0, most * 1.04],
            tickvals=sorted({0, most // 2, most}),
        )
        facts = " · ".join(fact for fact in panel.facts if fact.strip())
        layout["annotations"].append(section(panel.label, theme, top, facts))
    return layout
