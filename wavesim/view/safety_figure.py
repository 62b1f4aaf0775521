"""A safety verdict as a picture: the SMs in the worst case, who waits on them, and who finds no room.

Example: one box per SM; waiting blocks hatched and framed in their stage's colour, with what they
wait for; the kernel they starve in full colour, either on the SMs that are left to it or, where
none is, outside them all.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import SafetyVerdict, WorstCase
from wavesim.view.canvas import Heading, Props, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.tile_series import HATCH

MOST_IN_A_ROW = 12
WAIT_KERNEL = "wait-kernel of "


@dataclass(frozen=True)
class Cell:
    """One block on an SM: `bottom` and `height` are parts of the SM, 0 to 1. `is_waiting` or could run."""

    sm: int
    name: str
    bottom: float
    height: float
    is_waiting: bool


@dataclass(frozen=True)
class SafetyParts:
    """SMs in `columns` columns, the blocks on them, and the verdict."""

    pipeline: Pipeline
    plan: Plan
    device: Device
    verdict: SafetyVerdict
    worst: WorstCase
    cells: tuple[Cell, ...]
    columns: int

    @property
    def rows(self) -> int:
        """Rows of SMs."""
        return ceil(self.worst.sm_count / self.columns)

    def stage_of(self, name: str) -> int:
        """Launch index of the stage that a block or wait-kernel belongs to."""
        names = [stage.name for stage in self.pipeline.stages]
        return names.index(name.removeprefix(WAIT_KERNEL))


def safety_parts(pipeline: Pipeline, plan: Plan, device: Device) -> SafetyParts:
    """The parts for a plan. Raises `DescriptionError` for one under which nobody waits."""
    verdict = safety_of(pipeline, plan, device)
    worst = verdict.worst
    if worst is None:
        raise DescriptionError(
            f"plan {plan.name}: no block waits on a semaphore, so there is nothing to draw"
        )
    cells: list[Cell] = []
    for sm in range(worst.sm_count):
        names = worst.residents[sm] if sm < len(worst.residents) else ()
        cells += _cells(sm, names, worst)
        if sm >= worst.closed_sms:
            cells.append(Cell(sm, worst.starved, 0.0, worst.shares[worst.starved], is_waiting=False))
    count = worst.sm_count
    columns = count if count <= MOST_IN_A_ROW else ceil(sqrt(3.6 * count))
    return SafetyParts(pipeline, plan, device, verdict, worst, tuple(cells), columns)


def _cells(sm: int, names: tuple[str, ...], worst: WorstCase) -> list[Cell]:
    """Waiting blocks on top of each other; shares of different resources may add up to more than an SM."""
    scale = 1 / max(1.0, sum(worst.shares[name] for name in names))
    cells, bottom = [], 0.0
    for name in names:
        height = worst.shares[name] * scale
        cells.append(Cell(sm, name, bottom, height, is_waiting=True))
        bottom += height
    return cells


LEFT, RIGHT, TOP, BOTTOM = 40, 40, 18, 92
TALLEST, SHORTEST = 120, 40  # pixels of an SM's box
QUEUE = 1.9  # widths of an SM that the starved block outside takes, with the gap before it
HOVER = Markup("<b>{}</b><br>{}<br>takes {} of an SM<extra></extra>")
GAP = 0.12  # between SMs, in their widths and heights


def safety_picture(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    *,
    theme: str | Theme = "light",
    title: str | None = None,
    width: int = 1000,
) -> go.Figure:
    """The worst case of a plan on a device.

    Raises `DescriptionError` for a plan under which nobody waits and an unknown theme.
    """
    parts, palette = safety_parts(pipeline, plan, device), find_theme(theme)
    wait_kernel = "with" if plan.launch.wait_kernel else "without"
    below = (
        f"{pipeline.name} on {device.name} ({device.sm_count} SMs), {wait_kernel} wait-kernel; the worst "
        "case over all launch orders and placements; a description, nothing simulated or measured"
        + (f". Rests on {parts.verdict.rests_on}" if parts.verdict.is_safe else "")
    )
    head = heading(title if title is not None else _finding(parts), below, width - LEFT - RIGHT)
    return figure_of(_data(parts, palette, width), _layout(parts, head, palette, width))


def _finding(parts: SafetyParts) -> str:
    worst = parts.worst
    names = dict.fromkeys(name for sm in worst.residents for name in sm)
    if parts.verdict.is_safe:
        left = f"{worst.free_sms} of {worst.sm_count} SMs"
        who = f"whatever waits, {left} stay" if worst.free_sms > 1 else f"whatever waits, {left} stays"
        return f"Safe: {who} open to {worst.starved}"
    waiting = sum(len(sm) for sm in worst.residents)
    *first, last = names
    listed = f"{', '.join(first)} and {last}" if first else last
    blocks = f"{waiting} waiting block{'s' * (waiting > 1)} of {listed}"
    if all(name.startswith(WAIT_KERNEL) for name in names):
        blocks = f"{waiting} wait-kernel{'s' * (waiting > 1)}"
    return f"Deadlock: {blocks} can close all {worst.sm_count} SMs to {worst.starved}"


def _box_px(parts: SafetyParts, width: int) -> tuple[float, float]:
    across = (width - LEFT - RIGHT) / (parts.columns + QUEUE * (not parts.verdict.is_safe))
    return across, min(TALLEST, max(SHORTEST, across * 0.8))


def _place(parts: SafetyParts, sm: int) -> tuple[float, float]:
    """(left, bottom) of an SM's box, in SM widths and heights; rows go down."""
    return float(sm % parts.columns), float(parts.rows - 1 - sm // parts.columns)


def _data(parts: SafetyParts, theme: Theme, width: int) -> list[Props]:
    names = dict.fromkeys(cell.name for cell in parts.cells if cell.is_waiting)
    data = [
        _bars(parts, [c for c in parts.cells if c.is_waiting and c.name == name], theme, width)
        for name in names
    ]
    running = [cell for cell in parts.cells if not cell.is_waiting]
    if not running:  # it stands outside, right of the SMs and half-way up
        outside = Cell(
            -1, parts.worst.starved, 0.0, parts.worst.shares[parts.worst.starved], is_waiting=False
        )
        running = [outside]
    return [_idle(parts, theme), *data, _bars(parts, running, theme, width)]


def _idle(parts: SafetyParts, theme: Theme) -> Props:
    """The SMs themselves, as far as nothing lies on them."""
    places = [_place(parts, sm) for sm in range(parts.worst.sm_count)]
    pattern = {**HATCH, "shape": "/", "fgcolor": theme.idle_hatch, "bgcolor": theme.idle}
    return {
        "type": "bar",
        "name": "an SM, as far as it is free",
        "x": [left + 0.5 for left, _ in places],
        "base": [bottom + GAP / 2 for _, bottom in places],
        "y": [1 - GAP] * len(places),
        "width": [1 - GAP] * len(places),
        "marker": {
            "color": theme.idle,
            "pattern": pattern,
            "line": {"color": theme.idle_hatch, "width": 1},
            "cornerradius": 4,
        },
        "hoverinfo": "skip",
    }


def _bars(parts: SafetyParts, cells: list[Cell], theme: Theme, width: int) -> Props:
    """The blocks of one name: hatched if they wait, else in their stage's colour."""
    name, is_waiting = cells[0].name, cells[0].is_waiting
    stage = parts.stage_of(name)
    colour, share = theme.stage_colour(stage), f"{parts.worst.shares[name]:.0%}".replace("%", " %")
    awaited = " and ".join(parts.worst.waits_for.get(name, ()))
    marker: dict[str, Any] = {"color": colour, "line": {"width": 0}, "cornerradius": 4}
    if is_waiting:
        pattern = {**HATCH, "shape": "\\", "fgcolor": theme.waiting_hatch, "bgcolor": theme.waiting}
        marker |= {"color": theme.waiting, "pattern": pattern, "line": {"color": colour, "width": 2}}
    what = name if name.startswith(WAIT_KERNEL) else f"block of {name}"
    fate = (
        f"waits for {awaited}"
        if is_waiting
        else "has no room"
        if cells[0].sm < 0
        else "can still be issued here"
    )
    boxes = [_outside(parts) if cell.sm < 0 else _place(parts, cell.sm) for cell in cells]
    across, down = _box_px(parts, width)
    room = across * (1 - GAP), down * (1 - GAP) * cells[0].height
    return {
        "type": "bar",
        "name": f"{what}: {fate}",
        "x": [left + 0.5 for left, _ in boxes],
        "base": [
            bottom + GAP / 2 + cell.bottom * (1 - GAP) for (_, bottom), cell in zip(boxes, cells, strict=True)
        ],
        "y": [cell.height * (1 - GAP) for cell in cells],
        "width": [1 - GAP] * len(cells),
        "marker": marker,
        "text": [_label(name, awaited if is_waiting else "", room)] * len(cells),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": theme.text_on(1) if is_waiting else theme.text_on(stage), "size": 12},
        "hovertemplate": HOVER.format(what, fate, share),
    }


def _outside(parts: SafetyParts) -> tuple[float, float]:
    return parts.columns + QUEUE - 1, (parts.rows - 1) / 2


def _label(name: str, awaited: str, room: tuple[float, float]) -> Markup:
    """As many words as the block has room for."""
    across, down = room
    lines = [name, *(["waits for", awaited] if awaited else [])]
    if across >= 7 * max(len(line) for line in lines) and down >= 18 * len(lines):
        return BREAK.join([element("b", name), *lines[1:]])
    return element("b", name) if across >= 7 * len(name) and down >= 18 else Markup("")


def _layout(parts: SafetyParts, head: Heading, theme: Theme, width: int) -> Props:
    across, down = _box_px(parts, width)
    entries = 2 + len({cell.name for cell in parts.cells if cell.is_waiting})
    bottom = BOTTOM + 18 * (entries - 2)
    height = round(head.height + TOP + parts.rows * down + bottom)
    layout = base_layout(theme, head, (width, height), (LEFT, RIGHT, head.height + TOP, bottom))
    quiet = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}
    layout |= {"barmode": "overlay", "bargap": 0, "showlegend": True}
    layout["legend"] |= {"orientation": "v", "y": -(bottom - 62) / max(1.0, parts.rows * down) * 0.5}
    layout["xaxis"] = {**quiet, "range": [0, (width - LEFT - RIGHT) / across]}
    layout["yaxis"] = {**quiet, "range": [0, parts.rows]}
    layout["annotations"] = _notes(parts, theme)
    layout["title"]["x"], layout["title"]["xref"] = LEFT / width, "container"
    return layout


def _notes(parts: SafetyParts, theme: Theme) -> list[Props]:
    """Numbers of the SMs where one row holds them all, and what stands outside."""
    words = []
    if parts.rows == 1:
        for sm in range(parts.worst.sm_count):
            place = {"x": sm + 0.5, "y": 0, "yref": "paper", "yanchor": "top", "xanchor": "center"}
            words.append({**note(f"SM {sm}", theme, size=12), **place, "yshift": -2})
    if not parts.verdict.is_safe:
        left, bottom = _outside(parts)
        place = {
            "x": left + 0.5,
            "y": bottom + 1,
            "yanchor": "bottom",
            "xanchor": "center",
            "align": "center",
        }
        outside = BREAK.join(["no room left for", element("b", parts.worst.starved)])
        words.append({**note(outside, theme, size=12), **place, "yshift": 2})
    return words
