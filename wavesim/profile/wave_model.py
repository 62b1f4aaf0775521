"""Waves of one launch, and how much of a second kernel fits into the slots that its last wave leaves empty.

Example: 192 blocks on 132 slots are 1.45 waves. The second wave has 60 blocks: for its whole length 72 slots
stand empty, which is 27 % of the kernel's slot time. Blocks of the next kernel could fill them.

Where several blocks share an SM, one that is alone there runs faster, so that a half-empty last wave costs
less than its empty slots suggest; `Hole` counts throughput, not slots.
"""

from dataclasses import dataclass
from math import ceil, floor

# Of each of two blocks, relative to one alone; a guess for kernels of which nothing is known.
DEFAULT_SHARED_SPEED = 0.72
MOST_OVERLAP = 3  # blocks on one SM beyond which more add nothing to its throughput
MEMORY_SATURATES_AT = 0.5  # share of the SMs that keeps the memory busy


@dataclass(frozen=True)
class Waves:
    """How a grid fills a device: `slots` blocks at once, `waves` of them, the last one with `last` blocks."""

    blocks: int
    slots: int
    sm_count: int

    @property
    def waves(self) -> float:
        """Blocks over slots; 1.45 is one full wave and a part."""
        return self.blocks / self.slots

    @property
    def rounds(self) -> int:
        """Waves counted whole."""
        return -(-self.blocks // self.slots)

    @property
    def last(self) -> int:
        """Blocks of the last wave."""
        return self.blocks - (self.rounds - 1) * self.slots

    @property
    def idle_share(self) -> float:
        """Share of the launch's slot time that its last, or only, wave leaves empty."""
        return 1 - self.blocks / (self.rounds * self.slots)

    @property
    def blocks_per_sm(self) -> int:
        """Resident blocks of one SM."""
        return max(1, self.slots // self.sm_count)


@dataclass(frozen=True)
class Hole:
    """Throughput that the last wave leaves unused: `share` of the device for `length_ns` before the end."""

    length_ns: float
    share: float


def throughput(blocks: float) -> float:
    """Work per time of an SM with that many blocks, relative to one block alone; linear in between."""
    if blocks <= 1:
        return max(0.0, blocks)
    low = floor(blocks)
    here = _whole(low)
    return here + (blocks - low) * (_whole(low + 1) - here)


def _whole(blocks: int) -> float:
    shared = min(blocks, MOST_OVERLAP)
    return shared * DEFAULT_SHARED_SPEED ** (shared - 1)


def last_wave_time(waves: Waves) -> float:
    """Time of the last wave over that of a full one: its blocks have fewer neighbours and run faster."""
    company = ceil(waves.last / waves.sm_count)
    return (throughput(waves.blocks_per_sm) / waves.blocks_per_sm) / (throughput(company) / company)


def hole_of(waves: Waves, kernel_ns: float, is_memory_bound: bool) -> Hole:
    """The hole at the end of a launch that took `kernel_ns`.

    Blocks of the last wave are spread over all SMs; a kernel limited by memory bandwidth is as fast on
    `MEMORY_SATURATES_AT` of them as on all.
    """
    per_sm = waves.last / waves.sm_count
    full, used = throughput(waves.blocks_per_sm), throughput(per_sm)
    last = last_wave_time(waves)
    length = kernel_ns * last / (waves.rounds - 1 + last)
    share = max(0.0, 1 - used / full)
    if is_memory_bound:
        share = max(0.0, 1 - (1 - share) / MEMORY_SATURATES_AT)
    return Hole(length, share)


def time_saved(hole: Hole, ready_share: float, consumer: Waves, consumer_ns: float) -> float:
    """What a consumer saves when its first blocks run in the producer's hole, in nanoseconds.

    `ready_share` of its blocks need nothing of the producer's last wave. Blocks run in whole tile times on
    the empty slots first and then on all; the amount of work stays the same.
    """
    if consumer_ns <= 0:
        return 0.0
    tile = consumer_ns / consumer.rounds
    early_slots = floor(hole.share * consumer.slots + 1e-9)
    starts = min(early_slots * ceil(hole.length_ns / tile), floor(ready_share * consumer.blocks))
    if early_slots < 1 or starts < 1:
        return 0.0

    # Blocks end a whole number of tile times after the producer's end or after the hole's start. As more are
    # done the later it is, the first such time is found by halving: a grid may have 2^63 blocks.
    def first_end(offset: float) -> float:
        def is_done(whole: int) -> bool:
            end = whole * tile - offset
            return end >= 0 and _done_by(end, tile, hole, (early_slots, starts), consumer) >= consumer.blocks

        low, whole = 0, consumer.rounds + 1
        while low < whole:
            middle = (low + whole) // 2
            low, whole = (low, middle) if is_done(middle) else (middle + 1, whole)
        return whole * tile - offset if whole <= consumer.rounds else consumer_ns

    best = min(first_end(0.0), first_end(hole.length_ns % tile))
    return max(0.0, min(consumer_ns - best, hole.length_ns))


def _done_by(end: float, tile: float, hole: Hole, early: tuple[int, int], consumer: Waves) -> int:
    slots, most_starts = early
    before = min(most_starts, slots * ceil(hole.length_ns / tile))
    per_slot = floor((end + hole.length_ns) / tile + 1e-9)
    started_late = slots * max(0, per_slot - ceil(hole.length_ns / tile))
    on_early = min(slots * per_slot, before + started_late)
    return on_early + (consumer.slots - slots) * floor(end / tile + 1e-9)
