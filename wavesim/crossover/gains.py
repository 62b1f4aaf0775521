"""What every way gains at one number of rows, simulated: times and the traces that intervals are made from.

Example: at M = 768 GPT-3's first product has 144 tiles for 132 SMs, and row semaphores gain 12 points; at 640
they cost one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavesim.check.deadlock import safety_of
from wavesim.check.verdict import Basis
from wavesim.crossover.ways import ComparedPlan
from wavesim.errors import DeadlockError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.predict.defaults import KnownCosts
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace


@dataclass(frozen=True)
class PlanGain:
    """A way's simulated time in ns, and its gain over stream sync in points with an 80 % interval."""

    time_ns: int
    points: float
    low: float
    high: float
    scored: bool


@dataclass(frozen=True)
class SizeQuestion:
    """All ways at one M."""

    m: int
    pipeline: Pipeline
    device: Device
    costs: KnownCosts
    ways: tuple[ComparedPlan, ...]

    @property
    def tiles(self) -> int:
        """Of all stages: what the simulation's time goes with."""
        return sum(stage.grid.size for stage in self.pipeline.stages) * len(self.ways)


def simulated(question: SizeQuestion) -> list[Trace | None]:
    """A trace for each way, None for one that deadlocks. Runs in a worker."""
    return [_trace(question, way) for way in question.ways]


def _trace(question: SizeQuestion, way: ComparedPlan) -> Trace | None:
    try:
        return simulate(question.pipeline, way.plan, question.device, question.costs.model)
    except DeadlockError:
        return None


def gains_of(question: SizeQuestion, traces: Sequence[Trace | None]) -> Mapping[ComparedPlan, PlanGain]:
    """Each way against the fastest stream sync."""
    found = {way: trace for way, trace in zip(question.ways, traces, strict=True) if trace is not None}
    stream_ns = min(trace.time_ns for way, trace in found.items() if way.is_baseline)
    gains = {}
    for way, trace in found.items():
        points = question.costs.points(trace.time_ns, stream_ns)
        interval = question.costs.interval(trace, points)
        gains[way] = PlanGain(trace.time_ns, points, interval.low, interval.high, interval.scored)
    return gains


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
