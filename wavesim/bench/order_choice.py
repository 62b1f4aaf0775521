"""What one tile order gains over another, predicted and measured: row-major against groups of tile rows.

Example: at 900 tokens row semaphores gain 2.0 points more in row-major order than in groups of four rows,
each over stream sync in its own; predicted are 0.5 less: the sign is wrong, and the size by 2.5 points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavesim.bench.blind_predictions import SOURCE
from wavesim.bench.blind_sizes import SEMAPHORES
from wavesim.bench.scored_case import ScoredPrediction

MOST_NOISE = 1.0  # points: half the distance of the quartiles, of either order
SIZE_POINTS = 2.0  # within which a difference is predicted right, and from which on its sign counts
SETS = ("hopper-1-block", "hopper-unequal")
FIRST = "row"  # which the others are held against
Pair = tuple[ScoredPrediction, ScoredPrediction]


@dataclass(frozen=True)
class OrderChoice:
    """Of one kernel, test split: shares of its cases within 2 points, and with the right sign of `signs`."""

    name: str
    cases: int
    within_share: float
    sign_agreement: float | None
    signs: int


def compared_orders(scored: Sequence[ScoredPrediction]) -> OrderChoice | None:
    """Of the Hopper kernel, a tile per block, where both orders repeat well; None if nothing was measured."""
    by_case: dict[tuple[str, str, str], dict[str, ScoredPrediction]] = {}
    for entry in scored:
        is_counted = entry.source == SOURCE and entry.split == "test" and not entry.outlier
        if is_counted and entry.set_name in SETS and entry.plan in SEMAPHORES:
            by_case.setdefault((entry.run, entry.group, entry.plan), {})[entry.case.rsplit(" ", 1)[1]] = entry
    pairs = [pair for orders in by_case.values() for pair in _pairs(orders)]
    if not pairs:
        return None
    differences = [(a.predicted - b.predicted, a.measured.median - b.measured.median) for a, b in pairs]
    within = sum(abs(ours - theirs) <= SIZE_POINTS for ours, theirs in differences)
    large = [ours * theirs > 0 for ours, theirs in differences if abs(theirs) >= SIZE_POINTS]
    agreement = round(sum(large) / len(large), 3) if large else None
    return OrderChoice("hopper-orders", len(pairs), round(within / len(pairs), 3), agreement, len(large))


def _pairs(orders: Mapping[str, ScoredPrediction]) -> list[Pair]:
    """Row-major with each other order that was measured in turns with it, where both repeat well."""
    if FIRST not in orders:
        return []
    pairs = [(orders[FIRST], other) for name, other in orders.items() if name != FIRST]
    return [pair for pair in pairs if max(map(_noise, pair)) < MOST_NOISE]


def _noise(scored_prediction: ScoredPrediction) -> float:
    return (scored_prediction.measured.high - scored_prediction.measured.low) / 2
