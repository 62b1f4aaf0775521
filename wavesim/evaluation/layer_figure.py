"""`mlp` beside the best of torch's forms as a figure: a panel for each model, over the number of tokens.

Example: at 1,024 tokens of Llama 3 8B a green dot at 1.04 is `mlp` after tuning, faster than whatever torch
does best there; the hollow diamond beside it is its first choice, made by simulation at once.
"""

from dataclasses import replace

import plotly.graph_objects as go

from wavesim.errors import RecordingError
from wavesim.evaluation.bench_dots import Found, dots, verdict_panel
from wavesim.evaluation.layer_results import FIRST, OURS, TUNED, LayerResults, LayerShapeRow
from wavesim.safe_io.escaping import BREAK, Markup
from wavesim.view.panels_data import Panel, Series, fitting
from wavesim.view.panels_figure import small_panels

WITHIN = (0.6, 1.6)  # what the axis shows at most; beyond it stand arrowheads with numbers
WHEN = {FIRST: "at its first choice", TUNED: "after tuning"}
BESIDE = 0.2  # categories between the two marks of one size
TOKENS = "tokens (M), evenly spaced; a dotted line parts token generation from prompts"


def speeds_figure(layers: LayerResults, theme: str = "light") -> go.Figure:
    """One panel per model on one scale. Raises `RecordingError` where nothing was measured beside torch."""
    main = TUNED if layers.speeds(TUNED) else FIRST
    panels = [_panel(layers, model, main) for model in layers.models if layers.summary(main, model)]
    if not panels:
        raise RecordingError(
            f"{layers.results.path}: mlp was measured beside no form of torch; measure again"
        )
    totals = {ours: layers.summary(ours) for ours in OURS}
    means = [f"{total.geomean:.3f} {WHEN[ours]}" for ours, total in totals.items() if total is not None]
    all_dots = [dot for panel in panels for series in panel.series for dot in series.dots]
    return small_panels(
        panels,
        fitting("speed over torch's best", all_dots, WITHIN),
        title=f"mlp has {' and '.join(means)} of the speed of torch's best form (geometric means)",
        source="the median time of torch's fastest form, packed weights among them, over mlp's, all in CUDA "
        "graphs and in turns; "
        f"measured on {layers.results.device}, {layers.results.date[:10]}, commit "
        f"{layers.results.short_commit}; in grey: geometric mean (worst to best); whiskers: quartiles",
        size_name=TOKENS,
        columns=3,
        panel_height=150,
        header=62,
        theme=theme,
    )


def spoken(layers: LayerResults, theirs: str | None = None) -> str:
    """Such as "first choice 1.012 (0.981 to 1.093), tuned 1.031 (0.995 to 1.101)"."""
    found = {words: layers.summary(ours, theirs=theirs) for ours, words in OURS.items()}
    return ", ".join(f"{words} {total}" for words, total in found.items() if total is not None)


def _panel(layers: LayerResults, model: str, main: str) -> Panel:
    found = {ours: _found(layers.of(model), ours) for ours in OURS}
    sizes = sorted({tokens for one in found.values() for tokens in one})
    has_both = main == TUNED and bool(found[FIRST])
    panel = verdict_panel(model, found[main], sizes, WHEN[main], shift=-BESIDE if has_both else 0.0)
    hollow = [Series(OURS[FIRST], dots(found[FIRST], sizes, ""), "muted", "diamond-open", BESIDE)]
    facts = [Markup("{} {}").format(OURS[one], layers.summary(one, model)) for one in OURS if found[one]]
    return replace(panel, series=[*panel.series, *(hollow if has_both else [])], facts=BREAK.join(facts))


def _found(rows: list[LayerShapeRow], ours: str) -> Found:
    speeds = {row: row.speed(ours) for row in rows}
    return {row.tokens: (row.cases[ours], speed) for row, speed in speeds.items() if speed is not None}
