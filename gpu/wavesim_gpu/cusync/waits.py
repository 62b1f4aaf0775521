"""When a consuming GEMM's blocks need which producer tile, in K chunks: the list that the device follows.

Example: under tile semaphores a consumer tile of row 3 walks the list (chunk 0: tile (0, 3)), (chunk 8: tile
(1, 3)), ... down its K loop; under row semaphores the list has one entry. Which semaphore that is, and its
value, the generated header says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency
from wavesim.model.kernel import Gemm
from wavesim.model.stage import Stage, TileSet
from wavesim.plan.order import Tile
from wavesim.plan.semaphores import SemaphoreArray
from wavesim.plan.waits import Position, waits_of

LAST = np.iinfo(np.int32).max
WINDOW = 32  # steps that one warp looks at together


@dataclass(frozen=True)
class WaitSchedule:
    """Steps (at, input, x, y) in int32; `first` indexes row * slices + slice.

    Each list is padded to a multiple of `WINDOW` with at least one closing step, at = LAST, input = -1.
    """

    steps: NDArray[np.int32]
    first: NDArray[np.int32]


def wait_schedule(stage: Stage, dependency: Dependency, inputs: Mapping[str, SemaphoreArray]) -> WaitSchedule:
    """When each row and slice of a consuming GEMM awaits what. `inputs`: the semaphores of each producer.

    Raises `DescriptionError` if the dependency does not cover the A operand that the tiles read.
    """
    _require_no_columns(dependency)
    gemm, numbers = stage.gemm, list(inputs)
    columns = {need.stage.name: need.stage.grid.x for need in dependency.needs}

    def semaphore_of(producer: str, tile: Tile) -> int:
        array = inputs[producer]
        return array.first + array.table.semaphore_of_tile[tile[1] * columns[producer] + tile[0]]

    steps: list[tuple[int, int, int, int]] = []
    first: list[int] = []
    for row in range(gemm.grid.y):
        _require_cover(stage, dependency, row)
        for split in range(gemm.split_k):
            first.append(len(steps))
            waits = waits_of(dependency, (0, row), semaphore_of, _chunk_position(gemm, split))
            steps += [(wait.done, numbers.index(wait.producer), *wait.tile) for wait in waits]
            steps += [(int(LAST), -1, 0, 0)] * (WINDOW - (len(steps) - first[-1]) % WINDOW)
    return WaitSchedule(np.asarray(steps, np.int32), np.asarray(first, np.int32))


def chunk_range(gemm: Gemm, split: int) -> tuple[int, int]:
    """The K chunks, half-open, that slice `split` computes; the device divides the same way."""
    chunks = -(-gemm.k // gemm.tile_k)
    return chunks * split // gemm.split_k, chunks * (split + 1) // gemm.split_k


def _chunk_position(gemm: Gemm, split: int) -> Position:
    """The first of the slice's K chunks that reads a producer's tile column."""
    begin, end = chunk_range(gemm, split)

    def position(need: TileSet, _j: int, _n: int, tile: Tile) -> tuple[int, int] | None:
        producer = need.stage.gemm
        width = producer.tile_n * producer.columns // producer.n  # SwiGLU keeps half of a tile's columns
        start = tile[0] * width // gemm.tile_k
        stop = -(-min((tile[0] + 1) * width, producer.columns) // gemm.tile_k)
        return None if stop <= begin or start >= end else (max(start, begin), 1)

    return position


def _require_no_columns(dependency: Dependency) -> None:
    for need in dependency.needs:
        if need.uses("x"):
            raise DescriptionError(
                f"{need}: a GEMM's A operand does not depend on the consumer's column, and the GPU runner "
                "waits for A only. Write it without x"
            )


def _require_cover(stage: Stage, dependency: Dependency, row: int) -> None:
    gemm = stage.gemm
    declared = set(dependency.producer_tiles(0, row))
    for name in dependency.producers:
        producer = next(need.stage for need in dependency.needs if need.stage.name == name).gemm
        if (producer.m, producer.columns, producer.dtype) != (gemm.m, gemm.k, gemm.dtype):
            raise DescriptionError(
                f"{stage.name} reads A ({gemm.m}, {gemm.k}) {gemm.dtype} but {name} makes "
                f"({producer.m}, {producer.columns}) {producer.dtype}; they must be equal"
            )
        top, bottom = row * gemm.tile_m, min((row + 1) * gemm.tile_m, gemm.m)
        for y in range(top // producer.tile_m, -(-bottom // producer.tile_m)):
            for x in range(producer.grid.x):
                if (name, (x, y)) not in declared:
                    raise DescriptionError(
                        f"{dependency}: tile row {row} of {stage.name} reads tile {(x, y)} of {name}, which "
                        "is not among its needs. Use gemm_rows(producer, consumer)"
                    )
