"""One recommendation: which plan to run, how much it gains, what its safety rests on, and why.

Example: two kernels of 192 and 384 blocks on 132 SMs leave SMs empty in their last waves. Of thirty plans row
semaphores by dependent launch promise most: +12.2 points over stream sync, +2.4 to +15.4 in 8 of 10 such
predictions. Stream-K is simulated 0.4 points faster, but nobody has scored such a prediction, so it is not
recommended. Every command, page and widget that names a plan to run asks here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from wavesim.costs.calibration_checks import contradictions
from wavesim.errors import DeadlockError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.defaults import described_costs, find_costs
from wavesim.predict.forecast import HELPS_POINTS, Forecast, HasForecast
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.ranking import NO_BETTER_POINTS, ForecastPlan, promising
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import Basis, SafetyVerdict
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace
from wavesim.workloads.layer_backends import is_chained, is_layer

STREAM = "stream"
ROW = "row"
SLICES_LAST = "slices-last:"  # begins the name of an order in which hardware issues split-K slices
# Simpler plans first: of plans that are as good the first is recommended.
WORDS = (
    "pdl",
    "pdl+row",
    "pdl+tile",
    "row",
    "tile",
    "persistent",
    "persistent+pdl+row",
    "persistent+pdl+tile",
    "stream-k",
)
ORDERS = (ROW, "grouped:4", "grouped:8")
NEARLY_FULL = 3.0  # percent of SM slots
DEPENDENT_LAUNCH_SINCE = (9, 0)  # compute capability


@dataclass(frozen=True)
class PlanOption(ForecastPlan):
    """A plan that was considered, and its simulated trace."""

    trace: Trace = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        """The plan's short word, and its tile order where that is not row-major: "pdl+row grouped:4"."""
        return name_of(self.plan)

    @property
    def points(self) -> float:
        """Its predicted gain over stream sync."""
        return self.forecast.points


@dataclass(frozen=True)
class Recommendation(HasForecast):
    """The plan to run: `best` is its name, `forecast` its gain over stream sync, `reason` says why.

    Where stream sync is best, the forecast is of what another plan might gain at most. `tried` has stream
    sync first, then every plan that can be built and does not deadlock, simpler ones first; `accept` is the
    weakest basis that a recommended plan's safety may have.
    """

    best: str
    forecast: Forecast
    reason: str
    tried: tuple[PlanOption, ...]
    accept: Basis = "cuda"

    @property
    def improvement_points(self) -> float:
        """Of the best plan over stream sync."""
        return self.forecast.points

    @property
    def basis(self) -> str:
        """What was used and what was assumed."""
        return self.forecast.basis

    @property
    def defaults(self) -> tuple[str, ...]:
        """What was assumed for want of a measurement on the device."""
        return self.forecast.defaults

    @property
    def improvements(self) -> dict[str, float]:
        """Of every plan tried, in points."""
        return {option.name: option.points for option in self.tried}

    @property
    def option(self) -> PlanOption:
        """The plan to run, as it was tried."""
        # Stream sync comes first, by the order that it is fastest in: "stream" or "stream grouped:8".
        return next((option for option in self.tried if option.name == self.best), self.tried[0])

    @property
    def runner_up(self) -> PlanOption:
        """The plan that gains most beside stream sync: the one to run, else the best that is not worth it."""
        others = [option for option in self.tried if not option.plan.is_stream_sync]
        return self.option if self.option in others else max(others, key=lambda option: option.points)

    def why_not(self, option: PlanOption) -> str:
        """Why a plan that may gain more is not the one to run, in a few words; "" where it does not."""
        if not option.safety.is_accepted(self.accept):
            return f"safe only if {option.safety.short}"
        if option.forecast.support != "here" and option.points > self.forecast.points:
            return "never scored" if option.forecast.support == "never" else "not scored on this device"
        return ""


def name_of(plan: Plan) -> str:
    """A plan's short word, and its tile order where that is not row-major: "pdl+row grouped:4"."""
    order = plan.order.name.removeprefix(SLICES_LAST)
    return plan.name if order == ROW or plan.orders else f"{plan.name} {order}"


def usual_basis(device: Device) -> Basis:
    """What safety may rest on where nothing is said: CUDA's promises, where these carry any semaphores."""
    return "cuda" if device.compute_capability >= DEPENDENT_LAUNCH_SINCE else "seen"


