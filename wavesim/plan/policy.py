"""Policies: which semaphore a producer tile posts, and the value that means ready.

Example: RowSync hangs one counter on each tile row; when the counter of row 3 reads 24, all 24
tiles of that row are in memory. TileSync hangs one on each tile. A policy exists once: the
simulator evaluates it, and the GPU gets the same map as a table.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid
from wavesim.safe_io.bounds import shown


class Policy(ABC):
    """Maps a producer tile to a semaphore and to the value at which its consumers may go on."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A short word for tables and file names."""

    @abstractmethod
    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        """Index of the semaphore that tile (x, y) posts."""

    @abstractmethod
    def value(self, x: int, y: int, grid: Grid) -> int:
        """Posts after which tile (x, y) is ready: as many as tiles share its semaphore."""

    def table(self, grid: Grid) -> "SemaphoreTable":
        """The whole map for one producer grid, checked. Raises `DescriptionError`."""
        # A class derived from these may hold what its equality does not know of.
        is_formula = type(self) in (TileSync, RowSync, GridSync)
        return kept_table(self, grid) if is_formula else self.worked_out(grid)

    def worked_out(self, grid: Grid) -> "SemaphoreTable":
        """The same, every time from the two functions."""
        semaphores = tuple(self._evaluate(self.semaphore, x, y, grid) for x, y in grid)
        values = tuple(self._evaluate(self.value, x, y, grid) for x, y in grid)
        return _checked_table(self.name, grid, semaphores, values)

    def _evaluate(self, function: Callable[[int, int, Grid], int], x: int, y: int, grid: Grid) -> int:
        try:
            result = function(x, y, grid)
        except Exception as error:
            raise DescriptionError(
                f"policy {self.name} failed on tile {(x, y)} of the grid {grid}: {error!r}"
            ) from error
        if not isinstance(result, int) or isinstance(result, bool):
            raise DescriptionError(
                f"policy {self.name} gave {result!r} for tile {(x, y)}; it must be an integer"
            )
        return result


@dataclass(frozen=True)
class SemaphoreTable:
    """A policy on one grid: `semaphore_of_tile` and `value_of_tile`, both row-major."""

    count: int
    semaphore_of_tile: tuple[int, ...]
    value_of_tile: tuple[int, ...]


@lru_cache(maxsize=16)
def kept_table(policy: Policy, grid: Grid) -> SemaphoreTable:
    """The table of a policy that is a formula of its fields; one plan's is asked for several times."""
    return policy.worked_out(grid)


def _checked_table(
    name: str, grid: Grid, semaphores: tuple[int, ...], values: tuple[int, ...]
) -> SemaphoreTable:
    count = max(semaphores) + 1
    if min(semaphores) < 0 or count > grid.tiles:
        bad = min(semaphores) if min(semaphores) < 0 else count - 1
        raise DescriptionError(
            f"policy {name}: semaphore {bad} on the grid {grid}; indices must be 0 to {grid.tiles - 1}, "
            "one per tile at most"
        )
    posts = [0] * count
    for semaphore in semaphores:
        posts[semaphore] += 1
    for index, (semaphore, value) in enumerate(zip(semaphores, values, strict=True)):
        if value != posts[semaphore]:
            tile, posted = (index % grid.x, index // grid.x), posts[semaphore]
            danger = "waits for ever" if value > posted else "may read a tile before it is written"
            raise DescriptionError(
                f"policy {name}: tile {tile} awaits value {value} of semaphore {semaphore}, which gets "
                f"{posted} posts, "
                f"so its consumer {danger}. Await {posted}"
            )
    return SemaphoreTable(count, semaphores, values)


@dataclass(frozen=True)
class TileSync(Policy):
    """One semaphore per producer tile, ready at 1: the finest policy. Source: paper, III-E."""

    @property
    def name(self) -> str:
        return "tile"

    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        return y * grid.x + x

    def value(self, x: int, y: int, grid: Grid) -> int:
        return 1


@dataclass(frozen=True)
class RowSync(Policy):
    """One semaphore per tile row, ready when the whole row is. Source: paper, III-E."""

    @property
    def name(self) -> str:
        return "row"

    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        return y

    def value(self, x: int, y: int, grid: Grid) -> int:
        return grid.x


@dataclass(frozen=True)
class GridSync(Policy):
    """One semaphore for the whole grid, ready when every tile is: what a kernel boundary waits for.

    For single dependencies of a plan whose others wait for less: it switches the overlap of one edge off.
    """

    @property
    def name(self) -> str:
        return "grid"

    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        return 0

    def value(self, x: int, y: int, grid: Grid) -> int:
        return grid.tiles


@dataclass(frozen=True)
class CustomPolicy(Policy):
    """A user's own two functions (x, y, grid) -> int."""

    label: str
    semaphore_function: Callable[[int, int, Grid], int]
    value_function: Callable[[int, int, Grid], int]

    @property
    def name(self) -> str:
        return self.label

    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        return self.semaphore_function(x, y, grid)

    def value(self, x: int, y: int, grid: Grid) -> int:
        return self.value_function(x, y, grid)


def parse_policy(text: str) -> Policy:
    """The policy that a word names: "tile", "row" or "grid"."""
    policies: dict[str, Policy] = {"tile": TileSync(), "row": RowSync(), "grid": GridSync()}
    if text not in policies:
        raise DescriptionError(f"policy is {shown(text)}; known are {', '.join(policies)}")
    return policies[text]
