"""What tile-level synchronisation would save between two launches, with an interval.

Example: a GEMM of 1.45 waves, then one of 2.9, one block per SM on an H200, 233 and 220 us. Half of the
second's first wave fits into the hole of the first's last wave: 14 % of both together. On an H200 12 to 13 %
were measured.

The estimate assumes that the consumer reads the producer row by row, in the order in which it is written. Its
error is known from the recordings that ship with wavesim: `MARGIN` covers nine of ten of them, see
tests/unit/profile/test_advice.py.
"""

from dataclasses import dataclass
from math import ceil, inf

from wavesim.profile.kernel_facts import KernelFacts
from wavesim.profile.wave_model import Hole, Waves, hole_of, last_wave_time, time_saved

# As a share of the pair's time: with one block per SM, and with more, where tile times follow the company.
MARGIN_ALONE, MARGIN_SHARED = 0.025, 0.07
COST = 0.045  # most that synchronising cost a recorded pair in row order, where there was nothing to win
# GPT-3's MLP on an H200, four full waves: 2185 us in tiles of 128 x 128, 1987 us in 128 x 256. The ranges
# are assumed.
HALF_TILE, HALF_TILE_RANGE = 0.91, (0.85, 1.0)
TWICE_TILE_RANGE = (0.95, 1.05)
SMALLEST_TILE, LARGEST_TILE = 64 * 64, 256 * 128
LEAST_SIDE = 32


@dataclass(frozen=True)
class Saving:
    """Nanoseconds of one launch (or pair): the estimate and its interval; below 0 it costs time."""

    likely_ns: float
    low_ns: float
    high_ns: float


NOTHING = Saving(0.0, 0.0, 0.0)


def sync_saving(
    producer: KernelFacts, consumer: KernelFacts, is_dependent: bool | None, free_ns: float = inf
) -> Saving:
    """What tile sync saves per pair. `is_dependent` is what the user said of it, None if nothing.

    `free_ns` is the empty slot time per pair that other pairs leave: the estimate and the lower end stay
    below it. The upper end does not, as those others may not be rewritten.
    """
    if producer.waves is None or consumer.waves is None or is_dependent is False:
        return NOTHING
    both = producer.mean_ns + consumer.mean_ns
    likely = _likely_ns(producer, consumer, producer.waves, consumer.waves)
    is_alone = producer.waves.blocks_per_sm == consumer.waves.blocks_per_sm == 1
    margin = both * (MARGIN_ALONE if is_alone else MARGIN_SHARED)
    empty = sum(kernel.empty_ns / max(1, kernel.count) for kernel in (producer, consumer))
    high = min(likely + margin, empty)
    likely = min(likely, empty, free_ns)
    low = likely - margin if is_dependent else -margin
    return Saving(likely, max(low, -COST * both), max(high, likely))


def _likely_ns(producer: KernelFacts, consumer: KernelFacts, first: Waves, second: Waves) -> float:
    both_memory = producer.name.kind == consumer.name.kind == "memory"
    hole = hole_of(first, producer.mean_ns, is_memory_bound=both_memory)
    ready = 1 - first.last / first.blocks
    stepped = time_saved(hole, ready, second, consumer.mean_ns)
    if first.blocks_per_sm == second.blocks_per_sm == 1:
        return stepped
    # Blocks that share an SM do not end in step: between whole tiles and a fluid.
    return (stepped + _fluid_ns(hole, ready, consumer.mean_ns)) / 2


def _fluid_ns(hole: Hole, ready: float, consumer_ns: float) -> float:
    return min(hole.length_ns * hole.share, ready * consumer_ns)


@dataclass(frozen=True)
class OtherTile:
    """A GEMM's other tile (rows, columns), its waves, and what it saves per launch."""

    tile: tuple[int, int]
    waves: float
    saving: Saving


def other_tile(kernel: KernelFacts) -> OtherTile | None:
    """The best of half and twice the tile, if it saves time; None for other kernels and unknown tiles.

    Assumes that resources and work of a block are proportional to its tile, and a half tile is `HALF_TILE` as
    efficient.
    """
    if kernel.waves is None or kernel.name.kind != "gemm" or kernel.name.tile is None:
        return None
    if kernel.waves.rounds < 2:  # SMs stand empty as it is; how fast a block is there, a profile does not say
        return None
    rows, columns = kernel.name.tile
    options = [
        _tried(kernel, kernel.waves, tile)
        for tile in ((rows // 2, columns), (rows, columns // 2), (rows * 2, columns), (rows, columns * 2))
    ]
    best = max(
        (option for option in options if option), key=lambda option: option.saving.likely_ns, default=None
    )
    return best if best is not None and best.saving.likely_ns > 0 else None


def _tried(kernel: KernelFacts, waves: Waves, tile: tuple[int, int]) -> OtherTile | None:
    assert kernel.name.tile is not None
    area, now = tile[0] * tile[1], kernel.name.tile[0] * kernel.name.tile[1]
    per_sm, rest = divmod(waves.blocks_per_sm * now, area)
    if not SMALLEST_TILE <= area <= LARGEST_TILE or min(tile) < LEAST_SIDE or per_sm < 1 or rest:
        return None
    blocks = _blocks(kernel, waves, tile, now)
    if blocks is None:
        return None
    other = Waves(blocks, per_sm * waves.sm_count, waves.sm_count)
    rounds = other.rounds - 1 + last_wave_time(other)
    is_half = area < now
    typical, (worst, best) = (HALF_TILE, HALF_TILE_RANGE) if is_half else (1.0, TWICE_TILE_RANGE)
    wave_ns = kernel.mean_ns / (waves.rounds - 1 + last_wave_time(waves))
    likely, low, high = (kernel.mean_ns - rounds * wave_ns / speed for speed in (typical, worst, best))
    return OtherTile(tile, other.waves, Saving(likely, low, high))


def _blocks(kernel: KernelFacts, waves: Waves, tile: tuple[int, int], now: int) -> int | None:
    """Blocks with another tile: from the operands, else from the area that the grid covers."""
    if kernel.shape.gemm is None:
        return ceil(waves.blocks * now / (tile[0] * tile[1]))
    (m, n, _), (rows, columns) = kernel.shape.gemm, kernel.name.tile or (1, 1)
    tiles = ceil(m / rows) * ceil(n / columns)
    if waves.blocks % tiles:
        return None  # the grid is not that of this product: transposed, or split in another way
    return waves.blocks // tiles * ceil(m / tile[0]) * ceil(n / tile[1])
