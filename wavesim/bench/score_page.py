"""The score as a page: a picture per set, every case a dot, and the table of scores above them.

Example: measured improvement to the right, predicted upwards; on the diagonal the prediction is right.
Full dots are the test split, rings the development split; the band is the median 80 % interval.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import plotly.graph_objects as go

from wavesim.bench.scored_case import LEFT_OUT, ScoredPrediction
from wavesim.bench.stored_kernels import all_kernels
from wavesim.bench.validation import outliers, sets_of
from wavesim.predict.intervals import committed_widths
from wavesim.predict.score_history import SetScore
from wavesim.safe_io.escaping import Markup
from wavesim.view.canvas import Props, axis, base_layout, heading
from wavesim.view.figure import figure_of
from wavesim.view.page import Section, Table, write_page
from wavesim.view.theme import Theme, find_theme

LEFT, RIGHT, BOTTOM, PLOT = 66, 30, 100, 400
WIDTH = 720
SOURCES = {  # of a set, by how its name starts
    "own-kernel": "simulated from two kernel times; measured on an H200, our kernels",
    "own": "simulated from the stream-sync trace; measured on an H200, our kernels",
    **{
        kernels.backend: f"simulated from a stream-sync trace made before; {kernels.measured}"
        for kernels in all_kernels().values()
    },
    "blind-foreign": "simulated from kernel times or a trace; measured on an H200, kernels that are not ours",
    "blind": "simulated from stream-sync traces made before; measured in a later blind run, our kernels",
    "judged": "simulated from stream-sync traces made before; measured on an H200, our kernels",
    "foreign-sketch": "simulated from two kernel times; measured on an H200, sketch kernels",
    "sketch": "simulated from the stream-sync trace; measured on an H200, sketch kernels",
    "published": "simulated from stream-sync times; measured on V100 and A100 by the paper's authors",
    LEFT_OUT: "simulated from another device's stream-sync traces; measured on one that nobody characterised",
}
HOVER = Markup("<b>%{text}</b><br>measured %{x:+.1f}, predicted %{y:+.1f}<extra></extra>")
COLUMNS = ("set", "cases", "median", "90 %", "sign", "noise", "no gain", "ceil", "time %", "80 % holds")


def write_score_page(
    path: str | Path, scored: Sequence[ScoredPrediction], scores: Sequence[SetScore]
) -> Path:
    """Writes the page of all sets. Returns its path."""
    by_name = {score.name: score for score in scores}
    sections = [
        Section(score_figure(name, members, by_name.get(name)), heading=name)
        for name, members in sets_of(scored).items()
    ]
    return write_page(
        path,
        title="Predicted and measured: how far off, set by set",
        figures=sections,
        lead="Every stored measurement, predicted anew from what a user would have had before it. Errors are "
        "in points of improvement over stream sync. Scores are of the test split; constants were fitted to "
        "the other.",
        table=Table(COLUMNS, [_row(score) for score in scores], caption="Test split"),
        notes=[f"Not scored: {text}." for text in outliers(scored)],
    )


def score_figure(
    name: str, members: Sequence[ScoredPrediction], score: SetScore | None, theme: str | Theme = "light"
) -> go.Figure:
    """Predicted over measured improvement of one set; `score` is of its test split, None if that is empty."""
    palette = find_theme(theme)
    words = (
        f"{name}: median error {score.median_abs_error_points:.1f} points, 90 % within "
        f"{score.p90_abs_error_points:.1f}"
        if score is not None
        else f"{name}: no case in the test split"
    )
    source = next(text for start, text in SOURCES.items() if name.startswith(start))
    head = heading(words, source, WIDTH - LEFT - RIGHT)
    values = [value for p in members for value in (p.predicted, p.measured.median)]
    low, high = min(0.0, *values) - 2, max(0.0, *values) + 2
    height = head.height + PLOT + BOTTOM
    layout = base_layout(palette, head, (WIDTH, height), (LEFT, RIGHT, head.height, BOTTOM))
    layout["xaxis"] = axis(palette, "measured improvement (points)", range=[low, high])
    layout["yaxis"] = axis(palette, "predicted improvement (points)", range=[low, high])
    layout["shapes"] = _diagonal(low, high, _margin(members), palette)
    return figure_of([trace for split in SPLITS for trace in _dots(members, split, palette)], layout)


SPLITS = ("development", "test")


def _margin(members: Sequence[ScoredPrediction]) -> float:
    """The median half-width of the set's cases; each has its own."""
    widths = committed_widths()
    return median(widths.half_width(p.kind, p.spread, p.device) for p in members)


def _diagonal(low: float, high: float, margin: float, theme: Theme) -> list[Props]:
    corners = ((low, low - margin), (high, high - margin), (high, high + margin), (low, low + margin))
    band = "M" + " L".join(f"{x:g},{y:g}" for x, y in corners) + " Z"
    line = {"type": "line", "x0": low, "y0": low, "x1": high, "y1": high, "layer": "below"}
    return [
        {"type": "path", "path": band, "fillcolor": theme.card, "line": {"width": 0}, "layer": "below"},
        {**line, "line": {"color": theme.muted, "width": 1.5}},
    ]


def _dots(members: Sequence[ScoredPrediction], split: str, theme: Theme) -> list[Props]:
    series = []
    for index, plan in enumerate(sorted({p.plan for p in members})):
        chosen = [p for p in members if p.split == split and p.plan == plan]
        symbol = ("circle", "square", "diamond", "triangle-up")[index % 4]
        series.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{plan}, {split} split",
                "x": [p.measured.median for p in chosen],
                "y": [p.predicted for p in chosen],
                "text": [p.name for p in chosen],
                "showlegend": bool(chosen),
                "marker": {
                    "symbol": symbol if split == "test" else f"{symbol}-open",
                    "size": 8,
                    "color": (theme.good, theme.bad, theme.ink, theme.muted)[index % 4],
                },
                "hovertemplate": HOVER,
            }
        )
    return series


def _row(score: SetScore) -> list[str]:
    return [
        score.name,
        str(score.cases),
        f"{score.median_abs_error_points:.2f}",
        f"{score.p90_abs_error_points:.2f}",
        _percent(score.sign_agreement),
        _points(score.noise_points),
        _points(score.no_gain_median_points),
        _points(score.ceil_formula_median_points),
        _points(score.median_time_error_percent),
        _percent(score.coverage),
    ]


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
