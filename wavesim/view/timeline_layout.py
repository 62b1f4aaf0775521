"""Axes, headers, lines and words of a timeline figure, as plotly layout properties.

Example: bold plan label and muted facts over each panel, dashed kernel boundaries, an end line with
"done t = 3, −25 %" beside it, and one time axis under everything.
"""

import numpy as np

from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.view.canvas import Props, axis, axis_name, base_layout, note, section
from wavesim.view.theme import Theme
from wavesim.view.timeline_data import LEFT, RIGHT, PanelParts, TimelineParts
from wavesim.view.wording import LITTLE, signed_percent, text_width

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


MAX_ROW_LABELS, ROW_LABEL_PX = 16, 17


def layout_of(parts: TimelineParts, theme: Theme) -> Props:
    """The whole layout but for rasters; lists have the same meaning at each call, not the same length."""
    steps = section("SMs busy", theme, parts.frame.steps_domain[1], curve_key(parts, theme))
    annotations, shapes = [steps], []
    for index, panel in enumerate(parts.panels):
        annotations += _panel_notes(panel, index, parts, theme)
        shapes += _panel_lines(panel, index, parts, theme)
    return {
        **_canvas(parts, theme),
        **_axes(parts, theme),
        "annotations": annotations,
        "shapes": shapes,
    }


def _canvas(parts: TimelineParts, theme: Theme) -> Props:
    frame = parts.frame
    bottom = round(frame.height - frame.top - frame.plot_height)
    margin = (LEFT, RIGHT, frame.top, bottom)
    return {
        **base_layout(theme, parts.heading, (frame.width, frame.height), margin),
        "barmode": "overlay",
        "bargap": 0,
    }


def _axes(parts: TimelineParts, theme: Theme) -> Props:
    end = float(parts.unit.of(parts.end_ns))
    last = len(parts.panels)
    room = end * (1 + 2 / parts.frame.plot_width)  # half of the end line would be cut off
    ticks = {"dtick": parts.dtick, "griddash": "dot", "anchor": axis_name(last)}
    axes: Props = {"xaxis": axis(theme, parts.unit.axis, range=[0, room], **ticks)}
    for index, panel in enumerate(parts.panels):
        values, labels = _row_ticks(panel, parts.frame.row_height)
        axes[axis_name(index, "yaxis")] = axis(
            theme,
            domain=list(parts.frame.panel_domain(index)),
            range=[panel.rows.count - 0.5, -0.5],
            tickvals=values,
            ticktext=labels,
            showgrid=False,
        )
    axes[axis_name(last, "yaxis")] = axis(
        theme,
        domain=list(parts.frame.steps_domain),
        range=[0, 1.04],
        tickvals=[0, 0.5, 1],
        ticktext=["0", "50", "100 %"],
        fixedrange=True,
    )
    return axes


def _row_ticks(panel: PanelParts, row_px: float) -> tuple[list[float], list[str]]:
    """Every SM where there is room, else SM 0, a few round ones and the last."""
    count, slots = panel.rows.sm_count, panel.rows.slots
    most = min(MAX_ROW_LABELS, max(2.0, count * slots * row_px / ROW_LABEL_PX))
    step = 1
    while count / step > most:
        step = step * 2 if str(step)[0] != "2" else step * 5 // 2
    chosen = [sm for sm in range(0, count, step) if count - 1 - sm >= 0.6 * step or sm == count - 1]
    if chosen[-1] != count - 1:
        chosen.append(count - 1)
    return [sm * slots + (slots - 1) / 2 for sm in chosen], [f"SM {sm}" for sm in chosen]


def _panel_notes(panel: PanelParts, index: int, parts: TimelineParts, theme: Theme) -> list[Props]:
    """Header, boundary label and what stands beside the end line."""
    name = axis_name(index)
    top = parts.frame.panel_domain(index)[1]
    notes = [section(panel.label, theme, top, BREAK.join(panel.facts))]
    for time, stage in panel.boundaries_ns:
        notes.append({**_boundary_label(time, stage, parts, theme), "y": top})
    done = _done_text(panel, theme)
    end = float(parts.unit.of(panel.rows.makespan_ns))
    beside = {**note(done, theme, size=13), "x": end, "xref": "x", "xanchor": "left", "xshift": 10}
    notes.append({**beside, "y": 0.5, "yref": f"{name} domain", "yanchor": "middle"})
    return notes


def _done_text(panel: PanelParts, theme: Theme) -> Markup:
    """The end of the pass, the plan's time where that is another, and the change that this time is."""
    first, *rest = panel.done
    head = BREAK.join([element("b", "done"), first])
    lines = [element("span", head, style=f"color:{theme.ink}")]
    lines += [element("span", line, style=f"font-size:10px;color:{theme.muted}") for line in rest]
    if panel.gain is not None:
        colour = gain_colour(panel.gain, theme)
        lines.append(element("b", signed_percent(-panel.gain), style=f"color:{colour}"))
    return BREAK.join(lines)


def gain_colour(gain: float, theme: Theme) -> str:
    """Green for a gain, magenta for a loss, muted for neither."""
    if abs(gain) < LITTLE:
        return theme.muted
    return theme.good if gain > 0 else theme.bad


def _boundary_label(time_ns: int, stage: str, parts: TimelineParts, theme: Theme) -> Props:
    """Words over the dashed line, to its left where the right has no room."""
    text = f"kernel boundary: {stage} waits"
    share = time_ns / max(1, parts.end_ns)
    room = (1 - share) * parts.frame.plot_width + RIGHT
    is_right = room > text_width(text, 11) + 20
    label = {**note(f"▾ {text}" if is_right else f"{text} ▾", theme, size=11), "xref": "x", "yref": "paper"}
    place = {"x": float(parts.unit.of(time_ns)), "xanchor": "left" if is_right else "right"}
    return {**label, **place, "xshift": -5 if is_right else 5, "yanchor": "bottom", "yshift": 6}


def _panel_lines(panel: PanelParts, index: int, parts: TimelineParts, theme: Theme) -> list[Props]:
    """Dashed kernel boundaries and the end line, over the height of the rows."""
    name = axis_name(index)
    over = 5 / (panel.rows.count * parts.frame.row_height)
    common = {"type": "line", "xref": "x", "yref": f"{name} domain", "y0": -over, "y1": 1 + over}
    shapes = []
    for time, _ in panel.boundaries_ns:
        x = float(parts.unit.of(time))
        shapes.append(
            {**common, "x0": x, "x1": x, "line": {"color": theme.ink, "width": 2.2, "dash": "6px,4px"}}
        )
    end = float(parts.unit.of(panel.rows.makespan_ns))
    colour = theme.ink if panel.gain is None else gain_colour(panel.gain, theme)
    return [*shapes, {**common, "x0": end, "x1": end, "line": {"color": colour, "width": 2.4}}]
