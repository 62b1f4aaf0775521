"""What each stage posts and awaits, as tables: the host's half of a policy.

Picture: under tile semaphores a consumer tile of row 3 walks the list (chunk 0: semaphore 72), (chunk 8:
semaphore 73), ... down its K loop; under row semaphores the list has one entry. The device only follows
the list, so every policy, tile order and tile shape works alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline, Stage
from wavesim.model.plan import SemaphoreSync, StreamSync
from wavesim.model.policy import SemaphoreTable
from wavesim.trace import DependencyInfo
from wavesim_gpu.kernels.gemm import chunk_range
from wavesim_gpu.layout import MAX_INPUTS, MAX_OUTPUTS, MAX_STAGES

LAST = np.iinfo(np.int32).max
WINDOW = 32  # steps that one warp looks at together
Edge = tuple[str, str]  # producer, consumer


@dataclass(frozen=True)
class Link:
    """One producer-consumer pair under a policy; its semaphores start at `first` in the pool."""

    producer: str
    consumer: str
    policy: str
    table: SemaphoreTable
    first: int

    @property
    def semaphores(self) -> NDArray[np.int32]:
        """Pool index of each producer tile's semaphore, row-major."""
        return np.asarray(self.table.semaphore_of_tile, np.int32) + self.first

    @property
    def facts(self) -> NDArray[np.int32]:
        """(tiles, 2): pool index and awaited value of each producer tile."""
        values = np.asarray(self.table.value_of_tile, np.int32)
        return np.ascontiguousarray(np.stack([self.semaphores, values], axis=1))

    @property
    def finals(self) -> NDArray[np.int32]:
        """What each semaphore must read once everything is done: its number of posts."""
        return np.bincount(self.table.semaphore_of_tile, minlength=self.table.count).astype(np.int32)

    @property
    def info(self) -> DependencyInfo:
        """The same for a trace's header."""
        awaited = np.zeros(self.table.count, np.int64)
        awaited[list(self.table.semaphore_of_tile)] = self.table.value_of_tile
        return DependencyInfo(
            self.producer, self.consumer, self.policy, self.table.semaphore_of_tile, tuple(map(int, awaited))
        )


def links(pipeline: Pipeline, plan: SemaphoreSync | StreamSync) -> tuple[Link, ...]:
    """Every producer-consumer pair with its semaphores; none under stream sync.

    Raises `DescriptionError` where the device's fixed tables are too small.
    """
    if isinstance(plan, StreamSync):
        return ()
    found: list[Link] = []
    first = 0
    for dependency in pipeline.dependencies:
        consumer = dependency.consumer.stage.name
        for producer in dependency.producers:
            policy = plan.policy_of(producer, consumer)
            table = policy.table(pipeline.stage(producer).grid)
            found.append(Link(producer, consumer, policy.name, table, first))
            first += table.count
    _require_fit(pipeline, found)
    return tuple(found)


def _require_fit(pipeline: Pipeline, found: list[Link]) -> None:
    if len(pipeline.stages) > MAX_STAGES:
        raise DescriptionError(
            f"pipeline {pipeline.name} has {len(pipeline.stages)} stages; the GPU runner takes at "
            f"most {MAX_STAGES}. Split it"
        )
    for stage in pipeline.stages:
        inputs = sum(link.consumer == stage.name for link in found)
        outputs = sum(link.producer == stage.name for link in found)
        if inputs > MAX_INPUTS or outputs > MAX_OUTPUTS:
            raise DescriptionError(
                f"stage {stage.name} has {inputs} producers and {outputs} consumers; the GPU runner takes "
                f"at most {MAX_INPUTS} and {MAX_OUTPUTS}. Put a stage between"
            )


def semaphore_name(found: tuple[Link, ...], stages: tuple[str, ...], index: int) -> str:
    """The semaphore of that pool index in words, for errors; negative ones are stage starts."""
    if index < 0:
        return f"start of {stages[-1 - index]}"
    link = next(link for link in reversed(found) if link.first <= index)
    return f"{link.producer} {link.policy}[{index - link.first}]"


