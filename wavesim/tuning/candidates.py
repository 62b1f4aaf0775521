"""Candidates: the plans that tuning tries, each once, without those that can deadlock.

Example: 40 policies x 13 orders of the GPT-3 MLP at M = 2048, and stream sync in every order. Column-major
is the same as grouped by 16 rows there, so it is not tried twice.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product

from wavesim.codegen.orders import order_sets
from wavesim.codegen.policies import DerivedPolicy, derive_policies, renumbered
from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.kernel import Grid
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch, Launch
from wavesim.plan.order import Order, RowMajor, parse_order
from wavesim.plan.parsing import (
    LAYER_SCHEDULES_TO_TRY,
    LAYER_SEMAPHORES_TO_TRY,
    SCHEDULES_TO_TRY,
    SEMAPHORES_TO_TRY,
)
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync, check_plan
from wavesim.plan.policy import Policy
from wavesim.plan.schedule import Schedule
from wavesim.plan.semaphores import Edge, edges_of, semaphore_arrays
from wavesim.plan.sync import Semaphores
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import SafetyVerdict
from wavesim.tuning.same_code import code_hash
from wavesim.workloads.layer_backends import is_chained, is_layer

EdgePolicies = dict[Edge, DerivedPolicy]
ALL_COMBINATIONS = 64  # of the edges' policies; beyond it one edge is varied at a time


@dataclass(frozen=True)
class Candidate:
    """A plan to be tried that is safe. `order` names its choice of orders; `semaphores` counts them."""

    name: str
    pipeline: Pipeline
    plan: Plan
    order: str
    semaphores: int
    safety: SafetyVerdict


@dataclass
class Fingerprints:
    """Digests of what decides a plan's schedule.

    Orders, policies and descriptions, which plans share, are digested once: else writing them out, thousands
    of tile times among it, takes a tenth as long as the simulation.
    """

    _known: dict[tuple[str, int], str] = field(default_factory=dict)
    _kept: list[object] = field(default_factory=list)  # so that no id is used twice

    def of(self, candidate: Candidate, device: Device, costs: CostModel) -> str:
        """Equal for plans that must give the same schedule, from run to run of the same version."""
        pipeline, plan = candidate.pipeline, candidate.plan
        parts = [code_hash(), self._fields(device), self._fields(costs)]
        parts += map(self._fields, pipeline.stages)
        parts += [str(dependency) for dependency in pipeline.dependencies]
        parts += [self._order(stage.name, stage.grid, plan.order_of(stage.name)) for stage in pipeline.stages]
        parts += [plan.schedule.word, plan.launch.word, str(plan.prefetch), str(plan.sync.has_semaphores)]
        if plan.sync.has_semaphores:
            for producer, consumer in edges_of(pipeline):
                policy, grid = plan.policy_of(producer, consumer), pipeline.stage(producer).grid
                parts.append(self._once(f"{grid}", policy, partial(_map, policy, grid)))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]

    def _order(self, stage: str, grid: Grid, order: Order) -> str:
        blocks = self._once(
            f"{stage} {grid}", order, lambda: repr(order.blocks(grid))
        )  # splits of a tile too
        return f"{stage} {grid} {blocks}"

    def _fields(self, description: Device | CostModel | Stage) -> str:
        return self._once("fields", description, lambda: _every_field(description))

    def _once(self, what: str, owner: object, text: Callable[[], str]) -> str:
        """The digest of a text that says something of an object, written out once for each object."""
        key = (what, id(owner))
        if key not in self._known:
            self._kept.append(owner)
            self._known[key] = hashlib.sha256(text().encode()).hexdigest()
        return self._known[key]


def _map(policy: Policy, grid: Grid) -> str:
    return repr(renumbered(policy.table(grid).semaphore_of_tile))


def _every_field(description: Device | CostModel | Stage) -> str:
    return f"{type(description).__name__} {asdict(description)!r}"


def boundary_candidates(pipeline: Pipeline, device: Device) -> list[Candidate]:
    """Plans without semaphores in every order: stream sync, other schedules, dependent launch.

    None of chained products, which differ from the usual kernels under semaphores alone.
    """
    if is_chained(pipeline):
        return []
    schedules = LAYER_SCHEDULES_TO_TRY if is_layer(pipeline) else SCHEDULES_TO_TRY
    plans = (Plan(), *(Plan(schedule) for schedule in schedules), Plan(launch=DependentLaunch()))
    verdicts = [(plan, safety_of(pipeline, plan, device)) for plan in plans]
    return [
        Candidate(f"{plan.name} {name}", pipeline, _with_orders(plan, orders), name, 0, safety)
        for plan, safety in verdicts
        if plan.is_stream_sync or pipeline.dependencies
        for name, orders in order_sets(pipeline).items()
        if not (plan.schedule.is_split_persistent and any(stage.grid.z > 1 for stage in pipeline.stages))
    ]


def semaphore_candidates(pipeline: Pipeline, device: Device) -> tuple[list[Candidate], int]:
    """(semaphore plans in every order that cannot deadlock, how many can): every choice of policies."""
    if not pipeline.dependencies:
        return [], 0
    plans = [Plan(schedule, launch, Semaphores()) for schedule, launch in _to_try(pipeline)]
    verdicts = [(plan, safety_of(pipeline, plan, device)) for plan in plans]
    safe_plans = [(plan, safety) for plan, safety in verdicts if safety.is_safe]
    tried = list(_tried(pipeline))
    safe = [
        _candidate(pipeline, plan, choice, name, order, safety)
        for name, order, choice in tried
        for plan, safety in safe_plans
    ]
    return safe, (len(plans) - len(safe_plans)) * len(tried)


def _tried(pipeline: Pipeline) -> Iterator[tuple[str, Mapping[str, Order], EdgePolicies]]:
    """(name of the orders, orders, policies): of many edges single ones are varied in few orders."""
    bases, varied = policy_choices(pipeline)
    orders = order_sets(pipeline)
    edge_orders = [name for name in orders if name == "row" or "=" in name]
    for name, order in orders.items():
        for choice in (*bases, *(varied if name in edge_orders else ())):
            yield name, order, choice


def _to_try(pipeline: Pipeline) -> list[tuple[Schedule, Launch]]:
    tries = LAYER_SEMAPHORES_TO_TRY if is_layer(pipeline) else SEMAPHORES_TO_TRY
    return [
        (schedule, launch) for schedule, launch in tries if not is_chained(pipeline) or launch.is_dependent
    ]


def given_candidate(pipeline: Pipeline, plan: Plan, safety: SafetyVerdict) -> Candidate:
    """A caller's own plan, with its verdict.

    Raises `DescriptionError` for orders and policies that fail or don't fit.
    """
    check_plan(pipeline, plan)
    for stage in pipeline.stages:
        plan.order_of(stage.name).sequence(stage.grid)
    count = sum(array.table.count for array in semaphore_arrays(pipeline, plan))
    orders = "+".join(order.name for order in plan.orders.values()) or plan.order.name
    share = f" {100 * plan.prefetch:g} % prefetched" if plan.prefetch and plan.sync.has_semaphores else ""
    return Candidate(_name(plan.sync.word, orders, plan) + share, pipeline, plan, orders, count, safety)


def _candidate(
    pipeline: Pipeline,
    kind: Plan,
    choice: Mapping[Edge, DerivedPolicy],
    order: str,
    orders: Mapping[str, Order],
    safety: SafetyVerdict,
) -> Candidate:
    names = list(dict.fromkeys(entry.name for entry in choice.values()))
    first = next(iter(choice.values())).policy
    others = {edge: entry.policy for edge, entry in choice.items() if entry.policy != first}
    plan = _with_orders(replace(kind, sync=Semaphores(first, others)), orders)
    count = sum(entry.table.count for entry in choice.values())
    return Candidate(_name("+".join(names), order, plan), pipeline, plan, order, count, safety)


def _name(policies: str, orders: str, plan: Plan) -> str:
    """Policies, orders and what sets the plan apart from streams with a wait-kernel: `row grouped:4 pdl`."""
    if not plan.sync.has_semaphores:
        return f"{plan.name} {orders}"
    usual = SemaphoreSync()
    unusual = [
        ours.word for ours, theirs in zip(plan.parts[:2], usual.parts[:2], strict=True) if ours != theirs
    ]
    words = [word.removeprefix("streams:") for word in unusual]
    return " ".join((policies, orders, *(words if not plan.schedule.is_fused else ["fused"])))


def _with_orders(plan: Plan, orders: Mapping[str, Order]) -> Plan:
    values = list(orders.values())
    if all(order == values[0] for order in values):
        return replace(plan, order=values[0])
    return replace(plan, order=RowMajor(), orders=dict(orders))


def policy_choices(pipeline: Pipeline) -> tuple[list[EdgePolicies], list[EdgePolicies]]:
    """A policy for every edge: (all combinations, none) where they are few.

    Else (tile, row and kernel boundaries throughout, those with one edge of another notable policy).
    """
    edges = edges_of(pipeline)
    derived = {edge: derive_policies(pipeline, edge) for edge in edges}
    total = 1
    for entries in derived.values():
        total *= len(entries)
    if len(edges) == 1 or total <= ALL_COMBINATIONS:
        return [dict(zip(edges, combination, strict=True)) for combination in product(*derived.values())], []
    bases = [{edge: _named(derived[edge], name) for edge in edges} for name in ("tile", "row")]
    varied = [
        base | {edge: entry}
        for base in bases
        for edge in edges
        for entry in derived[edge]
        if entry is not base[edge]
        and (entry.paper_name or entry.name == "together" or entry is derived[edge][-1])
    ]
    return [*bases, {edge: derived[edge][-1] for edge in edges}], varied


def _named(entries: tuple[DerivedPolicy, ...], name: str) -> DerivedPolicy:
    """The policy of that name, else the finest: on a grid of one column "row" is "tile"."""
    return next((entry for entry in entries if entry.name == name), entries[0])


ORDERS = ("row", "column", "grouped:4", "grouped:8")
POLICY_COUNT = 6


def listed_plans(pipeline: Pipeline) -> dict[str, Plan]:
    """Stream sync and six policies, from one semaphore per tile to one for all, in four orders, by name."""
    edge = edges_of(pipeline)[0]
    policies = _spread(pipeline, edge)
    plans: dict[str, Plan] = {}
    for name in ORDERS:
        order = parse_order(name)
        plans[f"stream {name}"] = StreamSync(order)
        plans |= {f"{policy.name} {name}": SemaphoreSync(policy, order=order) for policy in policies}
    return plans


def _spread(pipeline: Pipeline, edge: Edge) -> list[Policy]:
    derived = derive_policies(pipeline, edge)
    named = [entry for entry in derived if entry.paper_name]
    others = [entry for entry in derived if not entry.paper_name]
    count = min(len(others), POLICY_COUNT - len(named))
    picked = [others[round(i * (len(others) - 1) / max(1, count - 1))] for i in range(count)]
    return [entry.policy for entry in [*named, *picked]]
