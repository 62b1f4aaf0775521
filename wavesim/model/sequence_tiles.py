"""Tile rows of a matrix whose rows are sequences, and which of them hold the rows of another's tile.

Example: with two sequences of 200 rows, a product over all 400 rows in tiles of 128 has 4 tile rows, and
attention, whose tiles hold rows of one sequence only, has 2 for each. Its tile row 2, rows 200 to 327, needs
tile rows 1 and 2 of the product.
"""

from dataclasses import dataclass, replace

from wavesim.model.index import Index, y


@dataclass(frozen=True)
class SequenceTiles:
    """Tile rows of `tile_m` rows; the last of a sequence of `length` rows may have fewer."""

    sequences: int
    length: int
    tile_m: int

    @property
    def total(self) -> int:
        """Rows in all."""
        return self.sequences * self.length

    @property
    def row_blocks(self) -> int:
        """Tile rows of a sequence."""
        return -(-self.length // self.tile_m)

    @property
    def is_uniform(self) -> bool:
        """Whether no sequence but the last ends within a tile: tile rows are as of a single sequence."""
        return self.sequences == 1 or self.length % self.tile_m == 0

    @property
    def begin(self) -> Index:
        """The first row of the sequence of tile row y."""
        return y // self.row_blocks * self.length

    def rows(self) -> tuple[Index, Index]:
        """The rows of tile row y, half-open."""
        if self.is_uniform:
            return y * self.tile_m, (y * self.tile_m + self.tile_m).at_most(self.total)
        if self.row_blocks == 1:
            return y * self.length, y * self.length + self.length
        top = self.begin + (y - y // self.row_blocks * self.row_blocks) * self.tile_m
        return top, (top + self.tile_m).at_most(self.begin + self.length)

    def tiles_of(self, top: Index, end: Index) -> slice:
        """The tile rows that hold rows `top` up to, not including, `end`."""
        return slice(self._tile_of(top), self._tile_of(end - 1) + 1)

    def read_by(self, consumer: "SequenceTiles") -> Index | slice:
        """The tile rows that hold the rows of the consumer's tile row y; y where both are cut alike."""
        mine, theirs = self, consumer
        if mine.is_uniform and theirs.is_uniform:
            mine, theirs = (replace(one, sequences=1, length=self.total) for one in (mine, theirs))
        if (mine.sequences, mine.length) == (theirs.sequences, theirs.length):
            if mine.row_blocks == theirs.row_blocks == 1:
                return y
            if mine.tile_m % theirs.tile_m == 0:
                return mine._taller(theirs)  # noqa: SLF001  # of its own class
            if theirs.tile_m % mine.tile_m == 0:
                return mine._shorter(theirs)  # noqa: SLF001
        return mine.tiles_of(*theirs.rows())

    def _taller(self, consumer: "SequenceTiles") -> Index:
        """The tile row that holds the consumer's tile row y, of the same sequences."""
        ratio = self.tile_m // consumer.tile_m
        if ratio == 1 or self.sequences == 1:
            return y if ratio == 1 else y // ratio
        sequence = y // consumer.row_blocks
        return sequence * self.row_blocks + (y - sequence * consumer.row_blocks) // ratio

    def _shorter(self, consumer: "SequenceTiles") -> slice:
        """The tile rows that the consumer's tile row y holds, of the same sequences."""
        ratio = consumer.tile_m // self.tile_m
        if self.sequences == 1:
            return slice(y * ratio, (y * ratio + ratio).at_most(self.row_blocks))
        begin = y // consumer.row_blocks * self.row_blocks
        first = begin + (y - y // consumer.row_blocks * consumer.row_blocks) * ratio
        return slice(first, (first + ratio).at_most(begin + self.row_blocks))

    def _tile_of(self, row: Index) -> Index:
        if self.is_uniform:
            return row // self.tile_m
        sequence = row // self.length
        if self.row_blocks == 1:
            return sequence
        return sequence * self.row_blocks + (row - sequence * self.length) // self.tile_m
