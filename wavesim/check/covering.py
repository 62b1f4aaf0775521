"""Most SMs that can be closed with so many waiting blocks: a covering problem, exact where it is small.

Example: an SM is closed by two blocks of one kind, or by one of these and one of another; with 11 of
the first and 3 of the second seven SMs can be closed. Ways and limits are counts per kind.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Counts = tuple[int, ...]
MAX_COMPARISONS = 400_000  # of partial sums, in the exact search
ROUNDS = 300  # in which prices of the kinds are adjusted


class Cover(NamedTuple):
    """Ways that were found to go together, one per closed SM, and how many there can be at most."""

    uses: list[Counts]
    at_most: int


def largest_cover(ways: Sequence[Counts], limits: Counts, sm_count: int) -> Cover:
    """How many SMs can be closed, each in one of the ways, without using more than the limits."""
    if not ways:
        return Cover([], 0)
    greedy = _greedy(ways, limits, sm_count)
    if len(greedy) == sm_count:
        return Cover(greedy, sm_count)
    at_most = upper_bound(ways, limits, sm_count)
    if at_most > len(greedy):
        exact = _exact(ways, limits, sm_count)
        if exact is not None:
            return Cover(exact, len(exact))
    return Cover(greedy, at_most)


def _greedy(ways: Sequence[Counts], limits: Counts, sm_count: int) -> list[Counts]:
    """Takes, again and again, the way that could be used most often, for half of that."""
    left, uses = list(limits), list[Counts]()
    while len(uses) < sm_count:
        times, way = max((_times(way, left), way) for way in ways)
        if not times:
            break
        taken = min(max(1, times // 2), sm_count - len(uses))
        uses += [way] * taken
        left = [n - taken * count for n, count in zip(left, way, strict=True)]
    return uses


def _times(way: Counts, left: Sequence[int]) -> int:
    return min(n // count for n, count in zip(left, way, strict=True) if count)


def upper_bound(ways: Sequence[Counts], limits: Counts, sm_count: int) -> int:
    """A number of SMs that no choice of ways exceeds.

    Any prices of the kinds give a bound: all there is to spend over the cheapest way. Prices rise
    for what the cheapest ways use much of, as in a market; integers, so that the bound is exact.
    """
    prices = [1] * len(limits)
    spent = [0.0] * len(limits)
    best = sm_count
    for turn in range(1, ROUNDS + 1):
        cost, way = min((sum(p * c for p, c in zip(prices, way, strict=True)), way) for way in ways)
        if cost:
            best = min(best, sum(p * n for p, n in zip(prices, limits, strict=True)) // cost)
        spent = [s + c / max(n, 0.5) for s, c, n in zip(spent, way, limits, strict=True)]
        # Worth per block: what is used up fastest, and of which there is little, is dearest.
        worth = [(s / turn) ** 4 / max(n, 0.5) for s, n in zip(spent, limits, strict=True)]
        prices = [round(10_000 * value / (max(worth) or 1)) for value in worth]
    return min(best, _by_kind(ways, limits, sm_count))


def _by_kind(ways: Sequence[Counts], limits: Counts, sm_count: int) -> int:
    """The bound from each kind alone: only so many SMs if every way needs some of it."""
    bounds = [n // least for k, n in enumerate(limits) if (least := min(way[k] for way in ways))]
    return min([sm_count, *bounds])


def _exact(ways: Sequence[Counts], limits: Counts, sm_count: int) -> list[Counts] | None:
    """A longest list of ways; None if that takes too long.

    Goes SM by SM and keeps, of all blocks used so far, the sums that no other sum is within.
    """
    front: dict[Counts, list[Counts]] = {(0,) * len(limits): []}
    comparisons = 0
    for _ in range(sm_count):
        grown: dict[Counts, list[Counts]] = {}
        for used, uses in front.items():
            for way in ways:
                total = tuple(a + b for a, b in zip(used, way, strict=True))
                if is_within(total, limits):
                    grown.setdefault(total, [*uses, way])
        if not grown:
            break
        comparisons += len(grown) * len(front)
        if comparisons > MAX_COMPARISONS:
            return None
        front = _chosen(grown, smallest(grown))
    return next(iter(front.values()))


def _chosen(sums: Mapping[Counts, list[Counts]], kept: Iterable[Counts]) -> dict[Counts, list[Counts]]:
    return {total: sums[total] for total in kept}


def smallest(sums: Iterable[Counts]) -> list[Counts]:
    """Those that no other is within."""
    kept: list[Counts] = []
    for one in sorted(sums):
        if not any(is_within(other, one) for other in kept):
            kept.append(one)
    return kept


def is_within(one: Counts, other: Counts) -> bool:
    """Whether no count of one is larger than the other's."""
    return all(a <= b for a, b in zip(one, other, strict=True))
