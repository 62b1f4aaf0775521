"""Waits: which producer tile must be there before how much of a block's work, each semaphore once.

Example: under row semaphores a block of the second GEMM waits once, before its first K step; under tile
semaphores before every twenty-fourth of its K loop, for the next tile of the row. The simulator counts in
shares of the work and a GPU kernel in K chunks; both get the list from here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wavesim.model.accesses import Accesses
from wavesim.model.dependency import Dependency
from wavesim.model.stage import TileSet
from wavesim.plan.order import Tile

# (need, j, n, producer tile), the j-th of n tiles of a need -> the share (done, of) of the block's work that
# is done before the tile is needed; None if this block does not read it.
Position = Callable[[TileSet, int, int, Tile], tuple[int, int] | None]


@dataclass(frozen=True)
class Wait:
    """Once done/of of its work is complete, a block needs `semaphore`: for the sake of a producer's tile."""

    done: int
    of: int
    semaphore: int
    producer: str
    tile: Tile


def waits_of(
    dependency: Dependency, tile: Tile, semaphore_of: Callable[[str, Tile], int], position: Position
) -> tuple[Wait, ...]:
    """What a consumer tile's block waits for, in order; each semaphore once, where it is first needed."""
    first_waits: dict[int, Wait] = {}
    for need in dependency.needs:
        producer = need.stage.name
        for j, n, read in need.walk(need.box(*tile)):
            place = position(need, j, n, read)
            if place is None:
                continue
            done, of = place
            semaphore = semaphore_of(producer, read)
            known = first_waits.get(semaphore)
            if known is None or done * known.of < known.done * of:
                first_waits[semaphore] = Wait(done, of, semaphore, producer, read)
    return tuple(sorted(first_waits.values(), key=lambda wait: wait.done / wait.of))


def at_start(position: Position) -> Position:
    """The same tiles, all of them before any work."""

    def before_work(need: TileSet, j: int, n: int, tile: Tile) -> tuple[int, int] | None:
        return None if position(need, j, n, tile) is None else (0, 1)

    return before_work


def position_in_slice(z: int, slices: int) -> Position:
    """In step with the work: the j-th of n tiles is needed once j/n is done; slice z does its part only."""

    def position(_need: TileSet, j: int, n: int, _tile: Tile) -> tuple[int, int] | None:
        if (j + 1) * slices <= z * n or j * slices >= (z + 1) * n:
            return None
        return max(0, j * slices - z * n), n

    return position


def item_position(accesses: Accesses, stage: str, tiles: Sequence[Tile], z: int) -> Position:
    """Work items, of 1: the first before which any of some tiles with one list of waits needs a producer's.

    What a tile writes it may write once all its needs are there, so that an anti-dependency comes last.
    """
    readers = [tiles[0], *(tile for tile in tiles[1:] if not accesses.read_alike(stage, tiles[0], tile))]

    def position(need: TileSet, _j: int, _n: int, made: Tile) -> tuple[int, int] | None:
        name = need.stage.name
        firsts = [accesses.first_item(stage, tile, z, name, made) for tile in readers]
        items = [item for item in firsts if item is not None]
        if not items and any(accesses.overwrites(stage, tile, name, made) for tile in tiles):
            items = [accesses.last_item(stage, tiles[0], z)]
        return (min(items), 1) if items else None

    return position


def position_in_items(accesses: Accesses, stage: str, tile: Tile, z: int) -> Position:
    """The same as shares of a block's work: of n work items the j-th is done once (j + 1)/n is."""
    items, own = accesses.items(stage, tile, z), item_position(accesses, stage, [tile], z)

    def position(need: TileSet, j: int, n: int, made: Tile) -> tuple[int, int] | None:
        place = own(need, j, n, made)
        return None if place is None else (place[0] - items.start, len(items))

    return position
