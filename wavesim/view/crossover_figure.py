"""What each way is worth over M: of synchronising with its interval, of communicating, and what is taken.

Example: of GPT-3's MLP Stream-K's line falls from 38 points, that of row semaphores jumps to 27 at 641 rows,
and the strip below changes colour there. A way keeps its colour and its dash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from wavesim.errors import DescriptionError
from wavesim.predict.peer_ways import PeerCrossover
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Props, axis, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.wording import span_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


LEFT, RIGHT, BOTTOM, PLOT_HEIGHT, WIDTH = 66, 24, 110, 400, 1000
STRIP = (0.0, 0.09)  # of the plot's height
GAINS = (0.2, 1.0)
DASHES = ("solid", "dash", "dot", "dashdot")
BAND = 0.13
NARROW = 0.05  # of the axis: a strip's label does not fit into less
HOVER = Markup(
    "<b>{}</b> at %{{x}} rows: %{{y:+.1f}} points (%{{customdata[0]:+.1f}} to %{{customdata[1]:+.1f}})"
    "<extra></extra>"
)


@dataclass(frozen=True)
class GainStep:
    """A way's gain in points, and its interval, from `m_from` to `m_to` rows."""

    m_from: int
    m_to: int
    points: float
    low: float
    high: float


@dataclass(frozen=True)
class ChosenWay:
    """The way that the table takes from `m_from` to `m_to` rows."""

    m_from: int
    m_to: int
    way: str


