"""Advice from a profile: where last waves and stream boundaries cost time, and what could win it back.

Example: a forward pass on an H100, 1,465 launches in 50 ms. 4 % of the kernels' time is lost in last waves,
3 % of the step nothing runs between kernels, and a third of it is in kernels that hide their tiles. Of the
pairs of kernels that follow each other on the stream, one is worth rewriting; the others are not, and why.

A profile shows that a kernel ran after another, not that it reads what the other wrote. Adjacency is not
dependency: every pair's interval reaches down to nothing until the user marks it as dependent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from wavesim.costs.device_costs import costs_of
from wavesim.errors import DescriptionError, RecordingError
from wavesim.profile.kernel_facts import KernelFacts, facts_of
from wavesim.profile.overlap import device_gaps, filled_shares
from wavesim.profile.pair_gain import OtherTile, Saving, other_tile, sync_saving
from wavesim.profile.profile import (
    CALL_EXTENDED,
    CALL_PLAIN,
    UNKNOWN_NS,
    IntArray,
    LaunchShape,
    LaunchTable,
    Profile,
)
from wavesim.safe_io.annotated import typed

MOST_PAIRS = 100_000  # 5 s and 200 MB
BACK_TO_BACK_NS = 5_000  # a stream's own turn-round takes 1 to 2 us; beyond 5 the queue had run empty


@dataclass(frozen=True)
class Pair:
    """Two shapes that follow each other on a stream, back to back, `count` times.

    `saving` is what tile sync saves over all `count`, in slots that no pair ranked above it fills; `gap_ns`
    is the time between the two, of which a graph or programmatic launch could save `gap_saving`; `overlapped`
    counts negative gaps, which programmatic launch alone makes, and `overlap_ns` is their sum: it is won
    already and no part of `saving`. `plain`, `extended` and `replayed` count the consumer's launch calls,
    `late` those where the host had not launched it yet. `is_dependent` is what the user said.
    """

    number: int
    producer: KernelFacts
    consumer: KernelFacts
    count: int
    saving: Saving
    gap_ns: int
    gap_saving: Saving
    overlapped: int
    overlap_ns: int
    late: int
    plain: int
    extended: int
    replayed: int
    is_dependent: bool | None = None

    @property
    def is_visible(self) -> bool:
        """Whether both kernels' waves are known."""
        return self.producer.waves is not None and self.consumer.waves is not None


