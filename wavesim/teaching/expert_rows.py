"""Notebook 25: unequal experts, what they cost, and predicted beside measured layers on an H200.

Example: of 256 tokens' 2,048 rows the busiest of 128 experts has 28 where all are alike, 215 by Zipf's law.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from wavesim.safe_io.annotated import typed
from wavesim.teaching.exercises import require
from wavesim.teaching.measured_layers import ExpertsLayer, experts_layers, measured_on
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.line_figure import lines_figure
from wavesim.view.stacked_bars import StackedBar, bars_of_parts
from wavesim.widgets.explorer import require_offered
from wavesim.work.grouped.routing import Routing
from wavesim.workloads.moe import MOE_MODELS

LAWS = {0.0: "alike", 1.0: "Zipf"}
COUNTS, TILE_ROWS = (130, 64, 1, 0), 64
UNITS, SMS = (1, 1, 2, 2, 4), 2
COLUMNS, H200_SMS = 112, 132  # gate-up tile columns of Mixtral
BLOCKS = (8, 9)  # of rows, alike and Zipf


@typed
def busiest(skew: float) -> int:
    """Rows of the busiest of 128 experts, of 256 tokens with 8 each."""
    return max(Routing(256, 128, 8, skew).expert_rows)


@typed
def rows_of_experts(theme: str = "light") -> go.Figure:
    """Experts by their rows, drawn by both laws."""
    lines = {
        law: list(enumerate(sorted(Routing(256, 128, 8, skew).expert_rows, reverse=True), start=1))
        for skew, law in LAWS.items()
    }
    return lines_figure(
        lines,
        title=f"The busiest expert has {busiest(1.0)} rows by Zipf's law, {busiest(0.0)} where all are alike",
        source="256 tokens, 8 of 128 experts each, drawn once",
        x_title="experts, the busiest first",
        y_title="rows",
        hover=", expert %{x}: %{y} rows",
        theme=theme,
    )


@typed
def layer_of(model: str, tokens: int, skew: float) -> ExpertsLayer:
    """As measured. Raises `DescriptionError`."""
    known = {layer[:3]: layer for layer in experts_layers()}
    require_offered("layer", (model, tokens, skew), list(known))
    return known[model, tokens, skew]


@typed
def imbalance(theme: str = "light") -> go.Figure:
    """Layers of few tokens and of many, alike and by Zipf's law, measured."""
    bars = [
        StackedBar(f"{name} {tokens}, {law}", (layer.roof_us, max(0.0, layer.best_us - layer.roof_us)))
        for name, model, tokens in (("Qwen3", "qwen3-30b-a3b", 16), ("Mixtral", "mixtral-8x7b", 256))
        for skew, law in LAWS.items()
        for layer in [layer_of(model, tokens, skew)]
    ]
    return bars_of_parts(
        bars,
        ("one read of the weights that are touched", "beyond it"),
        title="Skew saves reads with 16 tokens and costs time with 256",
        source=f"a layer with semaphores, measured on {measured_on()}",
        x_title="µs",
        theme=theme,
    )


def gains() -> list[Gain]:
    """Of both plans with semaphores, predicted beforehand and measured."""
    return [gain for layer in experts_layers() for gain in layer.gains]


def right_signs() -> float:
    """Percent of the gains of which the prediction had the sign."""
    return _percent(list(map(_has_sign, gains())))


@typed
def predicted_beside_measured(model: str, skew: float = 1.0, theme: str = "light") -> go.Figure:
    """Gains over the same kernels one after the other, by tokens. Raises `DescriptionError`."""
    require_offered("model", model, list(MOE_MODELS))
    require_offered("skew", skew, list(LAWS))
    layers = [layer for layer in experts_layers() if (layer.model, layer.skew) == (model, skew)]
    shown = [gain for layer in layers for gain in layer.gains]
    return gain_overview(
        shown,
        title=f"{sum(map(_has_sign, shown))} of {len(shown)} gains were predicted with the right sign",
        source=f"{model}, {LAWS[skew]}; predictions registered, then measured on {measured_on()}",
        theme=theme,
    )


def _has_sign(gain: Gain) -> bool:
    return (gain.predicted > 0) == (_measured(gain) > 0)


def _measured(gain: Gain) -> float:
    assert gain.measured is not None, "all layers of the table were measured"
    return gain.measured


def _percent(truths: Sequence[bool]) -> float:
    return 100 * sum(truths) / len(truths)


def _blocks() -> dict[str, int]:
    """Blocks of rows of four experts, and how many experts' weights are read."""
    return {"blocks": sum(-(-rows // TILE_ROWS) for rows in COUNTS), "touched": sum(map(bool, COUNTS))}


def _waves() -> dict[str, float]:
    """Waves of Mixtral's gate-up tiles on an H200, and what Zipf's law cost there, measured."""
    alike, zipf = (-(-COLUMNS * blocks // H200_SMS) for blocks in BLOCKS)
    measured = [layer_of("mixtral-8x7b", 256, skew).best_us for skew in LAWS]
    return {"alike": alike, "zipf": zipf, "percent": 100 * (measured[1] / measured[0] - 1)}


def _ends() -> dict[str, int]:
    """When two SMs have done all, in the order given and the longest first."""
    return {"given_order": _end(UNITS), "longest": _end(sorted(UNITS, reverse=True))}


def _end(units: Sequence[int]) -> int:
    """Whichever SM is free takes the next tile."""
    free = [0] * SMS
    for unit in units:
        free[free.index(min(free))] += unit
    return max(free)


def _needs() -> dict[str, int]:
    """Gate-up tiles that a down tile of Qwen3 needs; down tiles that the sum needs."""
    return {"down": 1536 // 128, "blocks": 128, "sum": 2048 // 128 * 128}


def _always(answer: float) -> dict[str, float]:
    """Percent of the signs that are right where every plan is said to gain."""
    require(answer <= 100, f"{answer:g} is more than all; a percentage, please.")
    return {"share": _percent([_measured(gain) > 0 for gain in gains()]), "simulator": right_signs()}


GRADERS = {"25.1": _blocks, "25.2": _waves, "25.3": _ends, "25.4": _needs, "25.5": _always}
