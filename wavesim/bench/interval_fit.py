"""The widths of the 80 % intervals, learnt on the development split; and how they hold where they were not.

Example: 14 sizes of one kind were off by 0.1 to 0.6 spreads; 8 in 10 by no more than 0.5. Kinds of few sizes
are drawn towards the others, and where constants were fitted to these very cases the width is larger. A
device or a family of kernels is left out in turn: the widths of what remains then hold for it, or do not.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import exp, log, sqrt

import numpy as np

from wavesim.bench.scored_case import NO_CONSTANTS, ScoredPrediction
from wavesim.predict.intervals import INTERVALS, LEVEL, UNSCORED_POINTS, KindScore, Widths, committed_widths
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.writing import write_text

FEWEST_GROUPS = 4  # of a kind; fewer say nothing of the worst fifth
PRIOR_GROUPS = 2  # sizes that all other kinds together weigh: least interval score on the development split

# Spreads, about what a repeated measurement differs by: scenarios may span all that was measured.
LEAST = 0.5

FITTED_CONSTANTS = FOLDER / "fitted_constants.json"
Ratios = list[list[float]]  # of each size the errors over spread of its cases


@dataclass(frozen=True)
class LeftOut:
    """How predictions of a device or a family of kernels did, with intervals learnt from all others.

    Errors in points of the test split; those of the model, whose constants may have been fitted to the rest
    of the family. `coverage`: the share inside the intervals of what had never been scored, or elsewhere.
    """

    what: str
    cases: int
    median_abs_error_points: float
    p90_abs_error_points: float
    coverage: float
    median_half_width_points: float


@cache
def fitted_constants() -> dict[str, int]:
    """How many constants of each kind's predictions were chosen by the errors of its development split."""
    result = json.loads(FITTED_CONSTANTS.read_text())["kinds"]
    return {kind: len(constants) for kind, constants in result.items()}


def widths_of(scored: Sequence[ScoredPrediction]) -> Widths:
    """The widths that the development split teaches, cases named as outliers included.

    Orders and plans of one size err alike, so each of n sizes weighs the same, whatever its number of cases:
    the least error over spread that a share of LEVEL x (n + 1) / n of that weight does not exceed (conformal
    prediction with hierarchical data, Lee, Barber and Willett 2023). Its logarithm is drawn towards the mean
    of the other kinds on the same basis, which weigh as much as `PRIOR_GROUPS` sizes. That holds for errors
    of cases that nothing was fitted to, so that it is times `unseen_over_seen`. Kinds of fewer than
    `FEWEST_GROUPS` sizes have none.

    A kind on another device, and one never scored, is one more draw from the distribution of families of
    kernels: each family weighs the same in it, and in a family each size (the same conformal prediction, a
    level higher). So 8 in 10 measurements of a new family lie inside on average over families; of the one
    family at hand fewer or more, as `left_out` counts.
    """
    kinds = {kind: ratios for kind, ratios in _ratios(scored).items() if _is_enough(ratios)}
    quantiles = {kind: grouped_quantile(ratios) for kind, ratios in kinds.items()}
    widths = {
        kind: _drawn(quantiles, kind, len(ratios)) * unseen_over_seen(kind, len(ratios))
        for kind, ratios in kinds.items()
    }
    families = [ratios for ratios in _family_ratios(scored) if _is_enough(ratios)]
    unseen = family_quantile(families) if families else UNSCORED_POINTS
    return Widths(
        {kind: _score(scored, kind, width) for kind, width in sorted(widths.items())}, round(unseen, 2)
    )


def left_out(scored: Sequence[ScoredPrediction]) -> list[LeftOut]:
    """Each device and each family of kernels, predicted with the widths of all others; test split."""
    return [
        out
        for what in ("device", "family")
        for name in sorted({getattr(p, what) for p in scored})
        if (out := _left_out(scored, what, name)) is not None
    ]


def _left_out(scored: Sequence[ScoredPrediction], what: str, name: str) -> LeftOut | None:
    scored = [p for p in scored if not p.kind.endswith(NO_CONSTANTS)]
    rest = [p for p in scored if getattr(p, what) != name]
    members = [
        p for p in scored if getattr(p, what) == name and p.split == "test" and not p.is_told_elsewhere
    ]
    if not rest or not members:
        return None
    widths = widths_of(rest)
    halves = [_half_left_out(widths, p, is_family=what == "family") for p in members]
    inside = sum(p.outside <= half for p, half in zip(members, halves, strict=True))
    errors = [abs(p.error) for p in members if not p.outlier] or [abs(p.error) for p in members]
    return LeftOut(
        f"{what}: {name}",
        len(members),
        round(float(np.median(errors)), 3),
        round(float(np.percentile(errors, 90)), 3),
        round(inside / len(members), 3),
        round(float(np.median(halves)), 3),
    )


