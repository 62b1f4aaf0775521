"""What it costs to run the plan that was predicted best, over all plans of a size in both tile orders.

Picture: ten plans of a size are listed and predicted before any of them runs; the one predicted fastest then
takes 1 % longer than the fastest measured: the regret is about a point of the stream-sync time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wavesim.analysis.halves import Half, half_of
from wavesim.io.judged_runs import Comparison, JudgedRun, pooled
from wavesim.workloads.judged_sizes import BASELINE, JudgedSize

Choice = tuple[str, str]  # order, plan


@dataclass(frozen=True)
class SizeRegret:
    """One size: (order, plan) predicted fastest before and measured fastest; points of stream sync's time."""

    size: str
    chosen: Choice
    best: Choice
    plans: int
    points: float


def size_regrets(run: JudgedRun, half: Half = "test") -> list[SizeRegret]:
    """The sizes of one half, worst first; stream sync is one of the plans, in each order."""
    found = [_regret(run, size) for size in run.sizes() if half_of(size.name) == half]
    return sorted(found, key=lambda one: -one.points)


def _regret(run: JudgedRun, size: JudgedSize) -> SizeRegret:
    repeats = run.comparisons[size.name]
    measured = {choice: _median_ns(repeats, *choice) for choice in repeats[0].rounds}
    predicted = {choice: time for choice in measured if (time := _predicted_ns(run, size, *choice))}
    chosen, best = min(predicted, key=predicted.__getitem__), min(measured, key=measured.__getitem__)
    points = 100.0 * (measured[chosen] - measured[best]) / measured[size.orders[0], BASELINE]
    return SizeRegret(size.name, chosen, best, len(measured), round(points, 3))


def _predicted_ns(run: JudgedRun, size: JudgedSize, order: str, word: str) -> float:
    """What was predicted before; 0 for a plan that was not."""
    if word == BASELINE:
        return float(run.stream(size, order).time_ns)
    found = run.predictions.get((size.name, order, word))
    if found is None or found.error:
        return 0.0
    return found.stream_ns * (1.0 - found.improvement_points / 100.0)


def _median_ns(repeats: Sequence[Comparison], order: str, word: str) -> float:
    there = [one for one in repeats if (order, word) in one.rounds]
    return float(np.median(pooled(there, order, word).ns))


def regret_words(run: JudgedRun) -> str:
    """One line of the test half; "" if it has no sizes."""
    found = size_regrets(run)
    if not found:
        return ""
    worst = found[0]
    return (
        f"plan predicted fastest before, of {min(one.plans for one in found)} to "
        f"{max(one.plans for one in found)} all measured, test half: mean regret "
        f"{np.mean([one.points for one in found]):.2f} points over {len(found)} sizes, worst "
        f"{worst.points:.2f} ({worst.size}: {' '.join(worst.chosen)} instead of {' '.join(worst.best)})"
    )
