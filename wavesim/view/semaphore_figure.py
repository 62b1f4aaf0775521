"""Semaphores over time as a heat map: how full each counter is, when it is ready and who asked before.

Example: eight rows of the first GEMM, pale at the left, blue where all 24 of a row's tiles are posted;
a diamond where that happened, a ring where a consumer block began to wait for it.
"""

import numpy as np
import plotly.graph_objects as go

from wavesim.safe_io.escaping import Markup
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace
from wavesim.view.canvas import Heading, Props, axis, axis_name, base_layout, heading, section
from wavesim.view.figure_text import figure_of
from wavesim.view.semaphore_data import SemaphoreHistory, semaphore_histories
from wavesim.view.theme import Theme, find_theme
from wavesim.view.time_unit import TimeUnit, unit_for
from wavesim.view.wording import provenance, workload_text

LEFT, RIGHT, BOTTOM, HEADER_HEIGHT = 92, 96, 96, 46
COLUMNS = 500
POSTS_HOVER = Markup("{} %{{y}}: %{{z}} % of its posts at %{{x:,.2~f}} {}<extra></extra>")
MOMENT_HOVER = Markup("{} %{{y}}: {} at %{{x:,.2~f}} {}<extra></extra>")
ROW_TARGET, TALLEST_ROW, SHORTEST_ROW = 300, 30, 0.5
MAX_LABELS = 16


def semaphore_map(
    trace: Trace, *, theme: str | Theme = "light", title: str | None = None, width: int = 1000
) -> go.Figure:
    """Heat map of every semaphore's value over time, a panel per dependency.

    Raises `DescriptionError` for a plan that has no semaphores and an unknown theme.
    """
    histories, palette = semaphore_histories(trace), find_theme(theme)
    unit = unit_for([trace.makespan_ns], [metrics_of(trace).waves])
    text = title if title is not None else _finding(trace, histories[0], unit)
    head = heading(text, f"{workload_text(trace.header)}, {provenance(trace.header)}", width - LEFT - RIGHT)
    data: list[Props] = []
    for index, history in enumerate(histories):
        data.append(_heat(history, index, trace.makespan_ns, unit, palette))
        data += _moments(history, index, unit, palette)
    return figure_of(data, _layout(trace, histories, unit, head, palette, width))


def _finding(trace: Trace, history: SemaphoreHistory, unit: TimeUnit) -> str:
    """When the semaphores became ready, and how many of them a block had to wait for."""
    ready = history.ready_ns[history.ready_ns >= 0]
    label, count = trace.header.plan_label, history.awaited.size
    if not ready.size:
        return f"{label}: none of {count} became ready"
    asked = int((history.asked_ns >= 0).sum())
    waited = f", {asked or 'none'} waited for" if trace.waits is not None else ""
    first, last = unit.text(int(ready.min())), unit.text(int(ready.max()))
    when = f"at {'t = ' if not unit.symbol else ''}{first}" if first == last else f"from {first} to {last}"
    which = f"all {count}" if ready.size == count else f"{ready.size} of {count}"
    return f"{label}: {which} ready {when}{waited}"


def _heat(history: SemaphoreHistory, index: int, end_ns: int, unit: TimeUnit, theme: Theme) -> Props:
    edges = np.linspace(0, end_ns, COLUMNS + 1)
    levels = history.levels(edges[:-1].astype(np.int64))
    percent = np.round(100 * levels).astype(np.uint8)
    return {
        "type": "heatmap",
        "x": (edges / unit.ns).astype(np.float32),
        "z": percent,
        "zmin": 0,
        "zmax": 100,
        "colorscale": theme.ramp,
        "yaxis": axis_name(index),
        "ygap": 2 if history.awaited.size <= 40 else 0,
        "showscale": index == 0,
        "colorbar": {
            "title": {
                "text": Markup("posts of<br>those awaited"),
                "font": {"size": 11, "color": theme.muted},
            },
            "ticksuffix": " %",
            "tickfont": {"size": 11, "color": theme.muted},
            "thickness": 10,
            "outlinewidth": 0,
        },
        "hovertemplate": POSTS_HOVER.format(history.info.policy, unit.symbol),
    }


def _moments(history: SemaphoreHistory, index: int, unit: TimeUnit, theme: Theme) -> list[Props]:
    """Marks: ready, and first asked for."""
    is_sparse = history.awaited.size <= 40
    size = 9 if is_sparse else 3
    looks = {
        "ready": (history.ready_ns, "diamond" if is_sparse else "line-ns", theme.ink),
        "first block begins to wait": (history.asked_ns, "circle-open", theme.stage_colour(1)),
    }
    series: list[Props] = []
    for name, (times, symbol, colour) in looks.items():
        shown = np.flatnonzero(times >= 0)
        series.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "showlegend": index == 0 and bool(shown.size),
                "x": unit.of(times[shown]).astype(np.float32),
                "y": shown.astype(np.int16),
                "yaxis": axis_name(index),
                "cliponaxis": False,
                "marker": {
                    "symbol": symbol,
                    "size": size,
                    "color": colour,
                    "line": {"width": 2, "color": colour},
                },
                "hovertemplate": MOMENT_HOVER.format(history.info.policy, name, unit.symbol),
            }
        )
    if is_sparse:
        series[0]["marker"]["line"] = {"width": 1, "color": theme.background}
    return series


def _layout(
    trace: Trace, histories: list[SemaphoreHistory], unit: TimeUnit, head: Heading, theme: Theme, width: int
) -> Props:
    most = max(history.awaited.size for history in histories)
    row = min(TALLEST_ROW, max(SHORTEST_ROW, ROW_TARGET / most))
    heights = [max(60.0, history.awaited.size * row) for history in histories]
    total = sum(heights) + HEADER_HEIGHT * len(histories)
    layout = base_layout(
        theme, head, (width, round(head.height + total + BOTTOM)), (LEFT, RIGHT, head.height, BOTTOM)
    )
    end = float(unit.of(trace.makespan_ns))
    last = axis_name(len(histories) - 1)
    layout["xaxis"] = axis(theme, unit.axis, range=[0, end], showgrid=False, anchor=last)
    layout["annotations"] = []
    above = 0.0
    for index, history in enumerate(histories):
        above += HEADER_HEIGHT
        top, low = 1 - above / total, 1 - (above + heights[index]) / total
        above += heights[index]
        layout[axis_name(index, "yaxis")] = _rows_axis(history, theme, [max(0.0, low), top])
        info = history.info
        key = f"{info.policy} semaphores of {info.producer}, awaited by {info.consumer}"
        layout["annotations"].append(section(f"{info.producer} → {info.consumer}", theme, top, key))
    return layout


def _rows_axis(history: SemaphoreHistory, theme: Theme, domain: list[float]) -> Props:
    count = history.awaited.size
    step = max(1, -(-count // MAX_LABELS))
    chosen = list(range(0, count, step))
    return axis(
        theme,
        domain=domain,
        range=[count - 0.5, -0.5],
        tickvals=chosen,
        ticktext=[f"{history.info.policy} {one}" for one in chosen],
        showgrid=False,
    )
