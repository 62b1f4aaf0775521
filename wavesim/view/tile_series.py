"""One plotly series per stage, as arrays: bases, lengths, rows, labels and hover facts of its tiles.

Example: the producer's six tiles on the toy are base [0, 0, 0, 0, 1, 1], length 1 and the labels P0 to P5.
"""

import string
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wavesim.safe_io.escaping import BREAK, Markup
from wavesim.trace.trace import Trace
from wavesim.view.canvas import Props
from wavesim.view.raster import Segments
from wavesim.view.theme import Theme
from wavesim.view.timeline_data import PanelParts, TimelineParts
from wavesim.view.wording import TimeUnit, semaphore_text

GAP_PX = 4.0  # between neighbouring tiles, where they are wide enough
LABEL_WIDTH_PX, LABEL_HEIGHT_PX = 26.0, 12.0
MAX_HOVER_POINTS = 2_000
OUTLINE_PX = 1.5
HOVER_LINES = (
    "tile (%{customdata[0]}, %{customdata[1]})%{customdata[9]}",
    "SM %{customdata[2]}, slot %{customdata[3]}",
    "issued %{customdata[4]:,.2~f} · started %{customdata[5]:,.2~f} · ended %{customdata[6]:,.2~f}UNIT",
    "%{customdata[7]:,.2~f}UNIT working, %{customdata[8]:,.2~f}UNIT waiting",
)


def stage_letters(count: int) -> tuple[str, ...]:
    """The letter on each stage's tiles: P and C for a pair, else A, B, C and so on."""
    if count == 2:
        return ("P", "C")
    return tuple(string.ascii_uppercase[index % 26] for index in range(count))


def bars_of(segments: Segments, parts: TimelineParts, inset_px: float = 0.0) -> Props:
    """Base, length and row of horizontal bars; an empty series keeps one invisible point for its legend."""
    if not len(segments):
        return {"base": [0.0], "x": [None], "y": [0]}
    start, end = parts.unit.of(segments.start_ns), parts.unit.of(segments.end_ns)
    per_px = float(parts.unit.of(parts.end_ns)) / parts.frame.plot_width
    inset = np.minimum(inset_px / 2 * per_px, 0.06 * (end - start))
    return {
        "base": np.round(start + inset, 4),  # plotly sends bases as text, whatever their type
        "x": (end - start - 2 * inset).astype(np.float32),
        "y": segments.row.astype(np.int16),
    }


def bar_width(parts: TimelineParts) -> float:
    """Height of a tile of one row, in rows."""
    return 0.8 if parts.frame.row_height >= 8 else 1.0


def _tall(segments: Segments, panel: PanelParts, parts: TimelineParts) -> Props:
    """Place and height of bars where some cover several rows; nothing where none does."""
    if not len(segments) or panel.rows.span.max() == 1:
        return {}
    below = panel.rows.span[segments.block] - 1
    return {"y": (segments.row + below / 2).astype(np.float32), "width": below + bar_width(parts)}


def gap_px(parts: TimelineParts) -> float:
    """Pixels between tiles: wide on a toy, a hair on a GPU."""
    return float(min(GAP_PX * 2, max(1.0, parts.frame.row_height / 6)))


def stage_bars(panel: PanelParts, stage: int, parts: TimelineParts) -> Props:
    """Bars, labels and hover facts of one stage's blocks."""
    mask = panel.trace.stage == stage
    work = panel.rows.work.where(mask)
    props = {**bars_of(work, parts, gap_px(parts)), **_tall(work, panel, parts)}
    if not mask.any():
        return {**props, "text": None, "customdata": None, "hoverinfo": "skip"}
    return {
        **props,
        "text": _labels(panel, mask, parts),
        **_outlines(panel.trace, mask, parts),
        "customdata": hover_facts(panel.trace, np.flatnonzero(mask), parts.unit),
        "hoverinfo": None,
    }


def _outlines(trace: Trace, mask: NDArray[np.bool_], parts: TimelineParts) -> Props:
    """Parts of tiles have an outline, whole ones none; on rows of few pixels it would hide the tiles."""
    if trace.k_first is None or parts.frame.row_height < LABEL_HEIGHT_PX:
        return {"marker_line_width": 0}
    blocks = np.flatnonzero(mask).tolist()
    return {"marker_line_width": [OUTLINE_PX if is_part(trace, block) else 0 for block in blocks]}


def _labels(panel: PanelParts, mask: NDArray[np.bool_], parts: TimelineParts) -> list[str] | None:
    """Labels such as P4, where the typical tile has room for one."""
    work = panel.rows.work.where(mask)
    typical_px = float(np.median(work.end_ns - work.start_ns)) / max(1, parts.end_ns) * parts.frame.plot_width
    if typical_px < LABEL_WIDTH_PX or parts.frame.row_height < LABEL_HEIGHT_PX:
        return None
    return [_label(panel.trace, block, len(parts.stages)) for block in np.flatnonzero(mask).tolist()]


