"""How many SMs waiting blocks can fill: the adversary's side of the safety check.

Example: 11 waiting blocks of a consumer that fits twice on an SM, against a producer that needs half
an SM too: each SM takes two of them before the producer has no room, so 11 blocks close five SMs.
With kernels of different sizes an SM can be closed in several ways; which SM the hardware puts a
block on does not matter, because the adversary may choose.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from wavesim.model.device import Device
from wavesim.safety.covering import Counts, largest_cover, smallest
from wavesim.safety.prices import closing_bound
from wavesim.sim.placement import Footprint

MOST_SETS = 400  # of blocks on one SM that are looked at, for one kernel, before a bound must do


class TooManySetsError(Exception):
    """More sets of blocks than one looks at."""


@dataclass(frozen=True)
class Waiting:
    """Blocks of one kind that may be resident and wait: what each takes, how many there are, in clusters of
    how many.
    """

    name: str
    footprint: Footprint
    count: int
    cluster: int = 1


@dataclass(frozen=True)
class Closure:
    """What waiting blocks can do to a device: per closed SM the names of the blocks on it.

    No more than `closed` SMs can be closed; `residents` are fewer where the best way was not found.
    """

    closed: int
    residents: tuple[tuple[str, ...], ...]

    @property
    def is_exact(self) -> bool:
        """Whether the residents reach the bound."""
        return self.closed == len(self.residents)


@dataclass(frozen=True)
class OneSm:
    """An SM of a device that may hold blocks of these kinds while they wait."""

    device: Device
    kinds: tuple[Footprint, ...]

    def fits(self, counts: Counts, carveout: int, *more: Footprint) -> bool:
        """Whether so many blocks per kind, and some more, can be on the SM together at a carve-out."""
        device, kinds = self.device, [(k, n) for k, n in zip(self.kinds, counts, strict=True) if n]
        kinds += [(block, 1) for block in more]
        return (
            sum(n for _, n in kinds) <= device.max_blocks_per_sm
            and sum(n * kind.warps for kind, n in kinds) <= device.max_warps_per_sm
            and sum(n * kind.registers for kind, n in kinds) <= device.registers_per_sm
            and sum(n * kind.shared_bytes for kind, n in kinds) <= carveout
            and all(kind.least_carveout_bytes <= carveout for kind, _ in kinds)
        )

    def closing(
        self, limits: Counts, head: Footprint, passing: Sequence[Waiting]
    ) -> Iterator[tuple[Counts, int | None]]:
        """Sets of waiting blocks, as counts per kind, that leave the head no room.

        With each, the carve-out that a block of `passing` must have set before it left, if one must:
        an idle SM takes the newcomer's carve-out and keeps it until it is idle again. Raises
        `TooManySetsError` once it has looked at `MOST_SETS`.
        """
        everyone = {*self.kinds, *(kind.footprint for kind in passing)}
        left = count(MOST_SETS, -1)
        for carveout in sorted({block.carveout_bytes for block in everyone}):
            beside = [block for block in everyone if block.least_carveout_bytes <= carveout]
            yield from self._closing_at(carveout, limits, head, beside, left)

    def _closing_at(
        self, carveout: int, limits: Counts, head: Footprint, beside: Sequence[Footprint], left: Iterator[int]
    ) -> Iterator[tuple[Counts, int | None]]:
        layer = {(0,) * len(self.kinds)}
        while layer:
            grown: set[Counts] = set()
            for counts in layer:
                if not next(left):
                    raise TooManySetsError
                if any(counts) and not self.fits(counts, carveout, head):
                    present = [kind for kind, n in zip(self.kinds, counts, strict=True) if n]
                    if any(kind.carveout_bytes == carveout for kind in present):
                        yield counts, None
                        continue  # a larger set costs more and does no more
                    nobody = (0,) * len(counts)
                    if any(self.fits(nobody, carveout, kind, other) for kind in present for other in beside):
                        yield counts, carveout
                grown.update(self._grown(counts, limits, carveout))
            layer = grown

    def greedy_closing(self, left: Counts, head: Footprint) -> Counts | None:
        """One set that leaves the head no room, of the kinds of which most blocks are left; None if that
        finds none. The first block sets the carve-out.
        """
        order = sorted(range(len(left)), key=lambda kind: -left[kind])
        for first in order:
            carveout, counts = self.kinds[first].carveout_bytes, (0,) * len(left)
            for kind in (first, *order):
                while (more := next(self._grown(counts, left, carveout, (kind,)), None)) is not None:
                    counts = more
                    if not self.fits(counts, carveout, head):
                        return counts
        return None

    def _grown(
        self, counts: Counts, limits: Counts, carveout: int, kinds: Iterable[int] | None = None
    ) -> Iterator[Counts]:
        """The sets with one block more, of any kind or of one of these, that fit."""
        for kind in range(len(limits)) if kinds is None else kinds:
            more = (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :])
            if more[kind] <= limits[kind] and self.fits(more, carveout):
                yield more


def close_sms(
    device: Device,
    waiting: Sequence[Waiting],
    head: Footprint,
    passing: Sequence[Waiting],
    *,
    is_in_pairs: bool = False,
) -> Closure:
    """How many of the device's SMs the waiting blocks can close to a block of the head's footprint.

    `passing` are blocks that may have been on an SM before: all that can be issued before the head.
    `is_in_pairs`: to a cluster of two, which finds a place on any two free SMs of a group: how many pairs can
    be closed, one SM of each. Exact where the sets that close an SM are few; else a bound, never below what
    is possible.

    Groups are made of pairs of neighbours, and hold both blocks of a cluster. To leave one free SM of a group
    of 2 m the blocks close 2 m - 1. Of these sets take the m that have fewest blocks of one kind of clusters:
    each can be rounded up to whole clusters of that kind, and together they need no more than the group has.
    So m pairs, at that price each, are a bound for any groups.
    """
    names: dict[tuple[Footprint, int], list[str]] = {}
    for kind in waiting:
        together = kind.cluster if is_in_pairs else 1
        blocks = [kind.name] * _in_clusters(kind.count, together)
        names.setdefault((kind.footprint, together), []).extend(blocks)
    kinds = tuple(footprint for footprint, _ in names)
    most = max((kind for kind in names if kind[1] > 1), key=lambda kind: len(names[kind]), default=None)
    sizes = tuple(kind[1] if kind == most else 1 for kind in names)
    limits = tuple(len(blocks) for blocks in names.values())
    try:
        closing = set(OneSm(device, kinds).closing(limits, head, passing))
    except TooManySetsError:
        return _bounded(device, kinds, list(names.values()), head, passing)
    sets = {(tuple(map(_in_clusters, counts, sizes)), carveout) for counts, carveout in closing}
    # A carve-out that another block must have set costs one of the blocks that can: one more resource.
    carveouts = sorted({carveout for _, carveout in sets if carveout is not None})
    openers = tuple(sum(k.count for k in passing if k.footprint.carveout_bytes == c) for c in carveouts)
    ways = smallest({(*counts, *(int(c == carveout) for c in carveouts)) for counts, carveout in sets})
    cover = largest_cover(ways, (*limits, *openers), device.sm_count // (2 if is_in_pairs else 1))
    left = list(names.values())
    return Closure(cover.at_most, tuple(_named(counts[: len(limits)], left) for counts in cover.uses))


def _in_clusters(blocks: int, cluster: int) -> int:
    """The blocks of the fewest clusters that have so many."""
    return -(-blocks // cluster) * cluster


def _bounded(
    device: Device,
    kinds: tuple[Footprint, ...],
    names: Sequence[list[str]],
    head: Footprint,
    passing: Sequence[Waiting],
) -> Closure:
    """What is known without looking at all sets: a bound, and a placement that closes SMs greedily."""
    limits = tuple(map(len, names))
    bound = closing_bound(device, kinds, limits, head, [kind.footprint for kind in passing])
    sm, left, residents = OneSm(device, kinds), limits, list[tuple[str, ...]]()
    while len(residents) < bound and (counts := sm.greedy_closing(left, head)):
        times = min(n // count for n, count in zip(left, counts, strict=True) if count)
        for _ in range(min(times, bound - len(residents))):
            residents.append(_named(counts, names))
            left = tuple(n - count for n, count in zip(left, counts, strict=True))
    return Closure(bound, tuple(residents))


def leaves_room(device: Device, waiting: Sequence[Waiting], heads: Iterable[Footprint]) -> bool:
    """Whether all the waiting blocks and any one of the heads fit on a single SM together, whichever of them
    set its carve-out.
    """
    kinds = [kind.footprint for kind in waiting]
    sm, counts = OneSm(device, tuple(kinds)), tuple(kind.count for kind in waiting)
    heads = list(heads)
    carveouts = {kind.carveout_bytes for kind in (*kinds, *heads)}
    return all(sm.fits(counts, carveout, head) for head in heads for carveout in carveouts)


def _named(counts: Counts, names: Sequence[list[str]]) -> tuple[str, ...]:
    return tuple(blocks.pop(0) for blocks, count in zip(names, counts, strict=True) for _ in range(count))
