"""Ways of synchronising, and what each gains at one number of rows, simulated, with its interval.

Example: at M = 768 GPT-3's first product has 144 tiles for 132 SMs, and row semaphores gain 27 points; at 640
they cost half a point. A way is a plan's word in a tile order: "pdl+row" in order grouped:4. Simpler ways
come first, and are taken where others gain next to nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.predict.forecast import Forecast
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.ranking import ForecastPlan, promising
from wavesim.predict.recommendation import WORDS, name_of
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import listed
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import Basis, SafetyVerdict
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

BASELINE = "stream"
PROMISED = SafetyVerdict(True, "accepted before anything was simulated")
ORDERS = ("grouped:4",)  # of kernels that are ours; of a user's own all that a recommendation tries


@dataclass(frozen=True)
class ComparedPlan:
    """A plan by its word and order, as `parse_plan` takes them."""

    word: str
    order: str

    @property
    def name(self) -> str:
        """Both words: "pdl+row grouped:4"."""
        return f"{self.word} {self.order}"

    @property
    def short(self) -> str:
        """The name that a recommendation gives it: without the order where that is row-major."""
        return name_of(self.plan)

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        return parse_plan(self.word, self.order)

    @property
    def is_baseline(self) -> bool:
        """Whether it is stream sync, which gains nothing over itself."""
        return self.plan.is_stream_sync

    @property
    def has_semaphores(self) -> bool:
        """Whether consumer tiles wait for tiles, on their own or in one kernel with the producer's."""
        return self.plan.sync.has_semaphores


@typed
def ways_of(
    words: Sequence[str] = (BASELINE, *WORDS), orders: Sequence[str] = ORDERS
) -> tuple[ComparedPlan, ...]:
    """Every word in every order, stream sync first, added where it is missing. Raises `DescriptionError`."""
    for order in orders:
        parse_order(order)
    ways = [ComparedPlan(word, order) for word in words for order in orders]
    streams = [way for way in ways if way.is_baseline] or [ComparedPlan(BASELINE, order) for order in orders]
    return (*streams, *(way for way in ways if way not in streams))


def read_ways(words: str, orders: str) -> tuple[ComparedPlan, ...]:
    """The ways of two lists separated by commas. Raises `DescriptionError`."""
    ways = ways_of(listed("ways", words), listed("orders", orders))
    if all(way.is_baseline for way in ways):
        raise DescriptionError(f"ways is {words!r}, stream sync alone; name at least one other, such as row")
    return ways


@dataclass(frozen=True)
class SizeQuestion:
    """All ways at one M, with each one's costs: a worker needs to know nothing else of the device."""

    pipeline: Pipeline
    device: Device
    ways: tuple[ComparedPlan, ...]
    costs: tuple[CostModel, ...]

    @property
    def tiles(self) -> int:
        """Of all stages and ways: what the simulation's time goes with."""
        return sum(stage.grid.size for stage in self.pipeline.stages) * len(self.ways)


def question_of(
    pipeline: Pipeline, device: Device, ways: Sequence[ComparedPlan], known: KnownCosts
) -> SizeQuestion:
    """The question with the costs of the builds that each way runs."""
    costs = tuple(known.of_plan(pipeline, way.plan, device) for way in ways)
    return SizeQuestion(pipeline, device, tuple(ways), costs)


def simulated(question: SizeQuestion) -> list[Trace | None]:
    """A trace for each way, None for one that deadlocks. Runs in a worker."""
    pairs = zip(question.ways, question.costs, strict=True)
    return [_trace(question, way, costs) for way, costs in pairs]


def _trace(question: SizeQuestion, way: ComparedPlan, costs: CostModel) -> Trace | None:
    try:
        return simulate(question.pipeline, way.plan, question.device, costs)
    except DeadlockError:
        return None


def gains_of(
    ways: Sequence[ComparedPlan], traces: Sequence[Trace | None], known: KnownCosts
) -> Mapping[ComparedPlan, Forecast]:
    """Each way against the fastest stream sync."""
    traced = {way: trace for way, trace in zip(ways, traces, strict=True) if trace is not None}
    stream_ns = min(trace.time_ns for way, trace in traced.items() if way.is_baseline)
    return {
        way: known.forecast(
            trace, known.points(trace.time_ns, stream_ns), tuple(filter(None, (way.plan.caveat,)))
        )
        for way, trace in traced.items()
    }


def recommended(gains: Mapping[ComparedPlan, Forecast]) -> ComparedPlan:
    """The way that a recommendation takes of those with these gains: stream sync where none is worth it."""
    others = {way: gain for way, gain in gains.items() if not way.is_baseline}
    best = promising([ForecastPlan(way.plan, PROMISED, gain) for way, gain in others.items()])
    if best is None or not best.forecast.is_worth_it:
        return next(way for way in gains if way.is_baseline)
    return next(way for way in others if way.plan == best.plan)


def accepted_ways(
    pipeline: Pipeline, device: Device, ways: Sequence[ComparedPlan], accept: Basis
) -> tuple[tuple[ComparedPlan, ...], tuple[str, ...]]:
    """Those whose safety rests on no more than `accept`, and in words why others are left out."""
    kept, left = [], []
    for way in ways:
        verdict = safety_of(pipeline, way.plan, device)
        if way.is_baseline or (verdict.is_safe and verdict.is_accepted(accept)):
            kept.append(way)
        else:
            left.append(f"{way.name}: {verdict.text}")
    return tuple(kept), tuple(left)
