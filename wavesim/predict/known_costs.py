"""A cost model with where it comes from: simulates plans under it, and forecasts what they gain.

Example: costs calibrated on a stream-sync run simulate a plan in the build that it runs, and its gain over
stream sync comes with the interval and the history of such predictions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from statistics import mean

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.predict.forecast import Forecast, forecast_of, placement_caveat
from wavesim.predict.kinds import STREAM_TRACE, plan_kind, trace_kind
from wavesim.predict.prediction import (
    Measured,
    as_built,
    improvement_points,
    measured_improvement,
    sustained_points,
)
from wavesim.recordings.shipped import RecordedCase
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

STREAM = "stream"


@dataclass(frozen=True, eq=False)
class KnownCosts:
    """A cost model; `source` says where it comes from; `case` is a recording of this size and order.

    `defaults` names what was assumed for want of a measurement on the device. `is_calibrated`: on a run of
    this size and order. `kind` is that of predictions from kernel times, "" for others; `clock_share` as in
    `DeviceCosts`, where plans run by themselves at the power limit. `unsettled` makes the same costs with
    tile times that neither DRAM nor clock change, to rank many plans with before the best are simulated in
    full. `known_as` begins the kind of predictions from a run. `scenarios`: costs if what the description
    leaves open were otherwise than `model` has it, each with its label. `by_schedule` replaces `model` for
    plans of a schedule, by its word, where that is known.
    """

    model: CostModel
    source: str
    case: RecordedCase | None = None
    defaults: tuple[str, ...] = ()
    is_calibrated: bool = False
    kind: str = ""
    clock_share: float = 0.0
    unsettled: Callable[[], CostModel] | None = None
    known_as: str = STREAM_TRACE
    scenarios: tuple[tuple[str, CostModel], ...] = ()
    by_schedule: Mapping[str, CostModel] = field(default_factory=dict)

    @cached_property
    def as_measured(self) -> CostModel | None:
        """What `unsettled` makes, once it is asked for."""
        return None if self.unsettled is None else self.unsettled()

    def of_plan(
        self, pipeline: Pipeline, plan: Plan, device: Device, *, is_settled: bool = True
    ) -> CostModel:
        """The costs in the builds that a plan runs; without `is_settled` those `as_measured`."""
        model = self.model if is_settled else self.as_measured or self.model
        model = self.by_schedule.get(plan.schedule.word, model)
        return as_built(model, pipeline, plan, costs_of(device.name))

    def simulated(self, pipeline: Pipeline, plan: Plan, device: Device) -> Trace:
        """The simulated run of a plan: what is scored and what is shown."""
        return simulate(pipeline, plan, device, self.of_plan(pipeline, plan, device))

    def baseline(self, pipeline: Pipeline, plan: Plan, device: Device) -> Trace:
        """The same of the plan that others are compared with: kept, as it is one for all of them."""
        return _kept(self, pipeline, plan, device)

    def points(self, time_ns: int, stream_ns: int) -> float:
        """The improvement of a simulated time over that of stream sync, in points."""
        return sustained_points(improvement_points(time_ns, stream_ns), self.clock_share)

    def predicted(
        self,
        pipeline: Pipeline,
        plan: Plan,
        baseline: Plan,
        device: Device,
        caveats: tuple[str, ...] = (),
    ) -> tuple[Trace, Forecast]:
        """A plan's simulated run, and the forecast of its improvement over a stream-sync plan."""
        trace = self.simulated(pipeline, plan, device)
        points = self.points(trace.time_ns, self.baseline(pipeline, baseline, device).time_ns)
        others = self.alternatives(pipeline, plan, baseline, device)
        return trace, self.forecast(trace, points, caveats, others)

    def alternatives(
        self, pipeline: Pipeline, plan: Plan, baseline: Plan, device: Device
    ) -> dict[str, float]:
        """The plan's improvement in each scenario, by its label."""
        return {
            label: self.points(*(_scenario_ns(self, i, pipeline, one, device) for one in (plan, baseline)))
            for i, (label, _) in enumerate(self.scenarios)
        }

    def forecast(
        self,
        trace: Trace,
        points: float,
        caveats: tuple[str, ...] = (),
        alternatives: Mapping[str, float] | None = None,
    ) -> Forecast:
        """A plan's improvement with all that belongs beside it, from its simulated trace."""
        found = forecast_of(
            points,
            trace,
            self._kind_of(trace),
            str(trace.header.device.get("name", "")),
            basis=self.source,
            defaults=self.defaults,
            caveats=(*caveats, *placement_caveat(trace)),
            alternatives=alternatives,
        )
        return found.of_the_baseline if trace.header.plan == STREAM and not points else found

    def _kind_of(self, trace: Trace) -> str:
        """The kind of a plan's prediction; "" where costs are not of a run of its size and order."""
        if self.kind:
            return plan_kind(self.kind, trace.header.plan)
        if not self.is_calibrated:
            return ""
        return trace_kind(self.known_as, trace.header.stages, trace.header.plan)

    def measured(self, policy: str) -> Measured | None:
        """The improvement that was measured for this policy there, if it was."""
        if self.case is None or policy not in self.case.paths:
            return None
        return measured_improvement(self.case.trace(policy), self.case.trace("stream"))

    @property
    def tile_times(self) -> str:
        """Tile times in words; where blocks share an SM they are those of a block alone."""
        alone = " when alone on its SM" if len(self.model.sharing) > 1 else ""
        times = {stage: (t if isinstance(t, int) else mean(t)) for stage, t in self.model.tile_ns.items()}
        words = (f"{stage} tile {time / 1000:.0f} µs" for stage, time in times.items())
        return ", ".join(words) + alone


@lru_cache(maxsize=4)
def _kept(known: KnownCosts, pipeline: Pipeline, plan: Plan, device: Device) -> Trace:
    return known.simulated(pipeline, plan, device)


@lru_cache(maxsize=64)
def _scenario_ns(known: KnownCosts, index: int, pipeline: Pipeline, plan: Plan, device: Device) -> int:
    """A plan's time in one of the scenarios; kept, as all plans are compared with one stream sync."""
    return simulate(pipeline, plan, device, known.scenarios[index][1]).time_ns