@dataclass(frozen=True, eq=False)
class Advice:
    """What a profile says. Times are integer nanoseconds over the whole profile.

    `kernels` and `pairs` are ranked, by time and by what is likely recoverable; `pause_ns` are gaps longer
    than `gaps.PAUSE_NS`, which are not launch gaps. `late` kernels were launched after the one before
    them had ended. `simulated`: by a pair's number what its best plan gains in the simulator, in points; 0
    where that is stream sync.
    """

    profile: Profile
    kernels: tuple[KernelFacts, ...]
    pairs: tuple[Pair, ...]
    compute_ns: int
    tail_loss_ns: int
    launch_gap_ns: int
    pause_ns: int
    late: int
    simulated: Mapping[int, float] = field(default_factory=dict)

    @cached_property
    def blind_ns(self) -> Mapping[str, int]:
        """Time of kernels whose tiles cannot be known, by reason."""
        reasons = sorted({kernel.blind for kernel in self.kernels if kernel.blind})
        return {word: sum(k.total_ns for k in self.kernels if k.blind == word) for word in reasons}

    @property
    def blind_share(self) -> float:
        """Their share of all kernels' time, 0 to 1."""
        return sum(self.blind_ns.values()) / self.compute_ns if self.compute_ns else 0.0

    @property
    def replayed_share(self) -> float:
        """Of the launches, those that a CUDA graph made."""
        replayed = self.profile.launches.is_replayed
        return float(replayed.mean()) if replayed.size else 0.0

    @property
    def visible_pairs(self) -> tuple[Pair, ...]:
        """Pairs of kernels whose waves are known."""
        return tuple(pair for pair in self.pairs if pair.is_visible)

    def is_refuted(self, pair: Pair) -> bool:
        """Whether the simulator was asked about a pair and found that no plan gains."""
        return self.simulated.get(pair.number, 1.0) <= 0.0

    def is_confirmed(self, pair: Pair) -> bool:
        """Whether the simulator was asked about a pair and found a gain."""
        return self.simulated.get(pair.number, 0.0) > 0.0

    @property
    def recoverable_ns(self) -> float:
        """What tile sync could save in all pairs together: never more than their last waves leave empty.

        Without the pairs of which the simulator says that they would not gain.
        """
        return sum(pair.saving.likely_ns for pair in self.pairs if not self.is_refuted(pair))

    @cached_property
    def other_tiles(self) -> tuple[tuple[KernelFacts, OtherTile], ...]:
        """GEMMs that another tile would help, most time first."""
        tiles = [(kernel, other_tile(kernel)) for kernel in self.kernels]
        helped = [(kernel, tile) for kernel, tile in tiles if tile is not None]
        return tuple(sorted(helped, key=lambda both: -both[1].saving.likely_ns * both[0].count))

    def pair(self, number: int) -> Pair:
        """The pair of that number. Raises `DescriptionError`."""
        for pair in self.pairs:
            if pair.number == number:
                return pair
        raise DescriptionError(f"pair is {number}; this profile has pairs 1 to {len(self.pairs)}")

    def marked(self, marks: Mapping[int, bool]) -> "Advice":
        """The advice with pairs marked by number: True where the consumer reads the producer, else False."""
        for number in marks:
            self.pair(number)
        pairs = [_with_mark(pair, marks.get(pair.number, pair.is_dependent)) for pair in self.pairs]
        return replace(self, pairs=_each_hole_once(pairs))

    def with_simulated(self, points: Mapping[int, float]) -> "Advice":
        """The advice beside what the simulator says of some pairs, in points by their numbers."""
        for number in points:
            self.pair(number)
        return replace(self, simulated={**self.simulated, **points})

    def unmarked(self) -> "Advice":
        """The advice without any marks."""
        return replace(self, pairs=_each_hole_once([_with_mark(pair, None) for pair in self.pairs]))


@typed
def advise(profile: Profile) -> Advice:
    """Looks at every kernel and every pair of a profile, in time linear in the launches (after a sort)."""
    rows = profile.launches
    is_kernel = rows.is_kernel
    shapes, durations = rows.shape[is_kernel], rows.duration_ns[is_kernel]
    counts = np.bincount(shapes, minlength=len(profile.shapes))
    totals = np.zeros(len(profile.shapes), dtype=np.int64)
    np.add.at(totals, shapes, durations)
    facts = [
        facts_of(shape, profile.devices.get(shape.device), int(count), int(total))
        for shape, count, total in zip(profile.shapes, counts, totals, strict=True)
    ]
    filled = filled_shares(profile, facts)
    facts = [replace(kernel, filled_share=float(share)) for kernel, share in zip(facts, filled, strict=True)]
    pairs, late = _pairs(profile, facts)
    gap_ns, pause_ns = device_gaps(profile)
    return Advice(
        profile,
        tuple(sorted(facts, key=lambda kernel: -kernel.total_ns)),
        pairs,
        compute_ns=profile.compute_ns,
        tail_loss_ns=round(sum(kernel.tail_loss_ns for kernel in facts)),
        launch_gap_ns=gap_ns,
        pause_ns=pause_ns,
        late=late,
    )


