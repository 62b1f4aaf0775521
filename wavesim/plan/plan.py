"""Plans: how a pipeline is scheduled, launched and synchronised, as a value of independent answers.

Example: `StreamSync()` is `Plan(TilePerBlock(), OneStream(), KernelBoundary())`: a block per tile, one
stream, each kernel after the whole of the one before. `SemaphoreSync(RowSync())` is
`Plan(launch=StreamPerStage(), sync=Semaphores(RowSync()))`, and row semaphores by dependent launch on one
stream are `Plan(launch=DependentLaunch(), sync=Semaphores(RowSync()))`. What a plan means is asked of its
parts; combinations that make no sense are refused when they are built.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.reprs import call_text
from wavesim.plan.launch import Launch, LaunchTurn, OneStream, StreamPerStage, Submission
from wavesim.plan.order import Order, RowMajor
from wavesim.plan.parts import PlanPart, Traits
from wavesim.plan.policy import GridSync, Policy, RowSync
from wavesim.plan.schedule import Schedule, TilePerBlock
from wavesim.plan.sync import KernelBoundary, Semaphores, Sync

# Words of their own for the plans that people ask for most, by schedule, launch and sync.
SHORT_NAMES = {
    ("tile", "one-stream", "boundary"): "stream",
    ("tile", "graph", "boundary"): "graph",
    ("tile", "host", "boundary"): "host",
    ("tile", "pdl", "boundary"): "pdl",
    ("persistent", "one-stream", "boundary"): "persistent-stream",
    ("fused", "one-stream", "row"): "persistent",
}
_KINDS: dict[str, tuple[type[PlanPart], str]] = {
    "schedule": (Schedule, "TilePerBlock(), Persistent() or another schedule"),
    "launch": (Launch, "OneStream(), StreamPerStage() or DependentLaunch()"),
    "sync": (Sync, "KernelBoundary() or Semaphores(RowSync())"),
}


@dataclass(frozen=True)
class Plan:
    """Who computes a tile, when a kernel starts, what a tile waits for, and in which order.

    `order` is each stage's tile order unless `orders` names another for a stage. Each waiting block first
    does the `prefetch` share of its work that reads no producer, 0 to 1: weights that it loads into shared
    memory (`Work.prefetch_share`). Raises `DescriptionError`, with reason and fix, for parts that
    do not fit together.
    """

    schedule: Schedule = TilePerBlock()
    launch: Launch = OneStream()
    sync: Sync = KernelBoundary()
    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)
    prefetch: float = 0.0

    def __post_init__(self) -> None:
        for name, (kind, known) in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise DescriptionError(f"Plan: {name} is {value!r}; use {known}")
        if not isinstance(self.orders, Mapping):
            raise DescriptionError(
                f"Plan: orders is {self.orders!r}; give a mapping from stage names to orders, such as "
                "{'gemm1': Grouped(8)}"
            )
        for value in (self.order, *self.orders.values()):
            if not isinstance(value, Order):
                raise DescriptionError(
                    f"Plan: order is {value!r}; use RowMajor(), Grouped(8) or parse_order('row')"
                )
        self._check_prefetch()
        self._check_parts()

    def _check_prefetch(self) -> None:
        is_number = isinstance(self.prefetch, int | float) and not isinstance(self.prefetch, bool)
        if not is_number or not 0 <= self.prefetch <= 1:
            raise DescriptionError(
                f"Plan: prefetch is {self.prefetch!r}; it is a share of the work, from 0 to 1"
            )
        if self.prefetch and self.runs_one_after_another:
            raise DescriptionError(
                f"Plan: prefetch is {self.prefetch}, but on one stream no block starts before its producers "
                "have ended. Use DependentLaunch() or StreamPerStage(), or prefetch=0"
            )

    def _check_parts(self) -> None:
        traits = Traits(self.schedule.is_fused, self.launch.is_multi_stream, self.sync.has_semaphores)
        for part in self.parts:
            reason = part.refusal(traits)
            if reason:
                others = " with ".join(repr(other) for other in self.parts if other is not part)
                raise DescriptionError(f"Plan: {part!r} does not go with {others}: {reason}")

    def __hash__(self) -> int:
        return hash((*self.parts, self.order, frozenset(self.orders), self.prefetch))

    def __repr__(self) -> str:
        return call_text(self)

    @property
    def parts(self) -> tuple[Schedule, Launch, Sync]:
        """The three answers."""
        return self.schedule, self.launch, self.sync

    @property
    def name(self) -> str:
        """Short word for tables and file names; `parse_plan` reads it back."""
        schedule, launch, sync = (part.word for part in self.parts)
        share = f"prefetch:{self.prefetch}" if self.prefetch else ""
        short = SHORT_NAMES.get((schedule, launch, sync))
        if short and not share:
            return short
        match schedule, launch, sync:
            case _, "one-stream", "grid" if self.schedule.has_work_lists and not share:
                return schedule
            case "fused", "one-stream", _ if not share:
                return f"persistent:{sync}"
            case "tile", "pdl", "boundary":
                return f"pdl:{self.prefetch}"
            case _, "one-stream", "boundary":
                return schedule
        words = ["" if schedule == "tile" else schedule, launch, share, sync]
        if words[:2] == ["", "streams"]:
            words = [share, sync]
        # What waits comes last: "tile" is a schedule before it and a policy there.
        return "+".join(word for word in words if word)

    @property
    def label(self) -> str:
        """The plan in words: "Row semaphores, dependent launch (PDL)"."""
        texts = [self.schedule.text, self.sync.text, self.launch.text]
        if texts[2] and not self.sync.has_semaphores:  # what is launched otherwise says how it waits
            texts = [texts[0], "" if self.launch.is_dependent else texts[1], texts[2]]
        share = f"{100 * self.prefetch:.2g} % prefetched" if self.prefetch else ""
        label = ", ".join(text for text in (*texts, share) if text)
        return label[0].upper() + label[1:]

    @property
    def caveat(self) -> str:
        """What its predictions rest on that has not been measured here; "" for plans that have been."""
        caveats = [part.caveat for part in self.parts if part.caveat]
        if self.prefetch and self.waits_for_grids:
            caveats.append("what it prefetches is predicted only")
        return f"{self.label}: {'; '.join(caveats)}" if caveats else ""

    @property
    def is_stream_sync(self) -> bool:
        """Whether each kernel waits for the whole of the one before, on one stream: the baseline."""
        is_boundary = not self.sync.has_semaphores and self.launch.turn.is_after_end
        return is_boundary and not self.schedule.is_persistent

    @property
    def runs_one_after_another(self) -> bool:
        """Whether each kernel starts only when the one before has ended."""
        return self.launch.turn.is_after_end and not self.schedule.is_fused

    @property
    def waits_for_grids(self) -> bool:
        """Whether kernels overlap and their blocks wait for the whole grid before (`griddepcontrol.wait`)."""
        return self.launch.is_dependent and not self.sync.has_semaphores

    def turn_of(self, pipeline: Pipeline, index: int) -> LaunchTurn:
        """When the turn of a pipeline's kernel number `index` comes, by the kernel launched just before it.

        By dependent launch only a kernel that waits for the one just before starts early: for its whole grid,
        or under semaphores for its tiles. Any other would end without it, and CUDA does not promise that what
        the stream does next waits for both; so it starts when the one before has ended.
        """
        if not index or not self.launch.is_dependent:
            return self.launch.turn if index else LaunchTurn.AT_ONCE
        dependency = pipeline.dependency_of(pipeline.stages[index].name)
        producers = dependency.producers if dependency is not None else ()
        is_early = pipeline.stages[index - 1].name in producers if self.sync.has_semaphores else producers
        return LaunchTurn.AFTER_START if is_early else LaunchTurn.AFTER_END

    def order_of(self, stage: str) -> Order:
        """The tile order of a stage."""
        return self.orders.get(stage, self.order)

    def policy_of(self, producer: str, consumer: str) -> Policy:
        """The policy of one dependency. Raises `DescriptionError` for a plan without semaphores."""
        return self.sync.policy_of(producer, consumer)


def StreamSync(  # noqa: N802  # reads as the plan that it builds
    order: Order = RowMajor(), orders: Mapping[str, Order] | None = None, launch: Submission = "stream"
) -> Plan:
    """All stages on one stream: each waits for the whole of the one before. The baseline.

    `launch`: "stream", "graph" or "host", as `OneStream` has it.
    """
    return Plan(launch=OneStream(launch), order=order, orders=orders or {})


def SemaphoreSync(  # noqa: N802  # reads as the plan that it builds
    policy: Policy = RowSync(),
    policies: Mapping[tuple[str, str], Policy] | None = None,
    order: Order = RowMajor(),
    orders: Mapping[str, Order] | None = None,
    wait_kernel: bool = True,
    head_start: int = 0,
    prefetch: float = 0.0,
) -> Plan:
    """A stream per stage; consumer tiles wait on semaphores for the producer tiles they read (cuSync)."""
    launch = StreamPerStage(wait_kernel, head_start)
    return Plan(TilePerBlock(), launch, Semaphores(policy, policies or {}), order, orders or {}, prefetch)


def without_overlap(plan: Plan, edges: Iterable[tuple[str, str]]) -> Plan:
    """A plan with semaphores that on `edges`, (producer, consumer), waits for the producer's whole grid.

    Raises `DescriptionError` for a plan without semaphores, which overlaps nothing.
    """
    return replace(plan, sync=plan.sync.with_policies(dict.fromkeys(edges, GridSync())))


def check_plan(pipeline: Pipeline, plan: Plan) -> None:
    """Raises `DescriptionError` for what is no plan, or names stages or dependencies the pipeline lacks."""
    if not isinstance(plan, Plan):
        kind = next((name for name, (part, _) in _KINDS.items() if isinstance(plan, part)), "")
        fix = f"Plan({kind}={plan!r})" if kind else "StreamSync(), SemaphoreSync(RowSync()) or Plan(...)"
        raise DescriptionError(f"plan is {plan!r}; use {fix}")
    if pipeline.device_count > 1:
        raise DescriptionError(
            f"pipeline {pipeline.name} has stages on {pipeline.device_count} devices, and a plan is of one; "
            "simulate it with wavesim.sim.peers"
        )
    names = [stage.name for stage in pipeline.stages]
    for name in plan.orders:
        if name not in names:
            raise DescriptionError(
                f"plan {plan.name} orders stage {name!r}; pipeline {pipeline.name} has {names}"
            )
    edges = [(p, d.consumer.stage.name) for d in pipeline.dependencies for p in d.producers]
    for edge in plan.sync.edge_policies:
        if edge not in edges:
            raise DescriptionError(
                f"plan {plan.name} has a policy for {edge}; pipeline {pipeline.name} has {edges}"
            )
