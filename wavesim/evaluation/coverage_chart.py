"""Which share of the measurements lies in its interval: of every set, and of devices and kernels left out.

Example: a full dot at 81 % for "judged-all", a ring at 85 % for the intervals registered before those plans
ran; a diamond at 75 % for the same kernels with intervals learnt from all others. The band is 72 to 88 %.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from wavesim.evaluation.interval_fit import LeftOut
from wavesim.evaluation.thresholds import INTERVALS
from wavesim.predict.score_history import SetScore
from wavesim.view.canvas import Props, axis, base_layout, heading
from wavesim.view.figure_text import figure_of
from wavesim.view.theme import Theme, find_theme

WIDTH, LEFT, RIGHT, BOTTOM, ROW = 860, 300, 90, 100, 20


def coverage_figure(
    scores: Sequence[SetScore], apart: Sequence[LeftOut], theme: str | Theme = "light"
) -> go.Figure:
    """A row for each set and for each that was left out; test split. The number is the median half-width."""
    palette = find_theme(theme)
    sets = [one for one in scores if one.coverage is not None]
    names = [f"{one.name} ({one.cases})" for one in sets]
    left = [f"{one.what} ({one.cases})" for one in apart]
    halves = [
        *(one.median_half_width_points or 0.0 for one in sets),
        *(one.median_half_width_points for one in apart),
    ]
    head = heading(
        f"{_share(sets)} sets of 20 plans or more have 72 to 88 % of them inside",
        "test split, cases in brackets; right: median half-width in points; below: intervals learnt from all "
        "other devices or kernels",
        WIDTH - LEFT - RIGHT,
    )
    rows = [*names, *left]
    height = head.height + ROW * len(rows) + BOTTOM
    layout = base_layout(palette, head, (WIDTH, height), (LEFT, RIGHT, head.height, BOTTOM))
    layout["xaxis"] = axis(palette, "measurements inside (%)", range=[0, 104])
    layout["yaxis"] = axis(
        palette, "", range=[len(rows) - 0.5, -0.5], tickvals=list(range(len(rows))), ticktext=rows
    )
    layout["shapes"] = [_band(palette)]
    layout["annotations"] = [
        *layout.get("annotations", []),
        *(
            {
                "x": 1.01,
                "xref": "paper",
                "y": i,
                "text": f"±{half:.1f}",
                "showarrow": False,
                "xanchor": "left",
            }
            for i, half in enumerate(halves)
        ),
    ]
    before = [(i, one.coverage_before) for i, one in enumerate(sets) if one.coverage_before is not None]
    after = [(i, one.coverage or 0.0) for i, one in enumerate(sets)]
    out = [(len(sets) + i, one.coverage) for i, one in enumerate(apart)]
    data = [
        _dots("as registered before the run", before, "circle-open", palette.muted),
        _dots("today", after, "circle", palette.good),
        _dots("left out", out, "diamond", palette.bad),
    ]
    return figure_of(data, layout)


def _share(sets: Sequence[SetScore]) -> str:
    """Such as "9 of 12"."""
    large = [one for one in sets if one.cases >= 20]
    inside = [one for one in large if _low() <= (one.coverage or 0.0) <= _high()]
    return f"{len(inside)} of {len(large)}"


def _low() -> float:
    return INTERVALS[0].threshold


def _high() -> float:
    return INTERVALS[1].threshold


def _band(palette: Theme) -> Props:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": 100 * _low(),
        "x1": 100 * _high(),
        "y0": 0,
        "y1": 1,
        "fillcolor": palette.card,
        "line": {"width": 0},
        "layer": "below",
    }


def _dots(name: str, found: Sequence[tuple[int, float]], symbol: str, colour: str) -> Props:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [100 * share for _, share in found],
        "y": [row for row, _ in found],
        "marker": {"symbol": symbol, "size": 9, "color": colour, "line": {"width": 1.5, "color": colour}},
    }
