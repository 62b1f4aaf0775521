"""A state that nothing leaves as pictures: the SMs with the blocks that hold them, and who waits for whom.

Example: 80 boxes of schedulers and 68 of workers, hatched because they wait, and outside the 60 workers that
find no room; below, an arrow from the schedulers to the workers ("until all have ended") and one back ("has
no room").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, cos, pi, sin, sqrt
from pathlib import Path

import plotly.graph_objects as go

from wavesim.safe_io.escaping import BREAK, Markup, element, one_line
from wavesim.safety.hang.answer import HangAnswer
from wavesim.safety.hang.layout import PoolLayout
from wavesim.safety.hang.pools import SmGroup
from wavesim.safety.hang.waits_for import Edge
from wavesim.view.canvas import Props, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.page import Table, write_page
from wavesim.view.theme import Theme, find_theme
from wavesim.view.tile_series import HATCH

WIDTH, LEFT, RIGHT, TOP = 1000, 40, 40, 18
MOST_SMS = 1_024
MOST_IN_A_ROW = 16
QUEUE_PX = 150  # for what has no room
GAP = 0.12
MOST_NODES = 12
LONGEST = 28  # letters of a name on a drawing
HOVER = Markup("<b>SM {}</b><br>{}<extra></extra>")


@dataclass(frozen=True)
class Piece:
    """Blocks of one operation on one SM: bottom and height as shares of it, 0 to 1."""

    sm: int
    number: int
    count: int
    bottom: float
    height: float


def sm_picture(answer: HangAnswer, layout: PoolLayout, *, theme: str | Theme = "light") -> go.Figure:
    """The SMs of a pool and who holds them."""
    palette = find_theme(theme)
    assert layout.pool.device is not None
    count = min(layout.pool.device.sm_count, MOST_SMS)
    columns = count if count <= MOST_IN_A_ROW else ceil(sqrt(3.6 * count))
    rows = ceil(count / columns)
    pieces = [piece for piece in _pieces(answer, layout) if piece.sm < count]
    across = (WIDTH - LEFT - RIGHT - QUEUE_PX * (layout.starved is not None)) / columns
    down = min(110.0, max(26.0, across * 0.85))
    names = dict.fromkeys(piece.number for piece in pieces)
    data = [_idle(columns, rows, count, palette)]
    data += [_bars(answer, [p for p in pieces if p.number == n], columns, rows, palette) for n in names]
    head = heading(_sm_title(answer, layout), _sm_subtitle(answer, layout, count), WIDTH - LEFT - RIGHT)
    bottom = 70 + 18 * len(names)
    height = round(head.height + TOP + rows * down + bottom)
    props = base_layout(palette, head, (WIDTH, height), (LEFT, RIGHT, head.height + TOP, bottom))
    quiet = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}
    props |= {"barmode": "overlay", "bargap": 0, "showlegend": True}
    props["legend"] |= {"orientation": "v", "y": -0.12 * 100 / max(100.0, rows * down)}
    props["xaxis"] = {**quiet, "range": [0, (WIDTH - LEFT - RIGHT) / across]}
    props["yaxis"] = {**quiet, "range": [0, rows]}
    props["annotations"] = _outside(answer, layout, columns + QUEUE_PX / across / 2, rows / 2, palette)
    return figure_of(data, props)


def _sm_title(answer: HangAnswer, layout: PoolLayout) -> str:
    if layout.starved is None:
        return f"Everyone on {layout.pool.name} waits"
    size = answer.verdict.facts.pools.size(layout.starved)
    left = size - layout.placed(layout.starved)
    name = one_line(answer.name(layout.starved), LONGEST)
    return f"{left:,} of {size:,} blocks of {name} find no room on {layout.pool.name}"


def _sm_subtitle(answer: HangAnswer, layout: PoolLayout, drawn: int) -> str:
    assert layout.pool.device is not None
    count = layout.pool.device.sm_count
    cut = f"; the first {drawn:,} are drawn" if drawn < count else ""
    how = "for certain" if answer.verdict.is_certain else "one way in which it comes about"
    basis = "worked out from the description, nothing simulated or measured"
    if answer.verdict.autopsy is not None:
        how, basis = "blocks as counters have them", "on which SM a block is was worked out"
    name = answer.verdict.facts.situation.name
    return f"{name}: {layout.pool.device.name}, {count:,} SMs{cut}; {how}; {basis}"


def _pieces(answer: HangAnswer, layout: PoolLayout) -> list[Piece]:
    pieces, sm = list[Piece](), 0
    for group in sorted(layout.groups, key=lambda entry: (not entry.held, entry.held)):
        for _ in range(min(group.sms, MOST_SMS)):
            pieces += _stacked(answer, layout, group, sm)
            sm += 1
        if sm >= MOST_SMS:
            break
    return pieces


def _stacked(answer: HangAnswer, layout: PoolLayout, group: SmGroup, sm: int) -> list[Piece]:
    """Shares of different resources may add up to more than an SM; then they are drawn smaller."""
    shares = [(number, count, _share(answer, layout, number) * count) for number, count in group.held]
    scale = 1 / max(1.0, sum(share for _, _, share in shares))
    pieces, bottom = [], 0.0
    for number, count, share in shares:
        pieces.append(Piece(sm, number, count, bottom, share * scale))
        bottom += share * scale
    return pieces


def _share(answer: HangAnswer, layout: PoolLayout, number: int) -> float:
    """Of an SM that one block takes: of the resource of which it takes most."""
    block, device = answer.verdict.facts.pools.footprint(number), layout.pool.device
    assert device is not None
    return max(
        block.warps / device.max_warps_per_sm,
        block.registers / device.registers_per_sm,
        block.shared_bytes / device.shared_bytes_per_sm,
        1 / device.max_blocks_per_sm,
        0.12,  # thinner than this nobody sees it
    )


def _idle(columns: int, rows: int, count: int, theme: Theme) -> Props:
    """The SMs themselves, as far as nothing lies on them."""
    pattern = {**HATCH, "shape": "/", "fgcolor": theme.idle_hatch, "bgcolor": theme.idle}
    return {
        "type": "bar",
        "name": "the rest of an SM",
        "x": [sm % columns + 0.5 for sm in range(count)],
        "base": [rows - 1 - sm // columns + GAP / 2 for sm in range(count)],
        "y": [1 - GAP] * count,
        "width": [1 - GAP] * count,
        "marker": {"color": theme.idle, "pattern": pattern, "line": {"color": theme.idle_hatch, "width": 1}},
        "hoverinfo": "skip",
    }


def _bars(answer: HangAnswer, pieces: Sequence[Piece], columns: int, rows: int, theme: Theme) -> Props:
    """The blocks of one operation, hatched as all that waits, framed in its colour."""
    number = pieces[0].number
    colour, name = theme.stage_colour(number), one_line(answer.name(number), LONGEST)
    pattern = {**HATCH, "shape": "\\", "fgcolor": theme.waiting_hatch, "bgcolor": colour}
    texts = [
        f"{piece.count} block{'s' * (piece.count > 1)} of {name}: {answer.reason_text(number)}"
        for piece in pieces
    ]
    return {
        "type": "bar",
        "name": f"{name}: {one_line(answer.reason_text(number), 90)}",
        "x": [piece.sm % columns + 0.5 for piece in pieces],
        "base": [rows - 1 - p.sm // columns + GAP / 2 + p.bottom * (1 - GAP) for p in pieces],
        "y": [piece.height * (1 - GAP) for piece in pieces],
        "width": [1 - GAP] * len(pieces),
        "marker": {"color": colour, "pattern": pattern, "line": {"color": colour, "width": 2}},
        "hovertemplate": [HOVER.format(str(p.sm), text) for p, text in zip(pieces, texts, strict=True)],
    }


def _outside(answer: HangAnswer, layout: PoolLayout, x: float, y: float, theme: Theme) -> list[Props]:
    """What has no room, right of the SMs at (x, y)."""
    if layout.starved is None:
        return []
    size = answer.verdict.facts.pools.size(layout.starved)
    left = size - layout.placed(layout.starved)
    name = one_line(answer.name(layout.starved), 14)
    words = BREAK.join(["no room for", element("b", f"{left:,} blocks of"), element("b", name)])
    place = {"x": x, "y": y, "xanchor": "center", "yanchor": "middle"}
    frame = {
        "bordercolor": theme.stage_colour(layout.starved),
        "borderwidth": 2,
        "borderpad": 8,
        "align": "center",
    }
    return [{**note(words, theme, size=13), **place, **frame}]


def waits_picture(answer: HangAnswer, *, theme: str | Theme = "light") -> go.Figure:
    """Who waits for whom: an arrow from each to what would end its wait."""
    palette = find_theme(theme)
    edges = answer.edges
    nodes: list[int | None] = list(
        dict.fromkeys(end for edge in edges for end in (edge.source, edge.target))
    )[:MOST_NODES]
    places = _places(len(nodes))
    at = dict(zip(nodes, places, strict=True))
    names = [one_line(answer.name(edge.source), LONGEST) for edge in answer.circle[:MOST_NODES]]
    title = f"Each waits for the next: {' → '.join([*names, names[0]])}" if names else "Who waits for whom"
    below = "an arrow leads to what would end the wait; whoever is there waits, and holds its slots"
    head = heading(title, below, WIDTH - LEFT - RIGHT)
    height = head.height + TOP + (150 if len(nodes) < 3 else 420) + 30
    props = base_layout(palette, head, (WIDTH, height), (LEFT, RIGHT, head.height + TOP, 30))
    quiet = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}
    spread = 1.35 if len(nodes) > 2 else 0.6
    props["xaxis"] = {**quiet, "range": [-1.5, 1.5]}
    props["yaxis"] = {**quiet, "range": [-spread, spread]}
    drawn = [edge for edge in edges if edge.source in at and edge.target in at]
    own = [edge for edge in drawn if edge.source == edge.target]
    props["annotations"] = [
        *(part for edge in drawn if edge not in own for part in _arrow(edge, at, palette)),
        *_own_words(own, at, palette),
        *(_box(answer, node, place, palette) for node, place in at.items()),
    ]
    return figure_of([{"type": "scatter", "x": [], "y": [], "showlegend": False}], props)


def _places(count: int) -> list[tuple[float, float]]:
    """Nodes side by side, or on an ellipse."""
    if count < 3:
        return [(0.0, 0.0)] if count == 1 else [(-1.0, 0.0), (1.0, 0.0)]
    return [(1.05 * sin(2 * pi * n / count), cos(2 * pi * n / count)) for n in range(count)]


def _box(answer: HangAnswer, node: int | None, place: tuple[float, float], theme: Theme) -> Props:
    if node is None:
        words, colour = Markup("{}").format("nobody"), theme.bad
    else:
        held = next((holder for holder in answer.holders if holder.number == node), None)
        size = answer.verdict.facts.pools.size(node)
        there = f"{held.blocks:,} of {size:,} there" if held else "not issued"
        words = BREAK.join([element("b", one_line(answer.name(node), LONGEST)), there])
        colour = theme.stage_colour(node)
    box = {"bgcolor": theme.card, "bordercolor": colour, "borderwidth": 2, "borderpad": 8, "align": "center"}
    return {**note(words, theme, size=13), **box, "x": place[0], "y": place[1], "font": {"color": theme.ink}}


def _colour(edge: Edge, theme: Theme) -> str:
    return {"wait": theme.ink, "room": theme.bad, "turn": theme.muted}[edge.kind]


def _own_words(
    edges: Sequence[Edge], at: dict[int | None, tuple[float, float]], theme: Theme
) -> Iterator[Props]:
    """What those wait for that wait for themselves: below their boxes, one line each."""
    below = dict.fromkeys(at, -42)
    for edge in edges:
        x, y = at[edge.source]
        text, font = (
            note(one_line(edge.words, 60), theme, size=12),
            {"color": _colour(edge, theme), "size": 12},
        )
        yield {**text, "x": x, "y": y, "yshift": below[edge.source], "font": font}
        below[edge.source] -= 18


def _arrow(edge: Edge, at: dict[int | None, tuple[float, float]], theme: Theme) -> list[Props]:
    """The arrow and its words, beside those of the other direction."""
    colour = _colour(edge, theme)
    (x0, y0), (x1, y1) = at[edge.source], at[edge.target]
    text = one_line(edge.words, 60)
    length = sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2)
    side = (-(y1 - y0) / length * 0.12, (x1 - x0) / length * 0.12)
    start = (x0 + 0.3 * (x1 - x0) + side[0], y0 + 0.3 * (y1 - y0) + side[1])
    end = (x0 + 0.72 * (x1 - x0) + side[0], y0 + 0.72 * (y1 - y0) + side[1])
    line = {
        "x": end[0],
        "y": end[1],
        "ax": start[0],
        "ay": start[1],
        "xref": "x",
        "yref": "y",
        "axref": "x",
        "ayref": "y",
        "showarrow": True,
        "arrowhead": 2,
        "arrowwidth": 2,
        "arrowcolor": colour,
        "text": "",
    }
    middle = {"x": (start[0] + end[0]) / 2 + side[0], "y": (start[1] + end[1]) / 2 + side[1]}
    return [
        line,
        {
            **note(text, theme, size=12),
            **middle,
            "font": {"color": colour, "size": 12},
            "bgcolor": theme.background,
        },
    ]


COLUMNS = ("operation", "device", "blocks there", "of", "SMs", "waits")
MOST_PICTURES = 8


def write_hang_page(path: str | Path, answer: HangAnswer) -> Path:
    """Writes the page. Raises `OutputError`; what was there before stays whole."""
    figures = [sm_picture(answer, layout) for layout in answer.layouts[:MOST_PICTURES]]
    if answer.edges:
        figures.append(waits_picture(answer))
    first, *notes = answer.lines
    return write_page(
        path, title="Why it hangs", lead=first, figures=figures, table=_table(answer), notes=notes
    )


def _table(answer: HangAnswer) -> Table | None:
    rows = [
        [
            holder["operation"],
            holder["device"] or "",
            f"{holder['blocks']:,}",
            f"{holder['of']:,}",
            f"{holder['sms']:,}",
            holder["waits"],
        ]
        for holder in answer.as_json()["holders"]
    ]
    return Table(COLUMNS, rows, caption="Who is there and waits") if rows else None
