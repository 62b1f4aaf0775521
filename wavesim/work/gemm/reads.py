"""Which tiles a GEMM reads of the one that computes its A operand.

Example: in an MLP, tile (x, y) of the second GEMM reads the whole tile row y of the first: `gemm1[:, y]`.
"""

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency
from wavesim.model.index import Index, x, y
from wavesim.model.stage import Stage


def gemm_rows(producer: Stage, consumer: Stage) -> Dependency:
    """The dependency of a GEMM on the GEMM that computes its A operand: all tile columns of the rows it
    reads.

    Tile heights may differ; the rows are then those that overlap. Raises `DescriptionError`
    unless the consumer's k is the producer's number of columns and both have the same m.
    """
    first, second = producer.gemm, consumer.gemm
    if first.columns != second.k or first.m != second.m:
        raise DescriptionError(
            f"{consumer.name} reads A ({second.m}, {second.k}) but {producer.name} makes ({first.m}, "
            f"{first.columns}); "
            "they must be equal"
        )
    return Dependency(consumer[x, y], [producer[:, rows_read(producer, consumer)]])


def rows_read(producer: Stage, consumer: Stage) -> Index | slice:
    """The producer's tile rows that hold the rows of consumer tile (x, y): y itself where tiles are as high.

    Example: tiles of 160 rows, read in tiles of 128: the second tile reads rows 128 to 255, of tiles 0 and 1.
    """
    first, second = producer.gemm, consumer.gemm
    if first.tile_m == second.tile_m:
        return y
    top = (y * second.tile_m) // first.tile_m
    end = (y * second.tile_m + (second.tile_m + first.tile_m - 1)) // first.tile_m
    return slice(top, end.at_most(producer.grid.y))
