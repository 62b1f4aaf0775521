"""The dispatch table: one way from each M to the next, changed only where that pays.

Example: gains at three sizes are 3.0 for row and 3.2 for tile, 3.1 and 3.0, 2.9 and 3.1. A table that took
the best each time would change twice for 0.3 points in all; with a margin of half a point it stays with tile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from wavesim.predict.forecast import Forecast
from wavesim.tuning.crossover.gains import ComparedPlan

MARGIN_POINTS = 0.5  # that a change of ways must win, in all sizes until the next change together
LESS = 1e-6  # points: what is recommended comes before what seems as good
LEAVE_POINTS = 0.5  # less is not worth leaving stream sync: a second kernel to build, test and ship


class Sized(Protocol):
    """Gains of ways from one M to another."""

    @property
    def m_from(self) -> int:
        """The first."""

    @property
    def m_to(self) -> int:
        """The last."""

    @property
    def gains(self) -> Mapping[ComparedPlan, Forecast]:
        """At every M between them."""

    @property
    def best(self) -> ComparedPlan:
        """The way that is recommended there."""

    @property
    def asked(self) -> ComparedPlan | None:
        """The same where the table must have it."""


@dataclass(frozen=True)
class TableRow:
    """From `m_from` to `m_to`, both included, run `way`: its mean gain over the sizes there, in points.

    `low` to `high` covers the 80 % intervals of all of them.
    """

    m_from: int
    m_to: int
    way: ComparedPlan
    gain_points: float
    low: float
    high: float
    scored: bool


def table_of(
    sizes: Sequence[Sized], m_from: int, m_to: int, margin_points: float = MARGIN_POINTS
) -> tuple[TableRow, ...]:
    """The rows that lose least to the best way of each size, a change of ways counted as losing the margin.

    Between two sizes that were not simulated next to each other a row begins at the later one.
    """
    chosen = _path(sizes, margin_points)
    firsts = [
        0,
        *(i for i, (first, second) in enumerate(pairwise(chosen), start=1) if first != second),
        len(sizes),
    ]
    rows = []
    for first, following in pairwise(firsts):
        way, inside = chosen[first], sizes[first:following]
        gains = [size.gains[way] for size in inside]
        rows.append(
            TableRow(
                m_from if first == 0 else inside[0].m_from,
                m_to if following == len(sizes) else sizes[following].m_from - 1,
                way,
                sum(gain.points for gain in gains) / len(gains),
                min(gain.low for gain in gains),
                max(gain.high for gain in gains),
                all(gain.scored for gain in gains),
            )
        )
    return tuple(rows)


def _path(sizes: Sequence[Sized], margin_points: float) -> list[ComparedPlan]:
    """A way for each size, by dynamic programming over (size, way): most points, less those of changes."""
    best: dict[ComparedPlan, tuple[float, list[ComparedPlan]]] = {}
    for size in sizes:
        leader = max(best.values(), key=lambda entry: entry[0]) if best else (0.0, [])
        following = {}
        for way, worth in _worths(size).items():
            stay = best.get(way)
            change = leader[0] - (margin_points if best else 0.0)
            total, path = stay if stay is not None and stay[0] >= change else (change, leader[1])
            following[way] = (total + worth, [*path, way])
        best = following
    return max(best.values(), key=lambda entry: entry[0])[1]


def _worths(size: Sized) -> dict[ComparedPlan, float]:
    """What each way is surely worth at a size; none is worth more than the recommended one."""
    if size.asked is not None:
        return {size.asked: 0.0}
    sure = {
        way: 0.0 if way.is_baseline else gain.sure_points - LEAVE_POINTS for way, gain in size.gains.items()
    }
    most = sure[size.best]
    return {way: most if way == size.best else min(points, most - LESS) for way, points in sure.items()}
