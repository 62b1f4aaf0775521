"""Scores of a measured list: errors of predicted gains, signs, and what the predicted best plan loses.

Example: a plan was predicted to gain 3.1 points over stream sync and gained 2.4: an error of 0.7. A gain is
the median of rounds paired in time, so that a clock that moves for both cancels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np

from wavesim.bench.registration import CasePrediction
from wavesim.bench.results import ResultRow
from wavesim.errors import RecordingError

COUNTS_POINTS = 1.0  # a smaller measured gain has no sign worth scoring
Key = tuple[str, str, str]


@dataclass(frozen=True)
class ListScores:
    """Errors in points and in percent of the baseline's time; shares are 0 to 1.

    `regret_points`: by how much the best measured plan of a case beats the plan that was predicted best.
    """

    gains: int
    median_abs_error_points: float
    p90_abs_error_points: float
    median_time_error_percent: float
    signs: int
    sign_agreement: float | None
    regret_points: float


@dataclass(frozen=True)
class ListSpeeds:
    """Of a way over the fastest of its rivals, case by case: above 1 it is faster."""

    cases: int
    geomean: float
    least: float
    most: float


def speeds_of(rows: Sequence[ResultRow], contests: Mapping[str, str]) -> dict[str, ListSpeeds]:
    """By the way, whose rivals' names begin as `contests` says. Failed and wrong rows are left out."""
    timed: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row.correct and row.ns:
            timed.setdefault((row.case, row.order), {})[row.way] = float(np.median(row.ns))
    result = {}
    for way, start in contests.items():
        ratios = [
            min(rivals) / times[way]
            for times in timed.values()
            if way in times and (rivals := [ns for name, ns in times.items() if name.startswith(start)])
        ]
        if ratios:
            figures = (geometric_mean(ratios), min(ratios), max(ratios))
            result[way] = ListSpeeds(len(ratios), *(round(figure, 3) for figure in figures))
    return result


def gains_of(rows: Sequence[ResultRow], baseline: str) -> dict[Key, float]:
    """Measured gains by (case, order, way). Rows that failed or were wrong are left out."""
    timed = {(row.case, row.order, row.way): row.ns for row in rows if row.correct and row.ns}
    gains = {}
    for (case, order, way), ns in timed.items():
        stream = timed.get((case, order, baseline))
        if way != baseline and stream is not None:
            gains[case, order, way] = paired_points(ns, stream)
    return gains


def paired_points(ns: Sequence[int], baseline_ns: Sequence[int]) -> float:
    """A gain in points: the median over rounds that ran side by side."""
    both = min(len(ns), len(baseline_ns))
    return float(np.median(100.0 * (1.0 - np.array(ns[:both]) / np.array(baseline_ns[:both]))))


def scores_of(
    predictions: Mapping[Key, CasePrediction], rows: Sequence[ResultRow], baseline: str = "stream"
) -> ListScores:
    """How good the predictions were. Raises `RecordingError` where no measured gain was predicted."""
    gains = {key: points for key, points in gains_of(rows, baseline).items() if key in predictions}
    if not gains:
        raise RecordingError("no plan was both predicted and measured; are these results of this list?")
    errors = np.abs([predictions[key].points - points for key, points in gains.items()])
    signs = [
        (predictions[key].points > 0) == (points > 0)
        for key, points in gains.items()
        if abs(points) >= COUNTS_POINTS
    ]
    return ListScores(
        len(gains),
        round(float(np.median(errors)), 3),
        round(float(np.percentile(errors, 90)), 3),
        round(_time_error(predictions, rows, baseline), 3),
        len(signs),
        round(float(np.mean(signs)), 3) if signs else None,
        round(_regret(predictions, gains), 3),
    )


def _time_error(predictions: Mapping[Key, CasePrediction], rows: Sequence[ResultRow], baseline: str) -> float:
    """The median error of the baseline's time, in percent; 0 where it was not predicted."""
    errors = [
        100.0 * abs(predictions[key].time_ns / float(np.median(row.ns)) - 1.0)
        for row in rows
        if row.ns and (key := (row.case, row.order, row.way)) in predictions and row.way == baseline
    ]
    return float(np.median(errors)) if errors else 0.0


def _regret(predictions: Mapping[Key, CasePrediction], gains: Mapping[Key, float]) -> float:
    """The mean over cases of the best measured gain less that of the predicted best; no plan gains 0."""
    lost = []
    for case in sorted({key[0] for key in gains}):
        keys = [key for key in gains if key[0] == case]
        pick = max(keys, key=lambda key: predictions[key].points)
        picked = gains[pick] if predictions[pick].points > 0 else 0.0
        lost.append(max(0.0, *(gains[key] for key in keys)) - picked)
    return float(np.mean(lost))
