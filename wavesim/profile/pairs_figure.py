"""The pairs worth looking at, as bars: what tile sync could win, its interval, and the launch gaps beside it.

Example: a row per pair, a bar from nothing to the estimate, a whisker over the interval, an open diamond
where a CUDA graph or programmatic launch would get; pairs hidden from the analysis have no bar. A bar is grey
unless the simulator found a gain as well.
"""

import plotly.graph_objects as go

from wavesim.profile.advice import Advice, Pair
from wavesim.profile.advice_text import short_label
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Props, axis, base_layout, heading
from wavesim.view.figure_text import figure_of
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, ROW = 420, 40, 100, 34
SHOWN = 8
LABEL, LETTER_PX = 55, 7  # of a pair's two names: letters, and what one takes at most on average


def advice_pairs(advice: Advice, *, theme: str | Theme = "light", width: int = 1000) -> go.Figure:
    """The first pairs of the ranking. Raises `DescriptionError` for an unknown theme."""
    palette = find_theme(theme)
    pairs = [pair for pair in advice.pairs if pair.saving.likely_ns > 0 or pair.gap_ns > 0][:SHOWN]
    title = _title([pair for pair in pairs if not advice.is_refuted(pair)])
    place = advice.profile.device_name
    words = f"{place}, estimated from the profile, over all occurrences; nothing was rewritten"
    head = heading(title, words, width - 60)
    size = (width, head.height + ROW * max(1, len(pairs)) + BOTTOM)
    layout = base_layout(palette, head, size, (LEFT, RIGHT, head.height, BOTTOM))
    layout["title"] |= {"xref": "container", "x": 0.02}
    layout["xaxis"] = axis(
        palette, "time over the whole profile (µs)", zeroline=True, zerolinecolor=palette.muted
    )
    layout["yaxis"] = axis(palette, range=[len(pairs) - 0.5, -0.5], showgrid=False)
    layout["yaxis"] |= {"tickvals": list(range(len(pairs))), "ticktext": [_label(pair) for pair in pairs]}
    return figure_of([_bars(advice, pairs, palette), _gaps(pairs, palette)], layout)


def _title(pairs: list[Pair]) -> str:
    """The finding: which pair, or that gaps weigh more than any."""
    if not pairs:
        return "No pair of kernels back to back that might gain"
    best = max(pairs, key=lambda pair: pair.saving.likely_ns)
    if best.saving.likely_ns <= 0:
        return "Tile sync has nothing to win in these pairs; launch gaps have"
    return f"Most to win: {best.producer.name.short} → {best.consumer.name.short}"


def _label(pair: Pair) -> Markup:
    text = f"{short_label(pair.producer, 14)} → {short_label(pair.consumer, 14)}"
    shown = text if len(text) <= LABEL else f"{text[: LABEL - 1]}…"
    return Markup("{}  <b>{}</b>").format(shown, pair.number)


def _bars(advice: Advice, pairs: list[Pair], theme: Theme) -> Props:
    """Green only where the simulator found a gain too."""
    likely = [pair.saving.likely_ns / 1e3 for pair in pairs]
    return {
        "type": "bar",
        "orientation": "h",
        "name": "tile sync, with its interval",
        "y": list(range(len(pairs))),
        "x": likely,
        "width": 0.5,
        "marker": {"color": [theme.good if advice.is_confirmed(pair) else theme.muted for pair in pairs]},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [(pair.saving.high_ns - pair.saving.likely_ns) / 1e3 for pair in pairs],
            "arrayminus": [(pair.saving.likely_ns - pair.saving.low_ns) / 1e3 for pair in pairs],
            "color": theme.ink,
            "thickness": 1.4,
            "width": 5,
        },
        "hovertemplate": Markup("tile sync %{x:,.1f} µs<extra></extra>"),
    }


def _gaps(pairs: list[Pair], theme: Theme) -> Props:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "launch gaps above a CUDA graph's 1.05 µs",
        "y": list(range(len(pairs))),
        "x": [pair.gap_saving.likely_ns / 1e3 for pair in pairs],
        "marker": {"symbol": "diamond-open", "size": 11, "color": theme.bad, "line": {"width": 2}},
        "hovertemplate": Markup("gaps %{x:,.1f} µs<extra></extra>"),
    }
