"""A dependency as a picture: tile grids side by side, and what one consumer tile has to wait for.

Example: the producer's grid in blue, its tiles tinted by the semaphore they post; the consumer's in
orange, tinted by the one they await; one consumer tile in full colour, arrows from all it reads.
The number on a tile is its place in the processing order.
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.safe_io.escaping import BREAK, Markup, element
from wavesim.trace.trace import IntArray
from wavesim.view.canvas import Heading, Props, base_layout, heading, note
from wavesim.view.dependency_data import DependencyParts, Tile, TileGrid, dependency_parts
from wavesim.view.figure_text import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, TOP, BOTTOM = 40, 40, 44, 44
TALLEST_TILE, SHORTEST_TILE = 46.0, 16.0
TINTS = (0.22, 0.5, 0.34, 0.62)  # neighbouring semaphores differ clearly, none is as strong as a chosen tile
MAX_ARROWS = 8
HOVER = Markup(
    "<b>{}</b> tile (%{{customdata[0]}}, %{{customdata[1]}})<br>processed as number %{{customdata[3]}}<br>"
    "{} semaphore %{{customdata[2]}}<extra></extra>"
)


def dependency_picture(
    pipeline: Pipeline,
    plan: Plan | None = None,
    *,
    consumer: str | None = None,
    tile: Tile | None = None,
    theme: str | Theme = "light",
    title: str | None = None,
    width: int = 1000,
) -> go.Figure:
    """What tile (x, y) of a consumer stage waits for under a plan; by default one of its first column.

    Raises `DescriptionError` for a pipeline without dependencies, an unknown consumer, a tile outside
    its grid and an unknown theme.
    """
    chosen = SemaphoreSync() if plan is None else plan
    parts, palette = dependency_parts(pipeline, chosen, consumer, tile), find_theme(theme)
    orders = {chosen.order_of(grid.stage.name).name for grid in parts.grids}
    numbers = f"numbers: order of processing ({', '.join(sorted(orders))})"
    below = f"{parts.dependency}; {numbers}; a description, nothing simulated or measured"
    head = heading(title if title is not None else _finding(parts, chosen), below, width - LEFT - RIGHT)
    data = [
        props
        for index, grid in enumerate(parts.grids)
        for props in _tiles(grid, index, parts, palette, width)
    ]
    return figure_of(data, _layout(parts, head, palette, width))


def _finding(parts: DependencyParts, plan: Plan) -> str:
    names = " and ".join(parts.dependency.producers)
    policies = {
        plan.policy_of(name, parts.dependency.consumer.stage.name).name for name in parts.dependency.producers
    }
    kind = f"{policies.pop()} semaphore" if len(policies) == 1 else "semaphore"
    count = len(parts.awaited)
    behind = f"{count} {kind}{'' if count == 1 else 's'}"
    tiles = f"{parts.tiles} tile{'' if parts.tiles == 1 else 's'}"
    return (
        f"{parts.dependency.consumer.stage.name} tile {parts.tile} reads {tiles} of {names}, behind {behind}"
    )


def _tile_px(parts: DependencyParts, width: int) -> tuple[float, float]:
    across = min(TALLEST_TILE, (width - LEFT - RIGHT) / parts.width)
    down = min(TALLEST_TILE, max(SHORTEST_TILE, across, min(TALLEST_TILE, 300 / parts.height)))
    return across, max(4.0, min(down, 560 / parts.height))


def _tiles(grid: TileGrid, index: int, parts: DependencyParts, theme: Theme, width: int) -> list[Props]:
    """Two heat maps: all tiles in tints of their semaphore, and the chosen ones in full colour."""
    is_consumer = index == len(parts.grids) - 1
    colour = theme.stage_colour(len(parts.grids) - 1 if is_consumer else index)
    text_colour = theme.text_on(len(parts.grids) - 1 if is_consumer else index)
    across, _ = _tile_px(parts, width)
    tints = [theme.translucent(colour, tint) for tint in TINTS]
    group = grid.group % len(TINTS) if grid.group.max() < grid.group.size - 1 else _checkered(grid)
    common = _heat_map(grid, "awaits first" if is_consumer else "posts", across)
    size = min(13, max(9, round(across / 3)))
    scale = [[i / (len(tints) - 1), tint] for i, tint in enumerate(tints)]
    plain = _layer(group, len(tints) - 1, scale, {"color": theme.ink, "size": size})
    bold = {"color": text_colour, "size": size, "weight": 700}
    strong = _layer(np.where(grid.needed > 0, 1.0, np.nan), 1, [[0, colour], [1, colour]], bold)
    return [
        {**common, **plain, "text": _numbers(grid, grid.needed == 0)},
        {**common, **strong, "text": _numbers(grid, grid.needed > 0)},
    ]


def _heat_map(grid: TileGrid, verb: str, across: float) -> Props:
    """What both layers share: place, gaps, numbers where there is room, hovering."""
    has_text = across >= 7.5 * len(str(grid.order.max())) + 4
    gap = 3 if across >= 24 else 1
    return {
        "type": "heatmap",
        "x": grid.left + np.arange(grid.stage.grid.x) + 0.5,
        "y": np.arange(grid.stage.grid.y) + 0.5,
        "xgap": gap,
        "ygap": gap,
        "showscale": False,
        "texttemplate": Markup("%{text}") if has_text else None,
        "customdata": _tile_facts(grid),
        "hovertemplate": HOVER.format(grid.stage.name, verb),
    }


def _layer(z: NDArray[Any], most: int, scale: list[list[Any]], font: Props) -> Props:
    return {"z": z, "zmin": 0, "zmax": most, "colorscale": scale, "textfont": font}


def _numbers(grid: TileGrid, shown: NDArray[np.bool_]) -> list[list[str]]:
    """Places in the processing order where `shown`, else nothing."""
    numbers: list[list[str]] = np.where(shown, grid.order.astype(str), "").tolist()
    return numbers


def _checkered(grid: TileGrid) -> IntArray:
    """Tints for a semaphore per tile: neighbours in both directions differ."""
    rows, columns = np.indices(grid.group.shape, dtype=np.int64)
    return np.asarray((rows + columns) % 2 * 2, dtype=np.int64)


def _tile_facts(grid: TileGrid) -> list[list[list[int]]]:
    return [
        [[x, y, int(grid.group[y, x]), int(grid.order[y, x])] for x in range(grid.stage.grid.x)]
        for y in range(grid.stage.grid.y)
    ]


def _layout(parts: DependencyParts, head: Heading, theme: Theme, width: int) -> Props:
    across, down = _tile_px(parts, width)
    height = head.height + TOP + round(parts.height * down) + BOTTOM
    right = width - LEFT - round(across * parts.width)
    layout = base_layout(theme, head, (width, height), (LEFT, right, head.height + TOP, BOTTOM))
    quiet = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}
    layout["xaxis"] = {**quiet, "range": [0, parts.width]}
    layout["yaxis"] = {**quiet, "range": [parts.height, 0]}
    layout["shapes"], heads = _arrows(parts, theme, across)
    layout["annotations"] = [*_headers(parts, theme), *_row_labels(parts, theme, down), *heads]
    layout["title"]["x"], layout["title"]["xref"] = LEFT / width, "container"
    return layout


def _headers(parts: DependencyParts, theme: Theme) -> list[Props]:
    found = []
    for index, grid in enumerate(parts.grids):
        role = "consumer" if index == len(parts.grids) - 1 else "producer"
        size = f"{grid.stage.grid.y} × {grid.stage.grid.x} tiles"
        name = element("b", grid.stage.name, style=f"font-size:15px;color:{theme.ink}")
        text = Markup("{}  {}, {}").format(name, role, size)
        place = {"x": grid.left, "y": 1, "yref": "paper", "xanchor": "left", "yanchor": "bottom", "yshift": 8}
        found.append({**note(text, theme), **place})
    return found


def _row_labels(parts: DependencyParts, theme: Theme, down: float) -> list[Props]:
    """Row numbers left of the first grid, as many as have room."""
    step = max(1, round(15 / down + 0.49))
    rows = range(0, parts.grids[0].stage.grid.y, step)
    return [
        note(
            f"y = {row}" if row == 0 else str(row),
            theme,
            size=11,
            x=0,
            y=row + 0.5,
            xanchor="right",
            xshift=-6,
        )
        for row in rows
    ]


def _arrows(parts: DependencyParts, theme: Theme, across: float) -> tuple[list[Props], list[Props]]:
    """(curves, heads and words) from what is read to the chosen consumer tile."""
    consumer = parts.grids[-1]
    to_x, to_y = consumer.left + parts.tile[0], parts.tile[1] + 0.5
    tail_length = max(0.3, 12 / across)
    curves, heads = [], []
    for producer, (_, x1, y0, y1) in parts.boxes[:MAX_ARROWS]:
        grid = parts.grids[producer]
        from_x, from_y = grid.left + x1, (y0 + y1) / 2
        is_beside = x1 == grid.stage.grid.x and producer == len(parts.grids) - 2
        lift = 0.0 if is_beside else 0.7 + 0.09 * (to_x - from_x)
        bend_x, bend_y = (from_x + to_x) / 2, (from_y + to_y) / 2 - lift
        path = f"M {from_x},{from_y} Q {bend_x},{bend_y} {to_x - tail_length / 2},{to_y - 0.1 * lift}"
        curves.append({"type": "path", "path": path, "line": {"color": theme.ink, "width": 2}})
        tail = {"ax": to_x - tail_length, "ay": to_y - 0.15 * lift, "axref": "x", "ayref": "y", "text": ""}
        head = {"x": to_x + 0.04, "y": to_y, "xref": "x", "yref": "y", "showarrow": True, "arrowhead": 2}
        heads.append({**head, **tail, "arrowwidth": 2, "arrowsize": 1.1, "arrowcolor": theme.ink})
    if len(parts.awaited) == 1:
        policy, semaphore, value = parts.awaited[0]
        text = BREAK.join([f"{policy} {semaphore}", f"= {value}"])
        words = {
            "x": (parts.grids[-2].left + parts.grids[-2].stage.grid.x + to_x) / 2,
            "y": to_y,
            "yanchor": "bottom",
        }
        heads.append({**note(text, theme, size=12), **words, "align": "center", "yshift": 4})
    return curves, heads
