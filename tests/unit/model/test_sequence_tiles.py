"""Tile rows that hold another's rows are exactly those that share a row with them."""

import itertools

import pytest

from wavesim.model.index import Index
from wavesim.model.sequence_tiles import SequenceTiles

SHAPES = [
    SequenceTiles(sequences, length, tile_m)
    for (sequences, length), tile_m in itertools.product(
        ((1, 8), (1, 13), (2, 4), (4, 2), (2, 13), (3, 8), (8, 1)), (1, 2, 4, 8)
    )
]


def rows_of(tiles: SequenceTiles, row_block: int) -> set[int]:
    """Row by row, without formulas."""
    sequence, block = divmod(row_block, tiles.row_blocks)
    first = block * tiles.tile_m
    return {sequence * tiles.length + row for row in range(first, min(first + tiles.tile_m, tiles.length))}


def named(found: Index | slice, row_block: int) -> list[int]:
    if isinstance(found, slice):
        return list(range(found.start.evaluate(0, row_block), found.stop.evaluate(0, row_block)))
    return [found.evaluate(0, row_block)]


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        (producer, consumer)
        for producer, consumer in itertools.product(SHAPES, SHAPES)
        if producer.total == consumer.total
    ],
    ids=str,
)
def test_what_is_read_is_what_shares_a_row(producer, consumer):
    found = producer.read_by(consumer)
    for row_block in range(consumer.sequences * consumer.row_blocks):
        rows = rows_of(consumer, row_block)
        sharing = [
            tile for tile in range(producer.sequences * producer.row_blocks) if rows & rows_of(producer, tile)
        ]
        assert named(found, row_block) == sharing
