"""Most SMs that can be closed with so many waiting blocks: a covering problem, exact where it is small.

Example: an SM is closed by two blocks of one kind, or by one of these and one of another; with 11 of
the first and 3 of the second seven SMs can be closed. Ways and limits are counts per kind.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

Counts = tuple[int, ...]
MAX_COMPARISONS = 100_000  # of partial sums, in the exact search
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
    # Mostly one kind alone says that there are no more, at once.
    if len(greedy) == _by_kind(ways, limits, sm_count):
        return Cover(greedy, len(greedy))
    at_most = upper_bound(ways, limits, sm_count)
    if at_most > len(greedy):
        exact = _exact(ways, limits, sm_count)
        if exact is not None:
            return Cover(exact, len(exact))
    return Cover(greedy, at_most)


def _greedy(ways: Sequence[Counts], limits: Counts, sm_count: int) -> list[Counts]:
    """Takes, again and again, the way that could be used most often, for half of that."""
    table, left, uses = np.array(ways), np.array(limits), list[Counts]()
    needed = np.maximum(table, 1)
    while len(uses) < sm_count:
        times = np.where(table > 0, left // needed, sm_count).min(axis=1)
        most = int(times.max())
        if not most:
            break
        number = max(np.flatnonzero(times == most).tolist(), key=ways.__getitem__)
        taken = min(max(1, most // 2), sm_count - len(uses))
        uses += [ways[number]] * taken
        left -= taken * table[number]
    return uses


def upper_bound(ways: Sequence[Counts], limits: Counts, sm_count: int) -> int:
    """A number of SMs that no choice of ways exceeds.

    Any prices of the kinds give a bound: all there is to spend over the cheapest way. Prices rise
    for what the cheapest ways use much of, as in a market; integers, so that the bound is exact.
    """
    table, counts = np.array(sorted(ways)), np.array(limits)
    scarce = np.maximum(counts, 0.5)
    prices = np.ones(len(limits), dtype=np.int64)
    spent = np.zeros(len(limits))
    best = sm_count
    for turn in range(1, ROUNDS + 1):
        costs = table @ prices
        number = int(costs.argmin())
        if costs[number]:
            best = min(best, int(prices @ counts) // int(costs[number]))
        spent += table[number] / scarce
        # Worth per block: what is used up fastest, and of which there is little, is dearest.
        worth = (spent / turn) ** 4 / scarce
        prices = np.rint(10_000 * worth / (worth.max() or 1)).astype(np.int64)
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
    for counts in sorted(sums):
        if not any(is_within(other, counts) for other in kept):
            kept.append(counts)
    return kept


def is_within(counts: Counts, other: Counts) -> bool:
    """Whether no count of one is larger than the other's."""
    return all(a <= b for a, b in zip(counts, other, strict=True))
