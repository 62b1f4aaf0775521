"""Plans: how a pipeline is synchronised.

Picture: the same two GEMMs, once on one stream (the second starts when the first is done),
once on two streams with a semaphore per tile row. The simulator and a GPU runner take the same plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wavesim.errors import DescriptionError
from wavesim.model.order import Order, RowMajor, parse_order
from wavesim.model.pipeline import Pipeline
from wavesim.model.policy import Policy, RowSync, parse_policy


def _check_orders(plan: str, order: Order, orders: Mapping[str, Order]) -> None:
    for value in (order, *orders.values()):
        if not isinstance(value, Order):
            raise DescriptionError(
                f"{plan}: order is {value!r}; use RowMajor(), Grouped(8) or parse_order('row')"
            )


@dataclass(frozen=True)
class StreamSync:
    """All stages on one stream: each waits for the whole of the one before. The baseline.

    `order` is every stage's tile order unless `orders` names another for a stage.
    """

    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_orders("StreamSync", self.order, self.orders)

    @property
    def name(self) -> str:
        """Short word for tables and file names."""
        return "stream"

    @property
    def label(self) -> str:
        """The plan in words."""
        return "Stream sync"

    def order_of(self, stage: str) -> Order:
        """The tile order of a stage."""
        return self.orders.get(stage, self.order)


@dataclass(frozen=True)
class SemaphoreSync:
    """A stream per stage; consumer tiles wait on semaphores for the producer tiles they read (cuSync).

    `policy` holds for every dependency unless `policies[(producer, consumer)]` names another.
    `wait_kernel` keeps a consumer's blocks from being issued before its producer has started.
    `head_start` (simulator only, without the wait-kernel): blocks of the consumer that reach
    the device before the producer's first; what a race between two streams can do.
    """

    policy: Policy = RowSync()
    policies: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)
    wait_kernel: bool = True
    head_start: int = 0

    def __post_init__(self) -> None:
        _check_orders("SemaphoreSync", self.order, self.orders)
        for value in (self.policy, *self.policies.values()):
            if not isinstance(value, Policy):
                raise DescriptionError(
                    f"SemaphoreSync: policy is {value!r}; use TileSync(), RowSync() or a CustomPolicy"
                )
        if not isinstance(self.head_start, int) or self.head_start < 0:
            raise DescriptionError(f"SemaphoreSync: head_start is {self.head_start!r}; it must be at least 0")
        if self.head_start and self.wait_kernel:
            raise DescriptionError(
                f"SemaphoreSync: head_start is {self.head_start} but the wait-kernel rules that out; "
                "set wait_kernel=False"
            )

    @property
    def name(self) -> str:
        """Short word for tables and file names: the policy's name."""
        return self.policy.name

    @property
    def label(self) -> str:
        """The plan in words."""
        words = {"row": "Row semaphores", "tile": "Tile semaphores"}.get(
            self.policy.name, f"Policy {self.policy.name}"
        )
        return words if self.wait_kernel else f"{words}, no wait-kernel"

    def order_of(self, stage: str) -> Order:
        """The tile order of a stage."""
        return self.orders.get(stage, self.order)

    def policy_of(self, producer: str, consumer: str) -> Policy:
        """The policy of one dependency."""
        return self.policies.get((producer, consumer), self.policy)


Plan = StreamSync | SemaphoreSync


def check_plan(pipeline: Pipeline, plan: Plan) -> None:
    """Raises `DescriptionError` if the plan names stages or dependencies that the pipeline lacks."""
    names = [stage.name for stage in pipeline.stages]
    for name in plan.orders:
        if name not in names:
            raise DescriptionError(
                f"plan {plan.name} orders stage {name!r}; pipeline {pipeline.name} has {names}"
            )
    if isinstance(plan, SemaphoreSync):
        edges = [(p, d.consumer.stage.name) for d in pipeline.dependencies for p in d.producers]
        for edge in plan.policies:
            if edge not in edges:
                raise DescriptionError(
                    f"plan {plan.name} has a policy for {edge}; pipeline {pipeline.name} has {edges}"
                )


def parse_plan(text: str, order: str = "row", *, wait_kernel: bool = True, head_start: int = 0) -> Plan:
    """The plan that a word names: "stream", or a policy's name such as "row" and "tile"."""
    if text == "stream":
        return StreamSync(parse_order(order))
    try:
        policy = parse_policy(text)
    except DescriptionError:
        raise DescriptionError(f"sync is {text!r}; known are stream, row, tile") from None
    return SemaphoreSync(policy, order=parse_order(order), wait_kernel=wait_kernel, head_start=head_start)
