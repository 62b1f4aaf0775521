"""Semaphore arrays: which semaphores a plan needs, each producer's in one run of counters.

Picture: a producer with two consumers under row semaphores has one array that both wait on; under two
policies it has two, and posts both.
"""

from dataclasses import dataclass

from wavesim.gen.policies import Edge, edges_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync
from wavesim.model.policy import Policy, SemaphoreTable


@dataclass(frozen=True)
class Array:
    """The semaphores of one producer under one policy, at `first` of the counters; shared by its edges."""

    producer: str
    policy: Policy
    table: SemaphoreTable
    first: int
    edges: tuple[Edge, ...]


def arrays_of(pipeline: Pipeline, plan: Plan) -> tuple[Array, ...]:
    """One array per producer and policy, in the order of the dependencies; none under stream sync."""
    if not isinstance(plan, SemaphoreSync):
        return ()
    edges: dict[tuple[str, Policy], list[Edge]] = {}
    for producer, consumer in edges_of(pipeline):
        edges.setdefault((producer, plan.policy_of(producer, consumer)), []).append((producer, consumer))
    arrays: list[Array] = []
    first = 0
    for (producer, policy), members in edges.items():
        table = policy.table(pipeline.stage(producer).grid)
        arrays.append(Array(producer, policy, table, first, tuple(members)))
        first += table.count
    return tuple(arrays)