def verdict_on(
    pipeline: Pipeline,
    device: Device,
    kernel_ns: Mapping[str, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    own: Sequence[str] = (),
    accept: Basis | None = None,
) -> Recommendation:
    """The recommendation for described kernels, from each one's time alone. Raises `DescriptionError`.

    Without `kernel_ns` it is for a workload of the catalogue, by the best known costs; {} is for kernels
    that a file describes without times. `own` are plans as words, beside those that are always tried;
    `progress(done, total)` after every plan.
    """
    if kernel_ns is None:
        known = partial(find_costs, pipeline, device)
        return recommend(pipeline, device, known, own=own, accept=accept, progress=progress)
    described = described_costs(pipeline, device, kernel_ns)
    # Split-K slices go as hardware issues a grid: all tiles' first ones first.
    is_split = any(stage.grid.z > 1 for stage in pipeline.stages)
    return recommend(
        pipeline,
        device,
        lambda _order: described,
        own=own,
        orders=[f"{SLICES_LAST}{order}" if is_split else order for order in ORDERS],
        accept=accept,
        flags=contradictions(pipeline, device, kernel_ns) if kernel_ns else (),
        progress=progress,
    )


def recommend(
    pipeline: Pipeline,
    device: Device,
    costs: Callable[[str], KnownCosts],
    *,
    own: Sequence[str] = (),
    orders: Sequence[str] = ORDERS,
    accept: Basis | None = None,
    flags: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Recommendation:
    """Simulates every plan that the device and the kernels allow, and says which one to run.

    `costs(order)` are those to predict plans in a tile order with. `own` are more plans, as words. `accept`:
    the weakest basis that the plan's safety may have; `usual_basis` where it is not given. `flags` are doubts
    about the input, told with the reason. `progress(done, total)` after every plan.

    Of plans whose predictions were scored on the device the one that promises most is recommended: its gain
    less half of the interval below. A plan whose predictions were scored on other devices only, or never, is
    recommended only where what it surely gains is more than that interval reaches. Among plans within half a
    point, what CUDA guarantees comes first, then what is simpler. Raises `DescriptionError`.
    """
    bench = _Bench(pipeline, device, costs, _distinct(pipeline, orders), own, tuple(flags))
    tried = [bench.stream]
    plans = bench.plans()
    for done, (plan, safety) in enumerate(plans, start=1):
        tried += bench.option(plan, safety)
        if progress is not None:
            progress(done, len(plans))
    accept = accept or usual_basis(device)
    chosen = promising([option for option in tried[1:] if option.safety.is_accepted(accept)], bench.widened)
    if chosen is None:
        reason = "no other plan is safe" if len(tried) == 1 else f"no other plan is safe by {accept!r}"
        return Recommendation(STREAM, bench.stream.forecast, _with(flags, reason), tuple(tried), accept)
    tried = [chosen if option.name == chosen.name else option for option in tried]
    if not chosen.forecast.is_worth_it:
        reason = _with(flags, _why_not(bench.stream.trace, chosen))
        return Recommendation(STREAM, chosen.forecast.declined, reason, tuple(tried), accept)
    reason = _with(flags, _why(bench.stream.trace, chosen))
    return Recommendation(chosen.name, chosen.forecast, reason, tuple(tried), accept)


class _Bench:
    """The pipeline's plans, simulated on one basis and compared with the fastest stream sync."""

    def __init__(
        self,
        pipeline: Pipeline,
        device: Device,
        costs: Callable[[str], KnownCosts],
        orders: Sequence[str],
        own: Sequence[str],
        flags: tuple[str, ...],
    ) -> None:
        self._pipeline, self._device, self._costs = pipeline, device, costs
        self._orders, self._own, self._flags = orders, own, flags
        streams = [StreamSync(parse_order(order)) for order in orders]
        traces = [self._known(plan).simulated(pipeline, plan, device) for plan in streams]
        # The simplest order that is not clearly slower than the fastest.
        enough_ns = min(trace.time_ns for trace in traces) / (1.0 - NO_BETTER_POINTS / 100.0)
        trace, self._baseline = next(
            pair for pair in zip(traces, streams, strict=True) if pair[0].time_ns <= enough_ns
        )
        self._stream_ns = trace.time_ns
        forecast = self._known(self._baseline).forecast(trace, 0.0, self._flags)
        safety = safety_of(pipeline, self._baseline, device)
        self.stream = PlanOption(self._baseline, safety, forecast, trace)

    def _known(self, plan: Plan) -> KnownCosts:
        return self._costs(plan.order.name.removeprefix(SLICES_LAST))

    def plans(self) -> list[tuple[Plan, SafetyVerdict]]:
        """Plans that can be built and do not deadlock, each once, simpler ones first."""
        is_new = self._device.compute_capability >= DEPENDENT_LAUNCH_SINCE
        plans: dict[str, tuple[Plan, SafetyVerdict]] = {}
        for word in (*WORDS, *self._own):
            for order in self._orders:
                plan = parse_plan(word, order)
                if name_of(plan) in plans or plan.is_stream_sync or (plan.launch.is_dependent and not is_new):
                    continue
                if not self._pipeline.dependencies or not _fits(self._pipeline, plan):
                    continue
                safety = safety_of(self._pipeline, plan, self._device)
                if safety.is_safe:
                    plans[name_of(plan)] = plan, safety
        return list(plans.values())

    def option(self, plan: Plan, safety: SafetyVerdict) -> Iterator[PlanOption]:
        """The plan as it is simulated; nothing of one that deadlocks there."""
        known = self._known(plan)
        try:
            trace = known.simulated(self._pipeline, plan, self._device)
        except DeadlockError:
            return
        points = known.points(trace.time_ns, self._stream_ns)
        yield PlanOption(plan, safety, known.forecast(trace, points, self._caveats(plan)), trace)

    def widened(self, option: PlanOption) -> PlanOption:
        """The same with an interval that covers what the description leaves open: some more simulations."""
        known = self._known(option.plan)
        others = known.alternatives(self._pipeline, option.plan, self._baseline, self._device)
        forecast = known.forecast(option.trace, option.points, self._caveats(option.plan), others)
        return replace(option, forecast=forecast)

    def _caveats(self, plan: Plan) -> tuple[str, ...]:
        return (*self._flags, plan.caveat) if plan.caveat else self._flags


def _fits(pipeline: Pipeline, plan: Plan) -> bool:
    """Whether the kernels can be built for it: Stream-K splits K anew, a fused kernel computes one kind.

    A megakernel has constants of its own, and no gain over other plans (`megakernel_design`).
    """
    if plan.schedule.has_work_lists:
        return False
    is_split = any(stage.grid.z > 1 for stage in pipeline.stages)
    if (
        plan.schedule.is_split_persistent
    ):  # a kernel of one tile is no GEMM whose last wave could be shared out
        has_waves = all(stage.grid.size > 1 for stage in pipeline.stages)
        return has_waves and not is_split and not is_layer(pipeline)
    if plan.schedule.is_fused and is_layer(pipeline):
        return False
    return not is_chained(pipeline) or (plan.launch.is_dependent and plan.sync.has_semaphores)


def _distinct(pipeline: Pipeline, orders: Sequence[str]) -> list[str]:
    """Orders without those that are the same as an earlier one on these grids, as all are on a single row."""
    grids = [stage.grid for stage in pipeline.stages]
    sequences = {
        str([parse_order(order).sequence(grid) for grid in grids]): order for order in reversed(orders)
    }
    return sorted(sequences.values(), key=list(orders).index)


def _with(flags: Sequence[str], reason: str) -> str:
    return "; ".join((reason, *flags))


def _why(stream: Trace, best: PlanOption) -> str:
    before, after = metrics_of(stream), metrics_of(best.trace)
    idle_before = 100.0 * (before.tail_loss_ns + before.launch_gap_ns) / before.makespan_ns
    idle_after = 100.0 * (after.tail_loss_ns + after.launch_gap_ns + after.waiting_ns) / after.makespan_ns
    most = max(info.blocks_per_sm for info in best.trace.header.stages)
    words = f"stream sync leaves {idle_before:.0f} % of SM time empty, in the kernels' last waves; "
    words += f"{best.name} leaves {idle_after:.0f} % empty or waiting"
    return words + ("" if most == 1 else f"; {most} blocks share an SM, where predictions are less sure")


def _why_not(stream: Trace, best: PlanOption) -> str:
    """Where the SM time goes under either plan, in percent of the stream-sync run."""
    before, after = metrics_of(stream), metrics_of(best.trace)
    unit = before.makespan_ns / 100.0
    empty, still_empty = before.tail_loss_ns / unit, after.tail_loss_ns / unit
    waiting, added = after.waiting_ns / unit, (after.busy_ns - before.busy_ns) / unit
    words = f"the best plan tried, {best.name}, {_too_little(best.forecast)}: "
    if empty < NEARLY_FULL:
        words += f"the last waves are nearly full, stream sync leaves {empty:.1f} % of SM time empty"
    else:
        words += (
            f"stream sync leaves {empty:.0f} % of SM time empty; under {best.name} empty slots take "
            f"{still_empty:.0f} % and waiting blocks {waiting:.0f} % of stream sync's time"
        )
    if added >= 1.0:
        words += f"; fetching tiles, polling semaphores and posting add {added:.0f} % to the blocks' work"
    return words


def _too_little(forecast: Forecast) -> str:
    if forecast.points < 0:
        return f"costs {-forecast.points:.1f} points"
    if forecast.points < HELPS_POINTS:
        return f"gains only {forecast.points:.1f} points"
    return f"gains {forecast.points:.1f} points, and such predictions are often off by as much"
