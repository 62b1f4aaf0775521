"""What a reader may ask "what if" about, as a value, and the two traces that answer it.

Example: the GPT-3 MLP at 1,024 tokens in 128 x 256 tiles on 132 SMs of an H200, row semaphores, row-major
order. The answer is two simulated traces with the same costs, stream sync and the chosen plan, and a
statement of where the costs come from. Nothing here knows of widgets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

from wavesim.model import device as devices
from wavesim.model.device import Device, default_device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import ColumnMajor, Grouped, Order, Reversed, RowMajor
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import parse_policy
from wavesim.predict.defaults import find_costs
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.recommendation import Recommendation, recommend
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import SafetyVerdict
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.catalogue import DEFAULTS, IMAGE_UNIT, parse_tile, workload

# Word -> (every stage's order, the last stage's where it differs).
ORDERS: dict[str, tuple[Order, Order | None]] = {
    "row": (RowMajor(), None),
    "column": (ColumnMajor(), None),
    "grouped:2": (Grouped(2), None),
    "grouped:4": (Grouped(4), None),
    "grouped:8": (Grouped(8), None),
    "row, consumer reversed": (RowMajor(), Reversed(RowMajor())),
}


@dataclass(frozen=True, eq=False)
class GivenKernels:
    """Kernels that are in no catalogue, such as a pair of a profile: pipeline, GPU, costs, times alone."""

    pipeline: Pipeline
    device: Device
    costs: KnownCosts
    kernel_ns: Mapping[str, int] = field(default_factory=dict)

    def scenario(self) -> "Scenario":
        """They on their whole GPU, with a semaphore per tile, as a profile's advice has it."""
        return Scenario(
            workload=self.pipeline.name,
            device=self.device.name,
            sm_count=self.device.sm_count,
            policy="tile",
            given=self,
        )


@dataclass(frozen=True)
class Scenario:
    """One setting of all controls. `policy` is a policy's word, or "stream" for the baseline.

    `head_start` blocks of the consumer reach the device first; only without the wait-kernel. `given` stands
    in for workload, tokens, tile and device.
    """

    workload: str = "gpt3-mlp"
    tokens: int = 1024
    tile: str = "128x256"
    device: str = field(default_factory=lambda: default_device().name)
    sm_count: int = field(default_factory=lambda: default_device().sm_count)
    order: str = "row"
    policy: str = "row"
    wait_kernel: bool = True
    head_start: int = 0
    given: GivenKernels | None = None

    @property
    def unit(self) -> str:
        """What `tokens` counts, in a word."""
        usual = DEFAULTS.get(self.workload)
        return "images" if usual is not None and usual.unit == IMAGE_UNIT else "tokens"

    @property
    def baseline(self) -> "Scenario":
        """The same kernels on one stream."""
        return replace(self, policy="stream", wait_kernel=True, head_start=0)

    @property
    def pipeline(self) -> Pipeline:
        """The described kernels. Raises `DescriptionError`."""
        if self.given is not None:
            return self.given.pipeline
        return _pipeline(self.workload, self.tokens, self.tile)

    @property
    def whole_device(self) -> Device:
        """The catalogue's device, or the given one, with all its SMs."""
        if self.given is not None:
            return self.given.device
        return devices.load(self.device)

    @property
    def used_device(self) -> Device:
        """The device with as many SMs as are asked for."""
        return self.whole_device.with_sm_count(self.sm_count)

    @property
    def plan(self) -> Plan:
        """How the kernels are synchronised. Raises `DescriptionError`."""
        order, last = ORDERS[self.order]
        orders = {} if last is None else {self.pipeline.stages[-1].name: last}
        if self.policy == "stream":
            return StreamSync(order, orders)
        return SemaphoreSync(
            parse_policy(self.policy),
            order=order,
            orders=orders,
            wait_kernel=self.wait_kernel,
            head_start=0 if self.wait_kernel else self.head_start,
        )

    @property
    def costs(self) -> KnownCosts:
        """The best known costs of these kernels, whatever the number of SMs."""
        if self.given is not None:
            return self.given.costs
        order = self.order if ORDERS[self.order][1] is None else ""
        return find_costs(self.pipeline, self.whole_device, order, is_any_size=True)


@dataclass(frozen=True, eq=False)
class Answer:
    """The two traces of a scenario, and where their costs come from."""

    scenario: Scenario
    stream: Trace
    chosen: Trace
    costs: KnownCosts

    @property
    def setting(self) -> str:
        """What is simulated, in words."""
        case = self.scenario
        size = "" if case.workload == "toy" else f", {case.tokens:,} {case.unit}, tile {case.tile}"
        place = f"{case.sm_count} SMs of {case.device}, {case.order} order"
        return f"{case.workload}{size}, {place}, {self.chosen.header.plan_label}"

    @cached_property
    def safety(self) -> SafetyVerdict:
        """Whether the plan can deadlock: found when it is asked for, which is behind the picture."""
        return safety_of(self.scenario.pipeline, self.scenario.plan, self.scenario.used_device)


def answer(scenario: Scenario) -> Answer:
    """Simulates both plans. Raises `DescriptionError` or `DeadlockError` where they cannot run."""
    return Answer(scenario, _simulated(scenario.baseline), _simulated(scenario), scenario.costs)


def advised(scenario: Scenario, progress: Callable[[int, int], None] | None = None) -> Recommendation:
    """The plan to run for these kernels on these SMs, as every command recommends it: some thirty runs."""
    given, pipeline, whole = scenario.given, scenario.pipeline, scenario.whole_device
    costs = partial(find_costs, pipeline, whole) if given is None else lambda _order: given.costs
    return recommend(pipeline, scenario.used_device, costs, progress=progress)


KEPT = 160  # runs: both plans of every size that a slider has


@lru_cache(maxsize=KEPT)
def _pipeline(name: str, tokens: int, tile: str) -> Pipeline:
    return workload(name, tokens, parse_tile(tile))


@lru_cache(maxsize=KEPT)
def _simulated(scenario: Scenario) -> Trace:
    """One plan's trace; a baseline seen before is not simulated again when only the policy changes."""
    return simulate(scenario.pipeline, scenario.plan, scenario.used_device, scenario.costs.model)
