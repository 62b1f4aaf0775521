"""Tile rows that hold another's rows are exactly those that share a row with them."""

import itertools

import pytest

from wavesim.model.index import Index
from wavesim.workloads.tile_rows import TileRows, rows_between

SHAPES = [
    TileRows(sequences * length, height, length)
    for (sequences, length), height in itertools.product(
        ((1, 8), (1, 13), (2, 4), (4, 2), (2, 13), (1, 26), (3, 8), (8, 1), (1, 24)), (1, 2, 4, 8)
    )
]


def rows_of(tiles: TileRows, tile_row: int) -> set[int]:
    """Row by row, without formulas."""
    sequence, block = divmod(tile_row, tiles.per_sequence)
    first = block * tiles.height
    return {sequence * tiles.length + row for row in range(first, min(first + tiles.height, tiles.length))}


def named(found: Index | slice, tile_row: int) -> list[int]:
    if isinstance(found, slice):
        return list(range(found.start.evaluate(0, tile_row), found.stop.evaluate(0, tile_row)))
    return [found.evaluate(0, tile_row)]


@pytest.mark.parametrize("producer", SHAPES, ids=str)
def test_what_is_read_is_what_shares_a_row(producer):
    for consumer in (one for one in SHAPES if one.m == producer.m):
        found = rows_between(producer, consumer)
        for tile_row in range(consumer.count):
            rows = rows_of(consumer, tile_row)
            sharing = [tile for tile in range(producer.count) if rows & rows_of(producer, tile)]
            assert named(found, tile_row) == sharing, consumer
