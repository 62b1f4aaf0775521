"""The best costs known for a pipeline on a device, and where they come from in words.

Example: the toy's tiles take one unit and nothing else costs time; the GPT-3 MLP on an H200 is
calibrated on a stream-sync run that ships with wavesim, of its own size and tile order or, as the words
then say, of another order or (where the caller allows it) of the nearest size; on an A100 nobody measured,
so the catalogue's roofline has to do. Everything that predicts takes its costs from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from statistics import mean

from wavesim.costs.builds import as_built
from wavesim.costs.calibration_text import (
    assumed_text,
    kernel_times_defaults,
    kernel_times_text,
    trace_defaults,
)
from wavesim.costs.cost_model import CostModel, zero_cost
from wavesim.costs.data_sheet import roofline
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DescriptionError
from wavesim.guard.arguments import require_types
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.predict.forecast import Forecast, forecast_of
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.kinds import STREAM_TRACE, kernel_times_kind, known_text, plan_kind, trace_kind
from wavesim.predict.prediction import (
    Measured,
    calibrate_for,
    improvement_points,
    measured_improvement,
    sustained_points,
)
from wavesim.predict.scenarios import scenarios_of
from wavesim.recordings.shipped import RecordedCase, cases, find_case
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.catalogue import parse_tile, workload
from wavesim.workloads.figure_one import TILE_NS

STREAM = "stream"
RECORDED_ORDERS = ("row", "grouped:4", "grouped:8")


@dataclass(frozen=True, eq=False)
class KnownCosts:
    """A cost model; `source` says where it comes from; `case` is a recording of this size and order.

    `defaults` names what was assumed for want of a measurement on the device. `is_calibrated`: on a run of
    this size and order. `kind` is that of predictions from kernel times, "" for others; `clock_share` as in
    `DeviceCosts`, where plans run by themselves at the power limit. `as_measured` are the same costs with
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
    as_measured: CostModel | None = None
    known_as: str = STREAM_TRACE
    scenarios: tuple[tuple[str, CostModel], ...] = ()
    by_schedule: Mapping[str, CostModel] = field(default_factory=dict)

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
        trace, stream = (self.simulated(pipeline, one, device) for one in (plan, baseline))
        points = self.points(trace.time_ns, stream.time_ns)
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
            caveats=caveats,
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


@lru_cache(maxsize=64)
def _scenario_ns(known: KnownCosts, index: int, pipeline: Pipeline, plan: Plan, device: Device) -> int:
    """A plan's time in one of the scenarios; kept, as all plans are compared with one stream sync."""
    return simulate(pipeline, plan, device, known.scenarios[index][1]).time_ns


def default_costs(pipeline: Pipeline, device: Device, order: str = "row") -> tuple[CostModel, str]:
    """(costs, where they come from in words), from a recording of just this size or from none."""
    require_types("default_costs", pipeline=(pipeline, Pipeline), device=(device, Device))
    known = find_costs(pipeline, device, order)
    return known.model, known.source


@lru_cache(maxsize=64)
def find_costs(
    pipeline: Pipeline, device: Device, order: str = "row", *, is_any_size: bool = False
) -> KnownCosts:
    """Costs for a pipeline: the toy's, else a recording's, else the roofline's.

    A recording in another order serves where there is none in this one, with `is_any_size` also that of
    the nearest size. Raises `DescriptionError`.
    """
    if not any(stage.kernel.flops_per_block for stage in pipeline.stages):
        words = "unit tile time, nothing else costs time (the paper's Figure 1)"
        return KnownCosts(zero_cost(pipeline, TILE_NS), words)
    case = _case(pipeline, device, order) or (_nearest_case(pipeline, device, order) if is_any_size else None)
    if case is not None:
        return _recorded(case, int(pipeline.parameters["tokens"]), order)
    return _from_data_sheet(pipeline, device)


def described_costs(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int]) -> KnownCosts:
    """Costs of kernels that a user described: from each one's measured time alone, else from the roofline.

    Raises `DescriptionError` for a stage without a time whose work is not given either.
    """
    if kernel_ns:
        return _from_kernel_times(pipeline, device, kernel_ns)
    for stage in pipeline.stages:
        if not stage.kernel.flops_per_block:
            raise DescriptionError(
                f"stage {stage.name!r} has no time, and what it computes is not given either; write "
                "kernel_us = the kernel alone, measured, or m, n, k and tile for a roofline"
            )
    return _from_data_sheet(pipeline, device)


