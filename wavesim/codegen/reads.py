"""What consumer tiles read of one producer, listed once per distinct list.

Example: all 48 tiles of a row of the second GEMM read the same 24 tiles of the first; they are one entry.
"""

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Tile

MAX_READS = 20_000_000


def reads_in_order(pipeline: Pipeline, consumer: str, tiles: tuple[Tile, ...]) -> dict[str, list[Tile]]:
    """Per producer, its tiles in the order in which the consumer's tiles, so ordered, first read them.

    Raises `DescriptionError` if there are too many reads to list.
    """
    dependency = pipeline.dependency_of(consumer)
    if dependency is None:
        return {}
    uses_x = any(need.uses("x") for need in dependency.needs)
    uses_y = any(need.uses("y") for need in dependency.needs)
    tiles_read: dict[str, dict[Tile, None]] = {name: {} for name in dependency.producers}
    seen: set[Tile] = set()
    reads = 0
    for x, y in tiles:
        key = (x if uses_x else 0, y if uses_y else 0)
        if key in seen:
            continue
        seen.add(key)
        needed = dependency.producer_tiles(x, y)
        reads += len(needed)
        require_few(reads, consumer)
        for producer, tile in needed:
            tiles_read[producer].setdefault(tile)
    return {name: list(tiles) for name, tiles in tiles_read.items()}


def producer_tiles_by_consumer(pipeline: Pipeline, edge: tuple[str, str]) -> list[tuple[Tile, ...]]:
    """The tiles of the edge's producer that the consumer's tiles read; consumers that read alike once."""
    producer, consumer = edge
    dependency = pipeline.dependency_of(consumer)
    assert dependency is not None, "callers check the edge"
    uses_x = any(need.uses("x") for need in dependency.needs)
    uses_y = any(need.uses("y") for need in dependency.needs)
    grid = dependency.consumer.stage.grid
    lists = []
    reads = 0
    for y in range(grid.y if uses_y else 1):
        for x in range(grid.x if uses_x else 1):
            tiles = tuple(tile for name, tile in dependency.producer_tiles(x, y) if name == producer)
            reads += len(tiles)
            require_few(reads, consumer)
            lists.append(tiles)
    return lists


def require_few(reads: int, consumer: str) -> None:
    """Raises `DescriptionError` if a dependency has too many reads to list."""
    if reads > MAX_READS:
        raise DescriptionError(
            f"{consumer} reads more than {MAX_READS:,} producer tiles in all, too many to derive orders and "
            "policies from. Use larger tiles, or name the order and policy yourself"
        )
