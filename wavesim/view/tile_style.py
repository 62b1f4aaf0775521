"""How tiles, waits and idle SMs look: plotly properties of their bars.

Example: a solid blue rounded P4; grey with a back-slash hatch while C2 waits; pale slashes for idle.
"""

from wavesim.view.canvas import Props
from wavesim.view.theme import Theme
from wavesim.view.tile_series import hover_template, stage_letters
from wavesim.view.timeline_data import TimelineParts

ROLES = {0: "producer", 1: "consumer"}
HATCH = {"size": 7, "solidity": 0.22}


def corner(parts: TimelineParts) -> int:
    """Pixels of rounding: none where rows are thin."""
    return 6 if parts.frame.row_height >= 24 else 2 if parts.frame.row_height >= 10 else 0


def idle_style(count: int, parts: TimelineParts, theme: Theme) -> Props:
    """Pale with a slash hatch, and the word where there is room; `count` segments."""
    pattern = {**HATCH, "shape": "/", "fgcolor": theme.idle_hatch, "bgcolor": theme.idle}
    line = {"color": theme.idle_hatch, "width": 1 if parts.frame.row_height >= 16 else 0}
    has_room = parts.frame.row_height >= 24 and count <= 200
    return {
        "name": "idle SM",
        "legendgroup": "idle",
        "legendrank": 1002,
        "marker": {"color": theme.idle, "pattern": pattern, "line": line, "cornerradius": corner(parts)},
        "text": ["idle"] * max(1, count) if has_room else None,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textfont": {"color": theme.muted, "size": 11},
        "hoverinfo": "skip",
    }


def stage_style(stage: int, parts: TimelineParts, theme: Theme) -> Props:
    """The stage's colour everywhere, its letter on the tiles and in the legend."""
    name, count = parts.stages[stage], len(parts.stages)
    role = f", {ROLES[stage]}" if count == 2 else ""
    return {
        "name": f"{stage_letters(count)[stage]} = tile of {name}{role}",
        "legendgroup": name,
        "marker": {
            "color": theme.stage_colour(stage),
            "cornerradius": corner(parts),
            "line": {"width": 0, "color": theme.ink},  # parts of tiles are outlined
        },
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


def waiting_style(parts: TimelineParts, theme: Theme) -> Props:
    """Grey with a back-slash hatch."""
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
            "cornerradius": corner(parts),
        },
        "hoverinfo": "skip",
    }
