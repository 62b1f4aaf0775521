"""A pipeline as a small picture: each stage's grid, arrows to its consumers, one tile's reads marked.

Example: GPT-3's MLP is a grid of 24 x 8 and one of 48 x 8; a tile in the middle of the second and the
whole row of the first that it reads are solid, all others pale.
"""

from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.escaping import Markup, element
from wavesim.view.theme import LIGHT
from wavesim.view.wording import text_width

MOST_STAGES = 8  # drawn and listed; the others are counted
WIDEST, HIGHEST, LARGEST_CELL = 170.0, 100.0, 14.0
ACROSS, BETWEEN, HEADER = 56.0, 18.0, 46.0
DIP = 26.0  # below the grids, for arrows that pass by others
LINES_FROM = 3.0  # pixels of a cell from which on its edges are drawn


@dataclass(frozen=True)
class Card:
    """A stage's place: column, left and top of its text, and the size of a tile on its grid below."""

    stage: Stage
    index: int
    column: int
    left: float
    top: float
    cell: tuple[float, float]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the drawn grid."""
        grid = self.stage.grid
        return self.cell[0] * grid.x, self.cell[1] * grid.y

    @property
    def bottom(self) -> float:
        """Height of the drawn grid's lower edge."""
        return self.top + HEADER + self.size[1]

    @property
    def middle(self) -> float:
        """Height at which arrows come and go."""
        return self.top + HEADER + self.size[1] / 2

    def tiles(self, columns: tuple[int, int], rows: tuple[int, int]) -> Markup:
        """A solid rectangle over tiles, half-open ranges."""
        (left, right), (top, bottom), (width, height) = columns, rows, self.cell
        return element(
            "rect",
            x=self.left + left * width,
            y=self.top + HEADER + top * height,
            width=max(1.0, (right - left) * width),
            height=max(1.0, (bottom - top) * height),
            class_=stage_class(self.index),
        )


def stage_class(index: int) -> str:
    """The style class of a stage's colour, by launch index."""
    return f"stage{index % len(LIGHT.stages)}"


def pipeline_svg(pipeline: Pipeline) -> Markup:
    """The picture; producers stand to the left of their consumers."""
    cards = _cards(pipeline)
    inside = [part for card in cards.values() for part in _drawn(card)]
    for dependency in pipeline.dependencies:
        consumer = dependency.consumer.stage.name
        if consumer in cards:
            inside += _reads(pipeline, cards, consumer)
    width = max(card.left + max(card.size[0], _text_width(card.stage)) for card in cards.values()) + 8
    height = max(card.bottom for card in cards.values()) + DIP
    label = element("title", f"pipeline {pipeline.name}")
    return element(
        "svg", label, *inside, width=width, height=height, viewBox=f"0 0 {width:.0f} {height:.0f}", role="img"
    )


def _cards(pipeline: Pipeline) -> dict[str, Card]:
    """Places in columns by how many stages come before, one under the other within a column."""
    depth: dict[str, int] = {}
    for stage in pipeline.stages:
        needs = pipeline.dependency_of(stage.name)
        depth[stage.name] = 1 + max((depth[name] for name in needs.producers), default=-1) if needs else 0
    shown = list(enumerate(pipeline.stages))[:MOST_STAGES]
    cards: dict[str, Card] = {}
    left = 4.0
    for column in range(max(depth.values()) + 1):
        top, wide = 4.0, 0.0
        for index, stage in shown:
            if depth[stage.name] == column:
                card = Card(stage, index, column, left, top, _cell(stage))
                cards[stage.name] = card
                top += HEADER + card.size[1] + BETWEEN
                wide = max(wide, card.size[0], _text_width(stage))
        left += wide + ACROSS
    return cards


def _cell(stage: Stage) -> tuple[float, float]:
    return min(LARGEST_CELL, WIDEST / stage.grid.x), min(LARGEST_CELL, HIGHEST / stage.grid.y)


def _facts(stage: Stage) -> str:
    grid = stage.grid
    sizes = (getattr(stage.work, "tile_m", None), getattr(stage.work, "tile_n", None))
    tile = f" of {sizes[0]} × {sizes[1]}" if None not in sizes else ""
    return f"{grid.y} × {grid.x} tiles{tile}" + (f", split-K {grid.z}" if grid.z > 1 else "")


def _text_width(stage: Stage) -> float:
    return max(text_width(stage.name, 14), text_width(_facts(stage), 13))


