"""The half-widths of the 80 % intervals: how far predictions of each kind were off on the development split.

Example: of 10 sizes with errors of 0 to 9 spreads, 9 do not exceed 8, and the half-width is 8 spreads; more
where constants were fitted to these very cases. `recordings/intervals.json` holds the result.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from math import sqrt

import numpy as np

from wavesim.evaluation.scored_case import ScoredPrediction
from wavesim.guard.writing import write_text
from wavesim.predict.intervals import INTERVALS, KindScore, committed_kinds
from wavesim.recordings.shipped import FOLDER

LEVEL = 0.8
FEWEST_GROUPS = 4  # of a kind; fewer say nothing of the worst fifth

FITTED_CONSTANTS = FOLDER / "fitted_constants.json"


@cache
def fitted_constants() -> dict[str, int]:
    """How many constants of each kind's predictions were chosen by the errors of its development split."""
    found = json.loads(FITTED_CONSTANTS.read_text())["kinds"]
    return {kind: len(constants) for kind, constants in found.items()}


def half_widths(found: Sequence[ScoredPrediction]) -> dict[str, float]:
    """Half of the 80 % interval of each kind, over the spread of a case, from the development split.

    Orders and plans of one size err alike, so each of n sizes weighs the same, whatever its number of cases:
    the least error over spread that a share of LEVEL x (n + 1) / n of that weight does not exceed (conformal
    prediction with hierarchical data, Lee, Barber and Willett 2023). That holds for errors of cases that
    nothing was fitted to, so that it is times `unseen_over_seen`. Kinds of fewer than `FEWEST_GROUPS` sizes
    have none.
    """
    kinds: dict[str, dict[str, list[float]]] = {}
    for one in found:
        if one.split == "development" and not one.outlier:
            kinds.setdefault(one.kind, {}).setdefault(one.group, []).append(abs(one.error) / one.spread)
    return {
        kind: round(_quantile(list(groups.values())) * unseen_over_seen(kind, len(groups)), 2)
        for kind, groups in sorted(kinds.items())
        if len(groups) >= FEWEST_GROUPS
    }


def unseen_over_seen(kind: str, sizes: int) -> float:
    """How much larger the errors of new sizes are than those of the `sizes` that constants were fitted to.

    Where least squares fit p constants to n values, the mean square of new errors is (n + p) / (n - p) times
    that of the residuals (final prediction error, Akaike 1969). No more than half as many as sizes count.
    """
    constants = min(fitted_constants().get(kind, 0), sizes / 2)
    return sqrt((sizes + constants) / (sizes - constants))


def _quantile(groups: Sequence[Sequence[float]]) -> float:
    weighed = sorted((error, 1.0 / len(errors)) for errors in groups for error in errors)
    enough = LEVEL * (len(groups) + 1)
    total = 0.0
    for error, weight in weighed:
        total += weight
        if total >= enough - 1e-9:
            return error
    return weighed[-1][0]


def kind_scores(found: Sequence[ScoredPrediction]) -> dict[str, KindScore]:
    """The half-width of each kind, and how far its predictions of the test split were off, and where."""
    scores = {}
    for kind, width in half_widths(found).items():
        members = [one for one in found if one.kind == kind and not one.outlier]
        errors = [abs(one.error) for one in members if one.split == "test"] or [0.0]
        devices = tuple(sorted({one.device for one in members}))
        median, p90 = (round(float(np.percentile(errors, share)), 2) for share in (50, 90))
        scores[kind] = KindScore(width, devices, len(errors), median, p90)
    return scores


def write_kinds(found: dict[str, KindScore]) -> None:
    """Stores them beside the scores, to be committed with them."""
    document = {"level": LEVEL, "kinds": {kind: asdict(one) for kind, one in found.items()}}
    write_text(INTERVALS, json.dumps(document, indent=1) + "\n")
    committed_kinds.cache_clear()
