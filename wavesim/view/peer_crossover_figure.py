"""How many times as fast as one after the other each way of communicating is, over M.

Example: of a product over two GPUs the line of a library's one-shot all-reduce begins at 1.4 and falls, that
of tiles that leave as they are made crosses it at some M; a bar below says which way is taken where.
"""

from typing import TYPE_CHECKING

from wavesim.safe_io.escaping import Markup
from wavesim.sim.peers.dispatch import PeerCrossover
from wavesim.view.canvas import Props, axis, base_layout, heading, note
from wavesim.view.figure import figure_of
from wavesim.view.theme import Theme, find_theme
from wavesim.view.wording import span_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

LEFT, RIGHT, BOTTOM, PLOT_HEIGHT, WIDTH = 66, 24, 110, 380, 1000
DASHES = ("solid", "dash", "dot")
HOVER = Markup("<b>{}</b> at %{{x:,}} rows: %{{y:.2f}} times, %{{customdata:,.0f}} µs<extra></extra>")


def times_as_fast_over_rows(found: PeerCrossover, source: str, theme: str | Theme = "light") -> "Figure":
    """A line per way, thick where the table takes it somewhere; `source` says what times rest on."""
    palette = find_theme(theme)
    head = heading(title_of(found), source, WIDTH - LEFT - RIGHT)
    taken = {row.way for row in found.table}
    words = list(dict.fromkeys(word for size in found.sizes for word in size.times_ns))
    data = [_line(found, word, i, palette, is_taken=word in taken) for i, word in enumerate(words)]
    size = (WIDTH, head.height + PLOT_HEIGHT + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    at = [one.m for one in found.sizes]
    layout |= {
        "xaxis": axis(palette, "rows M", type="log", tickvals=at, ticktext=[f"{m:,}" for m in at]),
        "yaxis": axis(palette, "times as fast as one after the other", rangemode="tozero"),
        "annotations": [*layout.get("annotations", []), *(_label(found, palette))],
    }
    return figure_of(data, layout)


def title_of(found: PeerCrossover) -> str:
    """The finding: from where on tiles beat what a library has."""
    on = f"{found.name} on {found.gpus} GPUs ({found.device})"
    if found.pays_from is None:
        return f"{on}: up to {found.sizes[-1].m:,} rows a library's way is as fast as any"
    return f"{on}: tiles that leave as they are made pay from {found.pays_from:,} rows on"


def _line(found: PeerCrossover, word: str, index: int, theme: Theme, *, is_taken: bool) -> Props:
    count = len(theme.stages)
    known = [size for size in found.sizes if word in size.times_ns]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": word,
        "x": [size.m for size in known],
        "y": [round(size.speedup(word), 3) for size in known],
        "customdata": [size.times_ns[word] / 1e3 for size in known],
        "hovertemplate": HOVER.format(word),
        "marker": {"size": 6 if is_taken else 4},
        "line": {
            "color": theme.stage_colour(index),
            "dash": DASHES[index // count % len(DASHES)],
            "width": 2.6 if is_taken else 1.2,
        },
    }


def _label(found: PeerCrossover, theme: Theme) -> list[Props]:
    """The table's ways in words, under the axis."""
    words = "; ".join(f"{span_text(row.m_from, row.m_to)}: {row.way}" for row in found.table)
    return [note(f"taken: {words}", theme, 12, xref="paper", x=0, yref="paper", y=0.0, yshift=4)]