def _drawn(card: Card) -> list[Markup]:
    """Name, facts and the pale grid with its lines."""
    width, height = card.size
    x, y = card.left, card.top + HEADER
    name = element("text", card.stage.name, x=x, y=card.top + 14, class_="name")
    facts = element("text", _facts(card.stage), x=x, y=card.top + 33, class_="muted")
    ground = element("rect", x=x, y=y, width=width, height=height, class_=f"{stage_class(card.index)} pale")
    lines = ""
    if min(card.cell) >= LINES_FROM:
        lines += "".join(
            f"M{x + i * card.cell[0]:.1f} {y}v{height:.1f}" for i in range(card.stage.grid.x + 1)
        )
        lines += "".join(f"M{x} {y + i * card.cell[1]:.1f}h{width:.1f}" for i in range(card.stage.grid.y + 1))
    return [name, facts, ground, *([element("path", d=lines, class_="rule")] if lines else [])]


def _reads(pipeline: Pipeline, cards: dict[str, Card], consumer: str) -> list[Markup]:
    """A consumer's middle tile, the tiles it reads, and an arrow from each producer."""
    dependency = pipeline.dependency_of(consumer)
    assert dependency is not None
    card = cards[consumer]
    cx, cy = card.stage.grid.x // 2, card.stage.grid.y // 2
    marks = [card.tiles((cx, cx + 1), (cy, cy + 1))]
    arrows: dict[str, Markup] = {}
    for need in dependency.needs:
        name = need.stage.name
        if name not in cards:
            continue
        is_first = pipeline.consumers_of(name)[0] == consumer
        if is_first:
            left, right, top, bottom = need.box(cx, cy)
            step = need.columns.step if need.columns.is_slice else 1
            spans = [(left, right)] if step == 1 else [(i, i + 1) for i in range(left, right, step)]
            marks += [cards[name].tiles(span, (top, bottom)) for span in spans]
        arrows[name] = (_arrow if card.column == cards[name].column + 1 else _detour)(cards[name], card)
    return [*marks, *arrows.values()]


def _arrow(producer: Card, consumer: Card) -> Markup:
    """A curve from a producer's grid to its consumer's."""
    x0, y0 = producer.left + producer.size[0] + 5, producer.middle
    x1, y1 = consumer.left - 6, consumer.middle
    bend = (x1 - x0) / 2
    curve = f"M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} {x1 - 6:.1f} {y1:.1f}"
    head = f"M{x1:.1f} {y1:.1f}l-8 -4v8z"
    return _with_head(curve, head)


def _detour(producer: Card, consumer: Card) -> Markup:
    """A curve below the grids that stand between."""
    x0, y0 = producer.left + producer.size[0] * 0.7, producer.bottom + 3
    x1, y1 = consumer.left + consumer.size[0] * 0.3, consumer.bottom + 4
    low = max(y0, y1) + DIP
    curve = f"M{x0:.1f} {y0:.1f}C{x0:.1f} {low:.1f} {x1:.1f} {low:.1f} {x1:.1f} {y1 + 6:.1f}"
    head = f"M{x1:.1f} {y1:.1f}l-4 8h8z"
    return _with_head(curve, head)


def _with_head(curve: str, head: str) -> Markup:
    drawn = element("path", d=curve, class_="arrow", stroke_width=1.5)
    return Markup(drawn + element("path", d=head, class_="head"))


def dependency_list(pipeline: Pipeline) -> Markup:
    """The dependencies as they are written, and how many stages or dependencies are not shown."""
    lines = [
        element("p", element("code", str(dependency))) for dependency in pipeline.dependencies[:MOST_STAGES]
    ]
    hidden = len(pipeline.stages) - MOST_STAGES
    if hidden > 0:
        lines.append(element("p", f"and {hidden} more stage{'s' if hidden > 1 else ''}"))
    return Markup("".join(lines))


def wave_table(pipeline: Pipeline) -> Markup:
    """Waves of each stage on each device of the catalogue."""
    names = devices.names()
    head = element("tr", element("th", "waves", class_="left"), *(element("th", name) for name in names))
    rows = []
    for stage in pipeline.stages[:MOST_STAGES]:
        cells = (element("td", _waves(stage, devices.load(name))) for name in names)
        rows.append(element("tr", element("td", stage.name, class_="left"), *cells))
    note = "waves = blocks / (SMs × blocks per SM); – where a block does not fit"
    return element("table", head, *rows, title=note)


def _waves(stage: Stage, device: Device) -> str:
    """Waves of a stage's kernel alone, or a dash where the device cannot run its blocks."""
    try:
        per_sm = occupancy_of(device, stage.kernel.block).blocks_per_sm
    except DescriptionError:
        return "–"
    if not per_sm:
        return "–"
    waves = stage.grid.size / (device.sm_count * per_sm)
    return f"{waves:.{2 if waves < 10 else 1}f}"