def gains_over_rows(
    gains: Mapping[str, Sequence[GainStep]],
    chosen: Sequence[ChosenWay],
    *,
    title: str,
    source: str,
    theme: str | Theme = "light",
    width: int = WIDTH,
) -> go.Figure:
    """The figure; `source` says what gains were predicted from. Raises `DescriptionError` for no gains."""
    if not gains or not chosen:
        raise DescriptionError("gains_over_rows: gains or chosen is empty; give at least one way and one row")
    palette = find_theme(theme)
    head = heading(title, source, width - LEFT - RIGHT)
    count = len(palette.stages)
    styles = {way: (palette.stage_colour(i), DASHES[i // count % 4]) for i, way in enumerate(gains)}
    data: list[Props] = []
    for way, steps in gains.items():
        data += _series(way, steps, *styles[way], palette, is_taken=any(entry.way == way for entry in chosen))
    size = (width, head.height + PLOT_HEIGHT + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    first, last = chosen[0].m_from, chosen[-1].m_to
    layout |= {
        "xaxis": axis(palette, "rows M", range=[first, last], anchor="y2"),
        "yaxis": axis(palette, "gain over stream sync, points", domain=GAINS, zeroline=True),
        "yaxis2": {"domain": STRIP, "range": [0, 1], "visible": False, "fixedrange": True},
        "shapes": [_block(entry, styles[entry.way], palette) for entry in chosen],
        "annotations": [
            *layout.get("annotations", []),
            *(
                _label(entry, palette)
                for entry in chosen
                if entry.m_to - entry.m_from > NARROW * (last - first)
            ),
            note("taken:", palette, xref="paper", x=-0.005, xanchor="right", yref="paper", y=STRIP[1] / 2),
        ],
    }
    return figure_of(data, layout)


def _series(
    way: str, steps: Sequence[GainStep], colour: str, dash: str, theme: Theme, *, is_taken: bool
) -> list[Props]:
    """The band and the line, each a step per range of M. Bands of ways that are never taken are not drawn."""
    at = [m for step in steps for m in (step.m_from, step.m_to)]

    def twice(values: Sequence[float]) -> list[float]:
        return [value for value in values for _ in range(2)]

    low, high = twice([step.low for step in steps]), twice([step.high for step in steps])
    line = {
        "type": "scatter",
        "mode": "lines",
        "name": way,
        "legendgroup": way,
        "x": at,
        "y": twice([step.points for step in steps]),
        "line": {"color": colour, "dash": dash, "width": 2.4 if is_taken else 1.4},
        "customdata": [list(pair) for pair in zip(low, high, strict=True)],
        "hovertemplate": HOVER.format(way),
    }
    band = {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": way,
        "showlegend": False,
        "hoverinfo": "skip",
        "x": [*at, *reversed(at)],
        "y": [*high, *reversed(low)],
        "fill": "toself",
        "fillcolor": theme.translucent(colour, BAND),
        "line": {"width": 0},
    }
    return [band, line] if is_taken else [line]


def _block(chosen: ChosenWay, style: tuple[str, str], theme: Theme) -> Props:
    """A rectangle of the strip; a dashed way's edge is dashed too."""
    colour, dash = style
    return {
        "type": "rect",
        "xref": "x",
        "yref": "y2",
        "x0": chosen.m_from - 0.5,
        "x1": chosen.m_to + 0.5,
        "y0": 0,
        "y1": 1,
        "fillcolor": theme.translucent(colour, 0.35),
        "line": {"color": colour, "dash": dash, "width": 1.5},
    }


def _label(chosen: ChosenWay, theme: Theme) -> Props:
    return note(
        chosen.way.partition(" ")[0],
        theme,
        11,
        xref="x",
        yref="y2",
        x=(chosen.m_from + chosen.m_to) / 2,
        y=0.5,
        xanchor="center",
        yanchor="middle",
        font={"color": theme.ink, "size": 11},
    )


PEER_HEIGHT = 380
PEER_HOVER = Markup("<b>{}</b> at %{{x:,}} rows: %{{y:.2f}} times, %{{customdata:,.0f}} µs<extra></extra>")


def times_as_fast_over_rows(crossover: PeerCrossover, source: str, theme: str | Theme = "light") -> "Figure":
    """A line per way, thick where the table takes it somewhere; `source` says what times rest on."""
    palette = find_theme(theme)
    head = heading(title_of(crossover), source, WIDTH - LEFT - RIGHT)
    taken = {row.way for row in crossover.table}
    words = list(dict.fromkeys(word for size in crossover.sizes for word in size.times_ns))
    data = [_peer_line(crossover, word, i, palette, is_taken=word in taken) for i, word in enumerate(words)]
    size = (WIDTH, head.height + PEER_HEIGHT + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    at = [entry.m for entry in crossover.sizes]
    layout |= {
        "xaxis": axis(palette, "rows M", type="log", tickvals=at, ticktext=[f"{m:,}" for m in at]),
        "yaxis": axis(palette, "times as fast as one after the other", rangemode="tozero"),
        "annotations": [*layout.get("annotations", []), *(_taken_text(crossover, palette))],
    }
    return figure_of(data, layout)


def title_of(crossover: PeerCrossover) -> str:
    """The finding: from where on tiles beat what a library has."""
    on = f"{crossover.name} on {crossover.gpus} GPUs ({crossover.device})"
    if crossover.pays_from is None:
        return f"{on}: up to {crossover.sizes[-1].m:,} rows a library's way is as fast as any"
    return f"{on}: tiles that leave as they are made pay from {crossover.pays_from:,} rows on"


def _peer_line(crossover: PeerCrossover, word: str, index: int, theme: Theme, *, is_taken: bool) -> Props:
    count = len(theme.stages)
    known = [size for size in crossover.sizes if word in size.times_ns]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": word,
        "x": [size.m for size in known],
        "y": [round(size.speedup(word), 3) for size in known],
        "customdata": [size.times_ns[word] / 1e3 for size in known],
        "hovertemplate": PEER_HOVER.format(word),
        "marker": {"size": 6 if is_taken else 4},
        "line": {
            "color": theme.stage_colour(index),
            "dash": DASHES[index // count % len(DASHES)],
            "width": 2.6 if is_taken else 1.2,
        },
    }


def _taken_text(crossover: PeerCrossover, theme: Theme) -> list[Props]:
    """The table's ways in words, under the axis."""
    words = "; ".join(f"{span_text(row.m_from, row.m_to)}: {row.way}" for row in crossover.table)
    return [note(f"taken: {words}", theme, 12, xref="paper", x=0, yref="paper", y=0.0, yshift=4)]
