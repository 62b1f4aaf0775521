"""The curves of busy and resident SMs, as plotly properties.

Example: the baseline dashed and grey, the plan it is compared with solid green over a green area, and
where a plan's blocks wait, a dotted line above it: resident, but not busy.
"""

import numpy as np

from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.view.canvas import Props, axis_name
from wavesim.view.theme import Theme
from wavesim.view.timeline_data import TimelineParts
from wavesim.view.wording import LITTLE, text_width

KEY_RESIDENT = "┈┈ resident (busy or waiting)"
MARKS = {"solid": "━", "dash": "╌╌", "longdashdot": "━·", "dashdot": "╌·", "longdash": "━ ━"}
HEADER_PX, KEY_GAP_PX = 90.0, 12  # of the words before the key, and between its entries
NO_CURVE = (np.array([np.nan]), np.array([np.nan]))


def curve_series(parts: TimelineParts, place: int, theme: Theme) -> list[Props]:
    """Resident, then busy, of the panel at this place among the figure's curves."""
    panel = parts.panels[parts.curves[place]]
    colour, dash = curve_style(place, len(parts.curves), theme, panel.gain)
    axis = axis_name(len(parts.panels))
    common = {"type": "scatter", "mode": "lines", "xaxis": "x", "yaxis": axis, "showlegend": False}
    series = []
    resident = panel.resident if len(panel.rows.waiting) else NO_CURVE  # without waits it is the busy curve
    for kind, (time, share) in (("resident", resident), ("busy", panel.busy)):
        is_busy = kind == "busy"
        line = {
            "color": colour,
            "width": 2.4 if is_busy else 1.2,
            "dash": dash if is_busy else "dot",
            "shape": "hv",
        }
        is_filled = is_busy and place == len(parts.curves) - 1
        series.append(
            {
                **common,
                "x": (time / parts.unit.ns).astype(np.float32),
                "y": share.astype(np.float32),
                "line": line,
                "fill": "tozeroy" if is_filled else "none",
                "fillcolor": theme.translucent(colour, 0.13),
                "hovertemplate": Markup("{}: %{{y:.0%}} {}<extra></extra>").format(panel.label, kind),
            }
        )
    return series


def curve_style(place: int, count: int, theme: Theme, gain: float | None = None) -> tuple[str, str]:
    """(colour, dash): muted dashes for the baseline, the last as it is marked in its panel, others between.

    `gain` is the panel's, as a share: green and magenta mean a gain and a loss, and no plan as such.
    """
    if place == count - 1:
        return theme.bad if gain is not None and gain <= -LITTLE else theme.good, "solid"
    if place == 0:
        return theme.muted, "dash"
    between = (
        (theme.ink, "dashdot"),
        (theme.stage_colour(0), "longdash"),
        (theme.stage_colour(1), "longdashdot"),
    )
    return between[(place - 1) % len(between)]


def curve_key(parts: TimelineParts, theme: Theme) -> Markup:
    """The key of the curves, in their colours and dashes, in as many lines as it needs."""
    keys: list[tuple[str, str]] = []
    for place, index in enumerate(parts.curves):
        colour, dash = curve_style(place, len(parts.curves), theme, parts.panels[index].gain)
        words = f"{MARKS[dash]} {parts.panels[index].label}"
        keys.append((words, element("span", words, style=f"color:{colour}")))
    if any(len(parts.panels[index].rows.waiting) for index in parts.curves):
        keys.append((KEY_RESIDENT, KEY_RESIDENT))
    lines: list[list[str]] = [[]]
    used = HEADER_PX
    for words, drawn in keys:
        width = 1.1 * text_width(words, 13) + KEY_GAP_PX
        if used + width > parts.frame.plot_width and lines[-1]:
            lines, used = [*lines, []], 0.0
        lines[-1].append(drawn)
        used += width
    return BREAK.join(Markup("  ").join(line) for line in lines)