def _pairs(profile: Profile, facts: list[KernelFacts]) -> tuple[tuple[Pair, ...], int]:
    rows = profile.launches
    if len(rows) < 2:
        return (), 0
    follows = (rows.lane[1:] == rows.lane[:-1]) & (rows.shape[1:] >= 0) & (rows.shape[:-1] >= 0)
    gap = rows.start_ns[1:] - rows.end_ns[:-1]
    is_late = follows & (rows.host_ns[1:] != UNKNOWN_NS) & (rows.host_ns[1:] > rows.end_ns[:-1])
    chosen = np.flatnonzero(follows & (gap <= BACK_TO_BACK_NS))
    boundary_ns = int(costs_of(profile.device_name).overheads["boundary_ns"])
    keys = rows.shape[chosen] * len(facts) + rows.shape[chosen + 1]
    keys_once, inverse = np.unique(keys, return_inverse=True)
    if len(keys_once) > MOST_PAIRS:
        raise RecordingError(
            f"{profile.source}: {len(keys_once):,} different pairs of kernels; at most {MOST_PAIRS:,} are "
            "compared. Profile fewer steps"
        )
    columns = [*_gaps(gap[chosen], boundary_ns), is_late[chosen], *_calls(rows, chosen + 1)]
    pairs = [
        _pair(facts[key // len(facts)], facts[key % len(facts)], sums)
        for key, sums in zip(keys_once.tolist(), _sums(inverse, len(keys_once), columns), strict=True)
    ]
    numbered = [replace(pair, number=number) for number, pair in enumerate(_each_hole_once(pairs), start=1)]
    return tuple(numbered), int(is_late.sum())


Sums = tuple[int, ...]


def _gaps(gap: IntArray, boundary_ns: int) -> list[IntArray]:
    """Launches, their gaps, what of these is above a graph's boundary, whether they overlap, by how much."""
    columns = [np.maximum(gap, 0), np.maximum(gap - boundary_ns, 0), gap < 0, np.maximum(-gap, 0)]
    return [np.ones_like(gap), *columns]


def _calls(rows: LaunchTable, chosen: IntArray) -> list[IntArray]:
    call = rows.call[chosen]
    return [call == CALL_PLAIN, call == CALL_EXTENDED, rows.is_replayed[chosen].astype(np.int64)]


def _sums(group: IntArray, count: int, columns: Sequence[IntArray]) -> list[Sums]:
    """Per pair of shapes the sum of each column."""
    summed = [
        np.bincount(group, weights=column, minlength=count).astype(np.int64).tolist() for column in columns
    ]
    return list(zip(*summed, strict=True))


def _pair(producer: KernelFacts, consumer: KernelFacts, sums: Sums) -> Pair:
    count, gap, above, overlapped, overlap, late, plain, extended, replayed = sums
    blank = Saving(0.0, 0.0, 0.0)
    boundary = Saving(above, 0.0, gap)
    launches = (overlapped, overlap, late, plain, extended, replayed)
    return _with_mark(Pair(0, producer, consumer, count, blank, gap, boundary, *launches), None)


def _with_mark(pair: Pair, is_dependent: bool | None, free_ns: float = inf) -> Pair:
    """The pair marked, and its saving where at most `free_ns` of empty slot time is left to fill."""
    n = pair.count
    saving = sync_saving(pair.producer, pair.consumer, is_dependent, free_ns / n)
    alone = (saving.likely_ns, saving.low_ns, saving.high_ns)
    total = Saving(*(max(min(0.0, saved * n), saved * n - pair.overlap_ns) for saved in alone))
    return replace(pair, saving=total, is_dependent=is_dependent)


def _each_hole_once(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs ranked so that each empty slot is filled by one pair only: in A, B, A, B by the pair A, B.

    Pairs that the user calls dependent come first, then those that save most. Savings are those of each pair
    alone when they come in.
    """
    left: dict[LaunchShape, float] = {}
    filled = []
    for pair in sorted(pairs, key=lambda pair: (pair.is_dependent is not True, *_rank(pair))):
        both = {kernel.shape: kernel.empty_ns for kernel in (pair.producer, pair.consumer)}
        free = sum(left.setdefault(shape, empty) for shape, empty in both.items())
        kept = pair if pair.saving.likely_ns <= free else _with_mark(pair, pair.is_dependent, free)
        taken = kept.saving.likely_ns
        for shape in both:
            part = min(taken, left[shape])
            left[shape], taken = left[shape] - part, taken - part
        filled.append(kept)
    return tuple(sorted(filled, key=_rank))


def _rank(pair: Pair) -> tuple[float, float, float]:
    return -pair.saving.likely_ns, -pair.gap_saving.likely_ns, -pair.count * pair.producer.mean_ns
