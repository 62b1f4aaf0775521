"""Which tile rows and columns of a producer hold what a consumer's tile reads, where their tiles differ.

Example: a norm in tiles of 8 rows reads rows of a product in tiles of 128: of its tile row y // 16. A product
in tiles of 128 rows after attention of two sequences of 300 rows, in tiles of 128 each, reads two or three of
the six tile rows.
"""

from dataclasses import dataclass

from wavesim.model.index import Index, as_index, y
from wavesim.model.stage import Axis

Span = Index | slice


@dataclass(frozen=True)
class TileRows:
    """How `m` rows are cut into tile rows: `height` rows each, anew in every sequence of `length` rows."""

    m: int
    height: int
    length: int

    @property
    def count(self) -> int:
        """Tile rows in all."""
        return self.m // self.length * self.per_sequence

    @property
    def per_sequence(self) -> int:
        """Tile rows of a sequence."""
        return -(-self.length // self.height)

    @property
    def is_even(self) -> bool:
        """Whether tile row i begins at row i * height, whatever the sequence."""
        return self.length == self.m or self.length % self.height == 0

    def sequence_of(self, tile_row: Index) -> Index:
        """The sequence of a tile row."""
        return as_index(0) if self.length == self.m else tile_row // self.per_sequence

    def first_row(self, tile_row: Index) -> Index:
        """The first row of a tile row."""
        unused = self.per_sequence * self.height - self.length
        start = tile_row * self.height
        return start if self.is_even else start - self.sequence_of(tile_row) * unused

    def end_row(self, tile_row: Index) -> Index:
        """One past its last row."""
        if self.is_even:
            return ((tile_row + 1) * self.height).at_most(self.m)
        end = (self.sequence_of(tile_row) + 1) * self.length
        return (self.first_row(tile_row) + self.height).at_most(end)

    def tile_row_of(self, row: Index) -> Index:
        """The tile row that holds a row."""
        if self.is_even:
            return row // self.height
        sequence = row if self.length == 1 else row // self.length
        if self.per_sequence == 1:
            return sequence
        return sequence * self.per_sequence + (row - sequence * self.length) // self.height


def rows_between(producer: TileRows, consumer: TileRows) -> Span:
    """The producer's tile rows that hold the rows of the consumer's tile row y."""
    if producer.is_even and consumer.is_even:
        first = quotient(y, consumer.height, 0, producer.height)
    elif producer.length == consumer.length:
        return _of_same_sequence(producer, consumer)
    else:
        first = producer.tile_row_of(consumer.first_row(y))
    return _span(first, _end(producer, consumer), consumer.count, "y")


def _of_same_sequence(producer: TileRows, consumer: TileRows) -> Span:
    """The same where both are cut anew in every sequence."""
    if producer.per_sequence == consumer.per_sequence == 1:
        return y
    sequence = consumer.sequence_of(y)
    block, begin = y - sequence * consumer.per_sequence, sequence * producer.per_sequence
    first = begin + quotient(block, consumer.height, 0, producer.height)
    end = begin + quotient(block, consumer.height, consumer.height + producer.height - 1, producer.height)
    return _span(first, end.at_most(begin + producer.per_sequence), consumer.count, "y")


def rows_so_far(producer: TileRows, consumer: TileRows) -> Span:
    """The same from the first row of the sequence on, of a producer that knows no sequences."""
    first = quotient(consumer.sequence_of(y), consumer.length, 0, producer.height)
    is_one = consumer.length == consumer.m
    return _span(as_index(0) if is_one else first, _end(producer, consumer), consumer.count, "y")


def _end(producer: TileRows, consumer: TileRows) -> Index:
    """One past the producer's last tile row that holds a row of the consumer's tile row y."""
    height = producer.height
    if not producer.is_even:
        return producer.tile_row_of(consumer.end_row(y) - 1) + 1
    if not consumer.is_even:
        return (consumer.end_row(y) + (height - 1)) // height
    end = quotient(y, consumer.height, consumer.height + height - 1, height)
    return end if end.evaluate(0, consumer.count - 1) <= producer.count else end.at_most(producer.count)


def columns_between(coordinate: Index, width: int, offset: int, tile_width: int, count: int) -> Span:
    """The tile columns, `tile_width` wide, that hold `width` columns from `coordinate * width + offset` on.

    `coordinate` is an expression over x, which has `count` values.
    """
    first = quotient(coordinate, width, offset, tile_width)
    end = quotient(coordinate, width, offset + width - 1 + tile_width, tile_width)
    return _span(first, end, count, "x")


def quotient(coordinate: Index, factor: int, offset: int, divisor: int) -> Index:
    """(coordinate * factor + offset) // divisor, without what cancels out."""
    if factor % divisor == 0:
        return _plus(_times(coordinate, factor // divisor), offset // divisor)
    if divisor % factor == 0 and offset % factor == 0:
        return _plus(coordinate, offset // factor) // (divisor // factor)
    return _plus(coordinate * factor, offset) // divisor


def _times(index: Index, factor: int) -> Index:
    return index if factor == 1 else index * factor


def _plus(index: Index, offset: int) -> Index:
    return index + offset if offset else index


def _span(first: Index, end: Index, count: int, name: str) -> Span:
    """From `first` up to `end`; `first` alone where that is all, for every value of the coordinate."""
    axis = Axis(first, end, is_slice=True)
    coordinates = [(i, 0) if name == "x" else (0, i) for i in range(count)]
    is_one = all(stop == start + 1 for start, stop in (axis.resolve(*at, 0) for at in coordinates))
    return first if is_one else slice(first, end)
