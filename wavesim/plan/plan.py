"""Plans: how a pipeline is launched and synchronised.

Example: the same two GEMMs, once on one stream (the second starts when the first is done), once on two
streams with a semaphore per tile row, once as a single kernel whose blocks draw the tiles of both. The
simulator takes every plan, a GPU runner those it has kernels for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.kernel_plans import DependentLaunch, Persistent, PersistentStream, StreamK
from wavesim.plan.order import Order, RowMajor, parse_order
from wavesim.plan.plan_base import Plan, SemaphorePlan
from wavesim.plan.policy import Policy, RowSync, parse_policy

__all__ = [
    "DependentLaunch",
    "Persistent",
    "PersistentStream",
    "Plan",
    "SemaphorePlan",
    "SemaphoreSync",
    "StreamK",
    "StreamSync",
    "check_plan",
    "parse_plan",
]

Launch = Literal["stream", "graph", "host"]
WORDS = (
    "stream, row, tile, graph, host, pdl[:SHARE], stream-k[:WAVES], stream-k-in-order[:WAVES], "
    "persistent[:POLICY], persistent-stream"
)


@dataclass(frozen=True)
class StreamSync(Plan):
    """All stages on one stream: each waits for the whole of the one before. The baseline.

    `launch` says how the kernels reach the device: "stream" takes `CostModel.launch_ns` between two,
    "graph" is a CUDA graph (all at once), "host" launches one by one (`CostModel.host_ns` between two).
    Our recordings of "stream" were made in CUDA graphs, so under their costs it equals "graph".
    """

    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)
    launch: Launch = "stream"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.launch not in get_args(Launch):
            raise DescriptionError(
                f"StreamSync: launch is {self.launch!r}; it must be one of {', '.join(get_args(Launch))}"
            )

    @property
    def name(self) -> str:
        return self.launch

    @property
    def label(self) -> str:
        how = {"stream": "", "graph": " in a CUDA graph", "host": ", launched one by one"}
        return f"Stream sync{how[self.launch]}"

    @property
    def caveat(self) -> str:
        rate = "4.5 us per launch from Python was measured once, with sketch kernels"
        return f"{self.label}: {rate}; predicted only" if self.launch == "host" else ""


@dataclass(frozen=True)
class SemaphoreSync(SemaphorePlan):
    """A stream per stage; consumer tiles wait on semaphores for the producer tiles they read (cuSync).

    Each waiting block first does the `prefetch` share of its work that reads no producer, 0 to 1: weights
    that it loads into shared memory (`weight_prefetch.prefetch_share`). `wait_kernel` keeps a consumer's
    blocks from being issued before its producer has started. `head_start` (simulator only, without the
    wait-kernel): blocks of the consumer that reach the device before the producer's first; what a race
    between two streams can do.
    """

    policy: Policy = RowSync()
    policies: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    order: Order = RowMajor()
    orders: Mapping[str, Order] = field(default_factory=dict)
    wait_kernel: bool = True
    head_start: int = 0
    prefetch: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.prefetch, int | float) or not 0 <= self.prefetch <= 1:
            raise DescriptionError(
                f"SemaphoreSync: prefetch is {self.prefetch!r}; it is a share of the work, from 0 to 1"
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
        words = self.policy_label[0].upper() + self.policy_label[1:]
        words += f", {100 * self.prefetch:.2g} % prefetched" if self.prefetch else ""
        return words if self.wait_kernel else f"{words}, no wait-kernel"


def check_plan(pipeline: Pipeline, plan: Plan) -> None:
    """Raises `DescriptionError` if the plan names stages or dependencies that the pipeline lacks."""
    names = [stage.name for stage in pipeline.stages]
    for name in plan.orders:
        if name not in names:
            raise DescriptionError(
                f"plan {plan.name} orders stage {name!r}; pipeline {pipeline.name} has {names}"
            )
    if isinstance(plan, SemaphorePlan):
        edges = [(p, d.consumer.stage.name) for d in pipeline.dependencies for p in d.producers]
        for edge in plan.policies:
            if edge not in edges:
                raise DescriptionError(
                    f"plan {plan.name} has a policy for {edge}; pipeline {pipeline.name} has {edges}"
                )


def parse_plan(text: str, order: str = "row", *, wait_kernel: bool = True, head_start: int = 0) -> Plan:
    """The plan that a word names: a policy's name such as "row", or one of `WORDS`, as in "pdl:0.05".

    Raises `DescriptionError`; `wait_kernel` and `head_start` are for plans named by a policy.
    """
    tiles = parse_order(order)
    kind, _, setting = text.partition(":")
    try:
        if text in get_args(Launch):
            return StreamSync(tiles, launch=text)  # type: ignore[arg-type]  # is one of them
        if kind == "pdl":
            return DependentLaunch(float(setting or 0), tiles)
        if kind in ("stream-k", "stream-k-in-order"):
            waves = int(setting) if setting else None
            return StreamK(waves, tiles, in_order=kind.endswith("-in-order"))
        if kind == "persistent":
            return Persistent(parse_policy(setting or "row"), order=tiles)
        if text == "persistent-stream":
            return PersistentStream(tiles)
        policy = parse_policy(text)
    except ValueError as error:
        is_ours = isinstance(error, DescriptionError) and kind in ("pdl", "stream-k", "stream-k-in-order")
        raise DescriptionError(str(error) if is_ours else f"sync is {text!r}; known are {WORDS}") from None
    return SemaphoreSync(policy, order=tiles, wait_kernel=wait_kernel, head_start=head_start)
