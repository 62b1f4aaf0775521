"""How long two dependent products take on one block per SM, by list scheduling, without a simulator.

Example: 352 tiles of LLaMA's first product at 2,048 tokens fill 132 SMs two and two thirds times. Under row
semaphores the SMs that the last third leaves idle begin with the second product; at a boundary they wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapreplace


@dataclass(frozen=True)
class ScheduledProduct:
    """Tiles in columns and rows, ns and height of each, and how many rows an order takes together."""

    columns: int
    rows: int
    tile_ns: float
    group: int = 1
    height: int = 1

    @property
    def tiles(self) -> int:
        """All of them."""
        return self.columns * self.rows

    def alone_ns(self, sm_count: int) -> float:
        """Wave after wave."""
        return -(-self.tiles // sm_count) * self.tile_ns

    def row_positions(self) -> list[int]:
        """Of each row's last tile, in the order of processing."""
        found = []
        for row in range(self.rows):
            first = row // self.group * self.group
            height = min(self.group, self.rows - first)
            found.append(first * self.columns + (self.columns - 1) * height + row - first)
        return found

    def row_of_each(self) -> Iterator[int]:
        """The row of every tile, in the order of processing."""
        for first in range(0, self.rows, self.group):
            rows = range(first, min(first + self.group, self.rows))
            for _ in range(self.columns):
                yield from rows


def overlapped_ns(first: ScheduledProduct, second: ScheduledProduct, sm_count: int) -> float:
    """Both, where a tile of the second waits for the rows of the first that it reads and nothing else."""
    ready = [(position // sm_count + 1) * first.tile_ns for position in first.row_positions()]
    all_ready = max(ready)
    whole, rest = divmod(first.tiles, sm_count)
    free = [whole * first.tile_ns] * (sm_count - rest) + [(whole + 1) * first.tile_ns] * rest
    left = second.tiles
    for row in second.row_of_each():
        if free[0] >= all_ready:
            break
        needed = row * second.height // first.height
        last = min(((row + 1) * second.height - 1) // first.height, first.rows - 1)
        heapreplace(free, max(free[0], *ready[needed : last + 1]) + second.tile_ns)
        left -= 1
    return _in_turns_ns(sorted(free), left, second.tile_ns)


def _in_turns_ns(free: list[float], tiles: int, tile_ns: float) -> float:
    """When equal tiles that wait for nothing end; SMs are free at these times, less than a tile apart."""
    rounds, rest = divmod(tiles, len(free))
    ends = [free[-1] + rounds * tile_ns]
    if rest:
        ends.append(free[rest - 1] + (rounds + 1) * tile_ns)
    return max(ends)