@dataclass(frozen=True)
class WaitSchedule:
    """Steps (at, semaphore, awaited, 0); `first` indexes row * slices + slice.

    Each list is padded to a multiple of `WINDOW` with at least one closing step, at = LAST, awaited = 0.
    """

    steps: NDArray[np.int32]
    first: NDArray[np.int32]


def wait_schedule(stage: Stage, dependency: Dependency, links_by_edge: Mapping[Edge, Link]) -> WaitSchedule:
    """When each row and slice of a consuming GEMM awaits what, in K chunks.

    Raises `DescriptionError` if the dependency does not cover the A operand that the tiles read.
    """
    gemm = stage.gemm
    needs = _needs_by_row(stage, dependency)
    steps: list[tuple[int, int, int, int]] = []
    first: list[int] = []
    for row in range(gemm.grid.y):
        for split in range(gemm.split_k):
            first.append(len(steps))
            steps += _steps(needs[row], chunk_range(gemm, split), stage.name, links_by_edge)
            steps += [(int(LAST), 0, 0, 0)] * (WINDOW - (len(steps) - first[-1]) % WINDOW)
    return WaitSchedule(np.asarray(steps, np.int32), np.asarray(first, np.int32))


def _steps(
    needs: list[tuple[int, int, str, int]],
    chunks: tuple[int, int],
    consumer: str,
    links_by_edge: Mapping[Edge, Link],
) -> list[tuple[int, int, int, int]]:
    """One slice's steps: each semaphore once, at the first chunk that needs it."""
    begin, end = chunks
    found: dict[int, tuple[int, int, int, int]] = {}
    for start, stop, producer, tile in sorted(needs):
        if stop <= begin or start >= end:
            continue
        table = links_by_edge[(producer, consumer)]
        semaphore = table.first + table.table.semaphore_of_tile[tile]
        found.setdefault(semaphore, (max(start, begin), semaphore, table.table.value_of_tile[tile], 0))
    return list(found.values())


def _needs_by_row(stage: Stage, dependency: Dependency) -> list[list[tuple[int, int, str, int]]]:
    """Per row of the consumer's tiles: (first chunk, end chunk, producer, its tile) of all it declares."""
    gemm = stage.gemm
    for need in dependency.needs:
        if need.uses("x"):
            raise DescriptionError(
                f"{need}: a GEMM's A operand does not depend on the consumer's column, and the GPU runner "
                "waits for A only. Write it without x"
            )
    rows = []
    for row in range(gemm.grid.y):
        needs = []
        for need in dependency.needs:
            producer = need.stage.gemm
            left, right, top, bottom = need.box(0, row)
            for column in range(left, right):
                chunks = _chunks_of(gemm, producer, column)
                needs += [
                    (*chunks, need.stage.name, y * producer.grid.x + column) for y in range(top, bottom)
                ]
        _require_cover(stage, dependency, row, {need[2:] for need in needs})
        rows.append(needs)
    return rows


def _chunks_of(gemm: Gemm, producer: Gemm, column: int) -> tuple[int, int]:
    """The consumer's K chunks that read a tile column of its producer."""
    begin, end = column * producer.tile_n, min((column + 1) * producer.tile_n, producer.n)
    return begin // gemm.tile_k, -(-end // gemm.tile_k)


def _require_cover(stage: Stage, dependency: Dependency, row: int, declared: set[tuple[str, int]]) -> None:
    gemm = stage.gemm
    for name in dependency.producers:
        producer = next(need.stage for need in dependency.needs if need.stage.name == name).gemm
        if (producer.m, producer.n, producer.dtype) != (gemm.m, gemm.k, gemm.dtype):
            raise DescriptionError(
                f"{stage.name} reads A ({gemm.m}, {gemm.k}) {gemm.dtype} but {name} makes "
                f"({producer.m}, {producer.n}) {producer.dtype}; they must be equal"
            )
        top, bottom = row * gemm.tile_m, min((row + 1) * gemm.tile_m, gemm.m)
        for y in range(top // producer.tile_m, -(-bottom // producer.tile_m)):
            for x in range(producer.grid.x):
                if (name, y * producer.grid.x + x) not in declared:
                    raise DescriptionError(
                        f"{dependency}: tile row {row} of {stage.name} reads tile {(x, y)} of {name}, which "
                        "is not among its needs. Use gemm_rows(producer, consumer)"
                    )
