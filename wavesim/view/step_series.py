"""The curves of busy and resident SMs, as plotly properties.

Picture: the baseline dashed and grey, the plan it is compared with solid green over a green area, and
where a plan's blocks wait, a dotted line above it: resident, but not busy.
"""

import numpy as np

from wavesim.view.canvas import Props, axis_name
from wavesim.view.theme import Theme
from wavesim.view.timeline_data import TimelineParts
from wavesim.view.wording import text_width

KEY_RESIDENT = "┈┈ resident (busy or waiting)"
NO_CURVE = (np.array([np.nan]), np.array([np.nan]))


def curve_series(parts: TimelineParts, place: int, theme: Theme) -> list[Props]:
    """Resident, then busy, of the panel at this place among the figure's curves."""
    panel = parts.panels[parts.curves[place]]
    colour, dash = curve_style(place, len(parts.curves), theme)
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
                "hovertemplate": f"{panel.label}: %{{y:.0%}} {kind}<extra></extra>",
            }
        )
    return series


def curve_style(place: int, count: int, theme: Theme) -> tuple[str, str]:
    """(colour, dash): muted dashes for the baseline, the colour of a gain for the last."""
    if place == count - 1:
        return theme.good, "solid"
    return (theme.muted, "dash") if place == 0 else (theme.bad, "longdashdot")


def curve_key(parts: TimelineParts, theme: Theme) -> str:
    """The key of the curves, in their colours and dashes."""
    marks = {"solid": "━", "dash": "╌╌", "longdashdot": "━·"}
    keys = []
    for place, index in enumerate(parts.curves):
        colour, dash = curve_style(place, len(parts.curves), theme)
        keys.append(f"<span style='color:{colour}'>{marks[dash]} {parts.panels[index].label}</span>")
    if any(len(parts.panels[index].rows.waiting) for index in parts.curves):
        keys.append(KEY_RESIDENT)
    letters = sum(len(parts.panels[index].label) for index in parts.curves) + len(KEY_RESIDENT)
    if text_width("x" * letters, 15) > parts.frame.plot_width:
        keys = [key.replace(" (busy or waiting)", "") for key in keys]
    return "  ".join(keys)
