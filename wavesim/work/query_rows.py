"""Work by tiles of query rows of one head of one sequence: attention, its products, its softmax."""

from wavesim.model.kernel import Grid, TiledWork


class QueryRows(TiledWork):
    """A tile is `tile_m` of the `length` rows of one of `sequences`, and one of `heads`."""

    sequences: int
    length: int
    heads: int
    tile_m: int

    @property
    def row_blocks(self) -> int:
        """Tiles of a head of one sequence."""
        return -(-self.length // self.tile_m)

    @property
    def grid(self) -> Grid:
        """Heads x sequences' row blocks."""
        return Grid(self.heads, self.sequences * self.row_blocks)

    @property
    def m(self) -> int:
        """Rows of the output."""
        return self.sequences * self.length

    def query_rows(self, y: int) -> tuple[int, int, int]:
        """Sequence of tile row y, and its query rows within the sequence, half-open."""
        sequence, block = divmod(y, self.row_blocks)
        return sequence, block * self.tile_m, min((block + 1) * self.tile_m, self.length)