def _half_left_out(widths: Widths, scored_prediction: ScoredPrediction, *, is_family: bool) -> float:
    """A family left out is one never scored, whatever other kernels share its kind."""
    return (
        widths.unseen * scored_prediction.spread
        if is_family
        else widths.half_width(scored_prediction.kind, scored_prediction.spread, scored_prediction.device)
    )


def unseen_over_seen(kind: str, sizes: int) -> float:
    """How much larger the errors of new sizes are than those of the `sizes` that constants were fitted to.

    Where least squares fit p constants to n values, the mean square of new errors is (n + p) / (n - p) times
    that of the residuals (final prediction error, Akaike 1969). No more than half as many as sizes count.
    """
    constants = min(fitted_constants().get(kind, 0), sizes / 2)
    return sqrt((sizes + constants) / (sizes - constants))


def _ratios(scored: Sequence[ScoredPrediction]) -> dict[str, Ratios]:
    """Distances over spread of the development split by kind, size by size."""
    sizes: dict[str, dict[str, list[float]]] = {}
    for entry in scored:
        if entry.split == "development" and not entry.is_told_elsewhere:
            sizes.setdefault(entry.kind, {}).setdefault(entry.group, []).append(entry.outside / entry.spread)
    return {name: list(groups.values()) for name, groups in sizes.items()}


def _family_ratios(scored: Sequence[ScoredPrediction]) -> list[Ratios]:
    """The same of each family of kernels on each device, whatever was known, as new sizes would be off."""
    families: dict[tuple[str, str], list[ScoredPrediction]] = {}
    for entry in scored:
        if not entry.kind.endswith(NO_CONSTANTS):
            families.setdefault((entry.family, entry.device), []).append(entry)
    return [
        [
            [ratio * unseen_over_seen(kind, len(ratios)) for ratio in size]
            for kind, ratios in _ratios(members).items()
            for size in ratios
        ]
        for members in families.values()
    ]


def _is_enough(ratios: Ratios) -> bool:
    return len(ratios) >= FEWEST_GROUPS


def _drawn(quantiles: Mapping[str, float], kind: str, sizes: int) -> float:
    """A kind's quantile, its logarithm drawn towards the mean of the others that rest on the same basis."""
    basis = kind.split(",", maxsplit=1)[0]
    others = [
        log(value)
        for name, value in quantiles.items()
        if name != kind and name.split(",")[0] == basis and not name.endswith(NO_CONSTANTS)
    ]
    if not others:
        return quantiles[kind]
    own = sizes * log(quantiles[kind])
    return exp((own + PRIOR_GROUPS * float(np.mean(others))) / (sizes + PRIOR_GROUPS))


def grouped_quantile(groups: Ratios) -> float:
    """The least ratio that a share of LEVEL x (n + 1) / n of n groups of equal weight does not exceed."""
    return _reached([(error, 1.0 / len(errors)) for errors in groups for error in errors], len(groups))


def family_quantile(families: Sequence[Ratios]) -> float:
    """The same of families of groups, which weigh the same, and in each of them its groups."""
    weighed = [
        (error, 1.0 / len(groups) / len(errors))
        for groups in families
        for errors in groups
        for error in errors
    ]
    return _reached(weighed, len(families))


def _reached(weighed: Sequence[tuple[float, float]], count: int) -> float:
    """The least of (ratio, weight) up to which weights sum to LEVEL x (count + 1); the largest if none is."""
    enough, total = LEVEL * (count + 1), 0.0
    for error, weight in sorted(weighed):
        total += weight
        if total >= enough - 1e-9:
            return max(error, LEAST)
    return max(*(error for error, _ in weighed), LEAST)


def _score(scored: Sequence[ScoredPrediction], kind: str, width: float) -> KindScore:
    """A kind's width beside how far its predictions of the test split were off, and where."""
    members = [entry for entry in scored if entry.kind == kind]
    errors = [abs(member.error) for member in members if member.split == "test" and not member.outlier]
    median, p90 = (round(float(np.percentile(errors or [0.0], share)), 2) for share in (50, 90))
    sizes = {(member.device, member.group) for member in members if member.split == "development"}
    counts = Counter(device for device, _ in sizes)
    devices = tuple(sorted(device for device, count in counts.items() if count >= FEWEST_GROUPS))
    return KindScore(round(width, 2), devices, len(errors), median, p90)


def write_widths(widths: Widths) -> None:
    """Stores them beside the scores, to be committed with them."""
    document = {
        "level": LEVEL,
        "unseen": widths.unseen,
        "kinds": {kind: asdict(entry) for kind, entry in widths.kinds.items()},
    }
    write_text(INTERVALS, json.dumps(document, indent=1) + "\n")
    committed_widths.cache_clear()