def _from_kernel_times(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int]) -> KnownCosts:
    known = costs_of(device.name)
    model = costs_from_kernel_times(pipeline, device, kernel_ns, known)
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    return KnownCosts(
        model,
        kernel_times_text(device, model),
        defaults=tuple(map(str, kernel_times_defaults(device, model))),
        kind=kernel_times_kind(pipeline, device, most),
        clock_share=known.clock_share,
        scenarios=tuple((one.label, one.costs) for one in scenarios_of(pipeline, device, model)[1:]),
    )


def _from_data_sheet(pipeline: Pipeline, device: Device) -> KnownCosts:
    assumed = costs_of(device.name).defaults_in("overheads")
    sheet = f"a roofline from {device.name}'s data sheet"
    text = f"{sheet}, never measured: trust the shape and the sign, not the size{assumed_text(assumed)}"
    defaults = (f"tile_ns: {sheet}", *map(str, assumed))
    return KnownCosts(roofline(pipeline, device), text, defaults=defaults)


def _recorded(case: RecordedCase, tokens: int, order: str) -> KnownCosts:
    """Costs of a case's stream-sync run. In clock cycles a tile costs nearly the same at every size.

    At its own size each block takes its own time, as in the predictions that are scored; the blocks of
    another grid take the mean, with what DRAM and clock had in it there: such costs are a stand-in, and a
    slider's picture cannot wait until tiles and traffic settle.
    """
    stream = case.trace("stream")
    head = stream.header
    is_own_size = case.tokens == tokens
    size = "" if is_own_size else f" at {case.tokens:,} tokens, the nearest size, DRAM and clock as there"
    under = "" if case.order == order else f" in {case.order} order, not this plan's"
    when = f"{head.device['name']}, {head.date[:10]}, commit {head.commit[:7]}"
    is_exact = (case.tokens, case.order) == (tokens, order)
    words = f"calibrated on the recorded stream-sync run{size}{under} ({when})"
    recorded = workload(case.workload, case.tokens, parse_tile(case.tile))
    device = devices.load(case.device)
    costs = partial(calibrate_for, recorded, device, stream, per_block=is_own_size)
    model = costs(is_settled=is_own_size)
    assumed = trace_defaults(stream)
    others = (f"tile_ns: those of a run{size}{under}",) if size or under else ()
    defaults = (*others, *map(str, assumed))
    exact = case if is_exact else None
    return KnownCosts(
        model,
        words + assumed_text(assumed),
        exact,
        defaults,
        is_calibrated=is_exact,
        known_as=known_text(STREAM_TRACE, recorded),
        as_measured=costs(is_settled=False),
    )


def _case(pipeline: Pipeline, device: Device, order: str) -> RecordedCase | None:
    """The recording of this size in this order, else in the first order that has one.

    "derived grouped:4", a choice of orders by name, is nearest to the last order that it names.
    """
    tried = (order, order.rpartition(" ")[2], *RECORDED_ORDERS)
    found = (find_case(pipeline, device, name) for name in tried)
    return next((case for case in found if case is not None), None)


def _nearest_case(pipeline: Pipeline, device: Device, order: str) -> RecordedCase | None:
    """The recording of the same kernels: the same size before the same order, then the nearest size."""
    gemms = [stage.work for stage in pipeline.stages if isinstance(stage.work, Gemm)]
    if len(gemms) != len(pipeline.stages) or any(gemm.split_k > 1 for gemm in gemms):
        return None
    tiles = {f"{gemm.tile_m}x{gemm.tile_n}" for gemm in gemms}
    tokens = gemms[0].m
    alike = [
        case
        for case in _shipped()
        if (case.device, case.workload, {case.tile}) == (device.name, pipeline.name, tiles)
        and "stream" in case.paths
    ]
    # Nearest first, so that one recording is read and not all of them.
    alike.sort(key=lambda case: (abs(case.tokens - tokens), case.order != order))
    return next((case for case in alike if _is_same_occupancy(case, pipeline, device)), None)


def _is_same_occupancy(case: RecordedCase, pipeline: Pipeline, device: Device) -> bool:
    recorded = [info.blocks_per_sm for info in case.trace("stream").header.stages]
    return recorded == [occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages]


@lru_cache(maxsize=1)
def _shipped() -> tuple[RecordedCase, ...]:
    return tuple(cases())
