"""What it costs to run the plan that was predicted best, over all plans of a size in both tile orders.

Example: ten plans of a size are listed and predicted before any of them runs; the one predicted fastest then
takes 1 % longer than the fastest measured: the regret is about a point of the stream-sync time. The same is
asked of what the model says now, which was changed since in view of the development split.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wavesim.bench.blind_predictions import SOURCE
from wavesim.bench.blind_runs import BlindRun, MeasuredComparison, pooled
from wavesim.bench.blind_sizes import BASELINE, BlindSize
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.recordings.split import Split, split_of

Choice = tuple[str, str]  # order, plan
Points = Mapping[tuple[str, str], float]  # predicted improvement by case, which is size and order, and plan


@dataclass(frozen=True)
class SizeRegret:
    """One size: (order, plan) predicted fastest and measured fastest; points of stream sync's time."""

    size: str
    chosen: Choice
    best: Choice
    plans: int
    points: float


def size_regrets(
    run: BlindRun, split: Split = "test", now: Sequence[ScoredPrediction] | None = None
) -> list[SizeRegret]:
    """The sizes of one split, worst first; stream sync is one of the plans, in each order.

    Chosen by what was predicted before the run, or by the predictions of `now`.
    """
    of_run = [p for p in now or () if p.run == run.name and p.source == SOURCE]
    points = _before(run) if now is None else {(p.case, p.plan): p.predicted for p in of_run}
    regrets = [_regret(run, size, points) for size in run.sizes() if split_of(size.name) == split]
    return sorted(regrets, key=lambda regret: -regret.points)


def _before(run: BlindRun) -> Points:
    return {
        (f"{prediction.size} {prediction.order}", prediction.plan): prediction.improvement_points
        for prediction in run.predictions.values()
        if not prediction.error
    }


def _regret(run: BlindRun, size: BlindSize, predicted_points: Points) -> SizeRegret:
    repeats = run.comparisons[size.name]
    measured = {choice: _median_ns(repeats, *choice) for choice in repeats[0].rounds}
    predicted = {}
    for order, word in measured:
        points = 0.0 if word == BASELINE else predicted_points.get((f"{size.name} {order}", word))
        if points is not None:
            predicted[order, word] = run.stream(size, order).time_ns * (1.0 - points / 100.0)
    chosen, best = min(predicted, key=predicted.__getitem__), min(measured, key=measured.__getitem__)
    points = 100.0 * (measured[chosen] - measured[best]) / measured[size.orders[0], BASELINE]
    return SizeRegret(size.name, chosen, best, len(measured), round(points, 3))


def _median_ns(repeats: Sequence[MeasuredComparison], order: str, word: str) -> float:
    there = [repeat for repeat in repeats if (order, word) in repeat.rounds]
    return float(np.median(pooled(there, order, word).ns))


def regret_text(run: BlindRun, now: Sequence[ScoredPrediction] | None = None) -> str:
    """One line of the test split, before or by the predictions of `now`; "" if it has no sizes."""
    regrets = size_regrets(run, now=now)
    if not regrets:
        return ""
    worst = regrets[0]
    chosen = "fastest before" if now is None else "fastest now, after the model was changed"
    return (
        f"plan predicted {chosen}, of {min(regret.plans for regret in regrets)} to "
        f"{max(regret.plans for regret in regrets)} all measured, test split: mean regret "
        f"{np.mean([regret.points for regret in regrets]):.2f} points over {len(regrets)} sizes, worst "
        f"{worst.points:.2f} ({worst.size}: {' '.join(worst.chosen)} instead of {' '.join(worst.best)})"
    )
