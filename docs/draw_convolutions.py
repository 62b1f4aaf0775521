"""Draws what was predicted of convolutions beside what was measured: the fourth blind run."""

import numpy as np
import plotly.graph_objects as go
from draw_model import scatter

from wavesim.evaluation.conv_blind_scores import FOURTH, gains_of
from wavesim.evaluation.layer_blind_cases import SHORT_FIRST
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.plan.parsing import parse_plan

STAYING = "persistent kernels"


def blind_figure(theme: str) -> go.Figure:
    """Every gain of the fourth run: predicted before against measured, in percent of stream sync's time."""
    run = LayerBlindRun(FOURTH)
    predicted = run.predictions("costs")
    points: dict[str, list[tuple[float, float]]] = {"dependent launch": [], "semaphores": [], STAYING: []}
    for case in run.rounds:
        for plan, measured in gains_of(run, case).items():
            said = predicted[case, SHORT_FIRST, plan].points
            points[_kind(plan)].append((said, measured))
    errors = [abs(said - measured) for found in points.values() for said, measured in found]
    words = f"Half of {len(errors)} gains were predicted within {np.median(errors):.1f} points"
    source = (
        f"pairs, chains and blocks of ResNets, predicted before the run; 90 % within "
        f"{np.percentile(errors, 90):.1f}; one H200, 2026-11-23"
    )
    series = {name: (np.array(found)[:, 0], np.array(found)[:, 1]) for name, found in points.items()}
    return scatter(series, words, source, ("predicted gain (%)", "measured (%)"), 1.0, theme, diagonal=True)


def _kind(plan: str) -> str:
    if plan.startswith("persistent"):
        return STAYING
    return "semaphores" if parse_plan(plan).sync.has_semaphores else "dependent launch"
