"""Stream-K: the last tiles of a kernel cut into equal runs of K iterations, one per resident block.

Example: 6 tiles of 32 iterations on 4 SMs take 1.5 tile times in place of two waves. The last two tiles are
64 iterations, 16 for each block: the first two blocks start with half of tile 4 each, the others with half of
tile 5; then every block has a whole tile. Of the two halves of a tile the one that comes last adds up both.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from wavesim.model.kernel import require_positive
from wavesim.plan.order import Tile
from wavesim.plan.parts import Traits, require_flag
from wavesim.plan.schedule import Schedule, TilePart
from wavesim.plan.stream_k_partition import share_begin, share_count, share_of, split_tiles
from wavesim.safe_io.bounds import plain_int


@dataclass(frozen=True, repr=False)
class StreamK(Schedule):
    """One block per slot; the last `waves` waves of tiles are split evenly over all of them.

    The tiles of the last, partly filled wave, and of `waves` - 1 full ones before it, are cut into equal runs
    of K iterations, one per block, which come first: then the sums that others need are early, and whole
    tiles follow, the same number in every block. Of its run a block first computes what starts a tile, then
    what ends another: all are then at about the same place in K and share the L2. `in_order` instead takes
    the run as it comes. Of the parts of a tile the one that comes last adds up all. A grid of whole waves is
    not split. Without `waves` one is, or two where the last one is filled to less than a quarter: a few tiles
    alone would be cut into many parts. Source: Osama et al., Stream-K (PPoPP 2023), data-parallel hybrids.
    """

    waves: int | None = None
    in_order: bool = False

    is_split_persistent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_flag("StreamK", in_order=self.in_order)
        if self.waves is not None:
            require_positive("StreamK", waves=self.waves)

    @property
    def word(self) -> str:
        word = "stream-k-in-order" if self.in_order else "stream-k"
        return word if self.waves is None else f"{word}:{self.waves}"

    @property
    def text(self) -> str:
        words = "Stream-K, runs in order" if self.in_order else "Stream-K"
        if self.waves is None:
            return words
        return f"{words}, last {f'{self.waves} waves' if self.waves > 1 else 'wave'} split"

    @property
    def caveat(self) -> str:
        return "what partial sums cost is an estimate, often several points off (`wavesim validate`)"

    def refusal(self, traits: Traits) -> str:
        if traits.has_semaphores:
            return "which tiles a part of a tile reads is not described. Use KernelBoundary()"
        return ""

    def block_count(self, items: int, slots: int) -> int:
        return min(items, slots)

    def cut_tiles(self, tiles: int, slots: int) -> int:
        """How many of a kernel's tiles are cut into parts, on so many slots."""
        if self.waves is None:
            return split_tiles(tiles, slots)
        rest = tiles % slots
        return min(tiles, rest + (self.waves - 1) * slots) if rest else 0

    def block_lists(self, tiles: tuple[Tile, ...], iterations: int, slots: int) -> list[list[TilePart]]:
        """Each resident block's run of the tiles that are cut, then its whole tiles."""
        cut = self.cut_tiles(len(tiles), slots)
        whole = len(tiles) - cut
        bounds = [share_begin(slot, cut * iterations, slots) for slot in range(slots + 1)]
        lists = []
        for slot, (begin, end) in enumerate(pairwise(bounds)):
            # What the run starts comes before what it ends.
            middle = begin if self.in_order else max(begin, end // iterations * iterations)
            parts = [*_run(tiles[whole:], iterations, middle, end, slots)]
            parts += _run(tiles[whole:], iterations, begin, middle, slots)
            parts += [TilePart(tile, 0, iterations, iterations) for tile in tiles[slot:whole:slots]]
            lists.append(parts)
        return [parts for parts in lists if parts]


def _run(tiles: tuple[Tile, ...], iterations: int, begin: int, end: int, slots: int) -> Iterator[TilePart]:
    """The parts of tiles in iterations `begin` up to `end` of all of them, which so many blocks share."""
    total = len(tiles) * iterations
    while begin < end:
        number, first = divmod(begin, iterations)
        upto = min(iterations, first + end - begin)
        index = share_of(begin, total, slots) - share_of(number * iterations, total, slots)
        count = share_count(number, iterations, total, slots)
        yield TilePart(tiles[number], first, upto, iterations, index, count)
        begin += upto - first


def split_last_waves(setting: str, *, in_order: bool = False) -> StreamK:
    """The schedule of a word's setting: the number of waves, or nothing. Raises `ValueError`."""
    return StreamK(plain_int(setting) if setting else None, in_order)