def _label(trace: Trace, block: int, stages: int) -> str:
    """Stage letter and row-major tile index, with the slice or part of a split tile: "P4", "C17.1"."""
    stage = int(trace.stage[block])
    columns, _, slices = trace.header.stages[stage].grid
    tile = f"{stage_letters(stages)[stage]}{trace.y[block] * columns + trace.x[block]}"
    return f"{tile}.{trace.z[block]}" if slices > 1 or is_part(trace, block) else tile


def is_part(trace: Trace, block: int) -> bool:
    """Whether a row is a part of a tile that Stream-K has cut."""
    if trace.k_first is None or trace.k_upto is None or trace.k_of is None:
        return False
    return bool(trace.k_upto[block] - trace.k_first[block] < trace.k_of[block])


def waiting_bars(panel: PanelParts, parts: TimelineParts) -> Props:
    """Bars of all waits; where rows are tall, each says who waits."""
    waiting = panel.rows.waiting
    props = {**bars_of(waiting, parts), **_tall(waiting, panel, parts)}
    if not len(waiting) or parts.frame.row_height < 2 * LABEL_HEIGHT_PX:
        return {**props, "text": None}
    labels = [f"{_label(panel.trace, block, len(parts.stages))} waits" for block in waiting.block.tolist()]
    return {**props, "text": labels}


def hover_template(name: str, unit: TimeUnit) -> Markup:
    """How plotly writes the facts of a block; `name` says what kind of block."""
    symbol = f" {unit.symbol}" if unit.symbol else ""
    facts = BREAK.join(Markup(line.replace("UNIT", symbol)) for line in HOVER_LINES)
    return Markup("<b>{}</b> {}<extra></extra>").format(name, facts)


def hover_facts(trace: Trace, blocks: NDArray[np.int64], unit: TimeUnit) -> list[list[Any]]:
    """What hovering shows of each block, in the order that `HOVER_LINES` reads it."""
    origin = trace.issue_ns.min()
    issue, start, end, wait = (
        a[blocks] for a in (trace.issue_ns, trace.start_ns, trace.end_ns, trace.wait_ns)
    )
    spans = (issue - origin, start - origin, end - origin, end - start - wait, wait)
    times = np.column_stack([np.round(unit.of(span), 3) for span in spans]).tolist()
    places = np.column_stack([a[blocks] for a in (trace.x, trace.y, trace.sm, trace.slot)]).tolist()
    awaited = _awaited(trace, unit)
    is_split = np.array([info.grid[2] > 1 for info in trace.header.stages])[trace.stage[blocks]].tolist()
    facts = []
    for block, place, time, split in zip(blocks.tolist(), places, times, is_split, strict=True):
        extra = f", slice {trace.z[block]}" if split else _part_text(trace, block)
        lines = [extra, *([awaited[block]] if block in awaited else [])]
        facts.append([*place, *time, BREAK.join(lines)])
    return facts


def _part_text(trace: Trace, block: int) -> str:
    """Which K iterations a part of a tile computes."""
    if not is_part(trace, block):
        return ""
    assert trace.k_first is not None
    assert trace.k_upto is not None
    assert trace.k_of is not None
    return f", part: K iterations {trace.k_first[block]} to {trace.k_upto[block]} of {trace.k_of[block]}"


def _awaited(trace: Trace, unit: TimeUnit) -> dict[int, str]:
    """For each block that waited: which semaphores, the longest first."""
    waits = trace.waits
    if waits is None or not trace.header.dependencies:
        return {}
    lengths = waits.end_ns - waits.start_ns
    order = np.lexsort((-lengths, waits.block))
    seen: dict[int, list[int]] = {}
    for row in order.tolist():
        seen.setdefault(int(waits.block[row]), []).append(row)
    texts = {}
    for block, rows in seen.items():
        longest = rows[0]
        info = trace.header.dependencies[int(waits.dependency[longest])]
        semaphore = int(waits.semaphore[longest])
        value = info.value_of_semaphore[semaphore]
        more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        wait = unit.text(float(lengths[longest]))
        texts[block] = f"awaited {semaphore_text(info, semaphore)} = {value} for {wait}{more}"
    return texts


def hover_points(panel: PanelParts, parts: TimelineParts) -> Props:
    """Invisible points at tile centres, for figures whose tiles are a picture; evenly thinned."""
    work = panel.rows.work
    step = -(-len(work) // MAX_HOVER_POINTS)
    blocks = np.arange(0, len(work), step)
    centre = parts.unit.of(work.start_ns[blocks] + work.end_ns[blocks]) / 2
    names = [info.name for info in panel.trace.header.stages]
    facts = hover_facts(panel.trace, blocks, parts.unit)
    return {
        "x": centre.astype(np.float32),
        "y": work.row[blocks].astype(np.int16),
        "customdata": facts,
        "text": [names[stage] for stage in panel.trace.stage[blocks].tolist()],
    }


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
