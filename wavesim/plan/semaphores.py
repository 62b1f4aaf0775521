"""Semaphore arrays: which semaphores a plan needs, each producer's in one run of counters.

Example: a producer with two consumers under row semaphores has one array that both wait on; under two
policies it has two, and posts both. The simulator and the generated code number them from here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wavesim.model.kernel import Grid
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Tile
from wavesim.plan.plan import Plan
from wavesim.plan.policy import Policy, SemaphoreTable

Edge = tuple[str, str]  # producer, consumer


@dataclass(frozen=True)
class SemaphoreArray:
    """The semaphores of one producer under one policy, at `first` of all; shared by its edges."""

    producer: str
    policy: Policy
    table: SemaphoreTable
    first: int
    grid: Grid
    edges: tuple[Edge, ...] = ()

    def semaphore(self, tile: Tile) -> int:
        """The semaphore, of all, that a tile posts."""
        return self.first + self.table.semaphore_of_tile[tile[1] * self.grid.x + tile[0]]

    @property
    def values(self) -> tuple[int, ...]:
        """The value of each semaphore at which its tiles are ready."""
        values = [0] * self.table.count
        for semaphore, value in zip(self.table.semaphore_of_tile, self.table.value_of_tile, strict=True):
            values[semaphore] = value
        return tuple(values)


def edges_of(pipeline: Pipeline) -> tuple[Edge, ...]:
    """(producer, consumer) of every dependency."""
    return tuple((p, d.consumer.stage.name) for d in pipeline.dependencies for p in d.producers)


def semaphore_arrays(pipeline: Pipeline, plan: Plan) -> tuple[SemaphoreArray, ...]:
    """One array per producer and policy, in the order of the dependencies; none without semaphores."""
    if not plan.sync.has_semaphores:
        return ()
    edges: dict[tuple[str, Policy], list[Edge]] = {}
    for producer, consumer in edges_of(pipeline):
        edges.setdefault((producer, plan.policy_of(producer, consumer)), []).append((producer, consumer))
    arrays: list[SemaphoreArray] = []
    first = 0
    for (producer, policy), members in edges.items():
        grid = pipeline.stage(producer).grid
        table = policy.table(grid)
        arrays.append(SemaphoreArray(producer, policy, table, first, grid, tuple(members)))
        first += table.count
    return tuple(arrays)


def semaphore_name(arrays: Sequence[SemaphoreArray], semaphore: int) -> str:
    """A semaphore in words: which stage's, which policy's, which index."""
    array = next(array for array in reversed(arrays) if array.first <= semaphore)
    return f"{array.producer} {array.policy.name}[{semaphore - array.first}]"
