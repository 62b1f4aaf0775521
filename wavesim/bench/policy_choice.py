"""Which policy a prediction would have chosen, and what the choice costs.

Example: row semaphores are predicted to gain 19.4 points and tile semaphores 15.0; measured are 19.0 and
15.3: the order is right and the regret 0. The other way round the regret would have been 3.7 points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wavesim.bench.scored_case import ScoredPrediction

DIFFERENCE_THAT_COUNTS = 2.0  # points between two measured policies, below which their order is not scored


@dataclass(frozen=True)
class PolicyChoice:
    """Of one set: share of policy orders that are right (None if no two policies differ), mean regret.

    Of the `orders` that count, `predicted_equal` are of policies with the same prediction: not right.
    Where the best predictions are equal, the regret is that of the policy listed first.
    """

    name: str
    cases: int
    order_agreement: float | None
    mean_regret_points: float
    orders: int
    predicted_equal: int


def policy_choices(scored: Sequence[ScoredPrediction]) -> list[PolicyChoice]:
    """For every source with cases measured under several policies; test split, outliers left out."""
    sources = dict.fromkeys(p.source for p in scored)
    choices = [_choice(source, [p for p in scored if p.source == source]) for source in sources]
    return [choice for choice in choices if choice is not None]


def _choice(source: str, scored: Sequence[ScoredPrediction]) -> PolicyChoice | None:
    by_case: dict[str, list[ScoredPrediction]] = {}
    for entry in scored:
        if entry.split == "test" and not entry.outlier:
            by_case.setdefault(entry.case, []).append(entry)
    several = [members for members in by_case.values() if len({p.plan for p in members}) > 1]
    if not several:
        return None
    orders = [order for members in several for order in _orders(members)]
    regret = sum(_regret(members) for members in several) / len(several)
    right = sum((a.predicted - b.predicted) * (a.measured.median - b.measured.median) > 0 for a, b in orders)
    return PolicyChoice(
        source,
        len(several),
        round(right / len(orders), 3) if orders else None,
        round(regret, 3),
        len(orders),
        sum(a.predicted == b.predicted for a, b in orders),
    )


def _orders(members: Sequence[ScoredPrediction]) -> list[tuple[ScoredPrediction, ScoredPrediction]]:
    """Each two policies that were measured far enough apart."""
    pairs = [(a, b) for i, a in enumerate(members) for b in members[i + 1 :] if a.plan != b.plan]
    return [(a, b) for a, b in pairs if abs(a.measured.median - b.measured.median) >= DIFFERENCE_THAT_COUNTS]


def _regret(members: Sequence[ScoredPrediction]) -> float:
    chosen = max(members, key=lambda p: p.predicted)
    return max(p.measured.median for p in members) - chosen.measured.median
