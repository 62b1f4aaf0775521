"""A verdict on a user's own kernels: will tile-level synchronisation help, by how much, and why.

Example: two kernels of 192 and 384 blocks on 132 SMs, one block per SM: their last waves are 45 %
and 91 % full. The plans are simulated from the two measured kernel times alone; the best one, its
gain and an 80 % interval come out, with the reason in words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wavesim.costs.calibration_checks import contradictions
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Grouped, RowMajor, SlicesLast
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.defaults import described_costs
from wavesim.predict.forecast import HELPS_POINTS, Forecast, HasForecast
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace

STREAM = "stream"
ORDERS = (RowMajor(), Grouped(4), Grouped(8))  # simpler ones first
NEARLY_FULL = 3.0  # percent of SM slots
NO_BETTER_POINTS = 0.5  # by which a plan must be better than a simpler one to be chosen


@dataclass(frozen=True)
class Tried:
    """A plan that was tried: its forecast and its simulated trace."""

    name: str
    forecast: Forecast
    trace: Trace = field(repr=False, compare=False)

    @property
    def points(self) -> float:
        """Its improvement over stream sync."""
        return self.forecast.points


@dataclass(frozen=True)
class Verdict(HasForecast):
    """The best plan of those tried, the forecast of its improvement over stream sync, and why.

    Where stream sync is best, the forecast is of what another plan might gain at most. `tried` has stream
    sync and every plan, simpler ones first.
    """

    best: str
    forecast: Forecast
    reason: str
    tried: tuple[Tried, ...]

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
        return {plan.name: plan.points for plan in self.tried}

    @property
    def best_tried(self) -> Tried:
        """The plan that is best, as it was tried."""
        return next(plan for plan in self.tried if plan.name == self.best)


def verdict_on(
    pipeline: Pipeline,
    device: Device,
    kernel_ns: Mapping[str, int],
    progress: Callable[[int, int], None] | None = None,
) -> Verdict:
    """Predicts every plan from the stages' measured times alone. Raises `DescriptionError`.

    `progress(done, total)` after every plan.
    """
    if not kernel_ns:
        raise DescriptionError(
            f"stage {pipeline.stages[0].name!r} has no time; write kernel_us = the kernel alone, measured"
        )
    known = described_costs(pipeline, device, kernel_ns)
    baseline = StreamSync(SlicesLast(RowMajor()))
    stream = known.simulated(pipeline, baseline, device)
    plans = _plans(pipeline)
    flags = contradictions(pipeline, device, kernel_ns)
    tried = [Tried(STREAM, known.forecast(stream, 0.0, flags), stream)]
    for done, (name, plan) in enumerate(plans.items(), start=1):
        trace = known.simulated(pipeline, plan, device)
        points = known.points(trace.time_ns, stream.time_ns)
        tried.append(Tried(name, known.forecast(trace, points, flags), trace))
        if progress is not None:
            progress(done, len(plans))
    best = _simplest_good(tried[1:])
    # What is not known of the kernels is simulated for the plan that is told only: each is a few more runs.
    others = known.alternatives(pipeline, plans[best.name], baseline, device)
    best = replace(best, forecast=known.forecast(best.trace, best.points, flags, others))
    tried = [best if plan.name == best.name else plan for plan in tried]
    most = max(info.blocks_per_sm for info in stream.header.stages)
    if best.points < HELPS_POINTS:
        return Verdict(STREAM, best.forecast.declined, _with(flags, _why_not(stream, best)), tuple(tried))
    gains = {plan.name: plan.points for plan in tried}
    why = _why(stream, best.trace, gains, most)
    return Verdict(best.name, best.forecast, _with(flags, why), tuple(tried))


def _with(flags: Sequence[str], reason: str) -> str:
    return "; ".join((reason, *flags))


def _simplest_good(tried: Sequence[Tried]) -> Tried:
    """The first, so the simplest, plan that is not clearly worse than the best."""
    enough = max(plan.points for plan in tried) - NO_BETTER_POINTS
    return next(plan for plan in tried if plan.points >= enough)


def _plans(pipeline: Pipeline) -> dict[str, Plan]:
    """Simpler plans first. Split-K slices go as hardware issues a grid: all tiles' first ones first.

    An order that is the same as a simpler one on these grids, as every one is on a single row, is left out.
    """
    policies = (RowSync(), TileSync())
    grids = [stage.grid for stage in pipeline.stages]
    sequences = {str([order.sequence(grid) for grid in grids]): order for order in reversed(ORDERS)}
    orders = sorted(sequences.values(), key=ORDERS.index)
    return {
        policy.name if order == RowMajor() else f"{policy.name} {order.name}": SemaphoreSync(
            policy, order=SlicesLast(order)
        )
        for order in orders
        for policy in policies
    }


def _why(stream: Trace, best: Trace, gains: Mapping[str, float], blocks_per_sm: int) -> str:
    before, after = metrics_of(stream), metrics_of(best)
    idle_before = 100.0 * (before.tail_loss_ns + before.launch_gap_ns) / before.makespan_ns
    idle_after = 100.0 * (after.tail_loss_ns + after.launch_gap_ns + after.waiting_ns) / after.makespan_ns
    words = (
        f"stream sync leaves SM slots empty {idle_before:.0f} % of the time, in the kernels' last waves; "
        f"with semaphores blocks of the next kernel fill them, and {idle_after:.0f} % is left empty or "
        "waiting"
    )
    if gains["row"] != gains["tile"]:
        words += f"; row and tile semaphores differ by {abs(gains['row'] - gains['tile']):.1f} points"
    return words + (
        "" if blocks_per_sm == 1 else f"; {blocks_per_sm} blocks share an SM, where predictions are less sure"
    )


def _why_not(stream: Trace, best: Tried) -> str:
    """Where the SM time goes under either plan, in percent of the stream-sync run."""
    before, after = metrics_of(stream), metrics_of(best.trace)
    unit = before.makespan_ns / 100.0
    empty, still_empty = before.tail_loss_ns / unit, after.tail_loss_ns / unit
    waiting, added = after.waiting_ns / unit, (after.busy_ns - before.busy_ns) / unit
    verb = "costs" if best.points < 0 else "gains only"
    words = f"the best semaphore plan tried, {best.name}, {verb} {abs(best.points):.1f} points: "
    if empty < NEARLY_FULL:
        words += f"the last waves are nearly full, stream sync leaves {empty:.1f} % of SM slots empty"
    else:
        words += (
            f"stream sync leaves {empty:.0f} % of SM slots empty; with semaphores empty slots take "
            f"{still_empty:.0f} % and waiting blocks {waiting:.0f} % of stream sync's time"
        )
    if added >= 1.0:
        words += f"; fetching tiles, polling semaphores and posting add {added:.0f} % to the blocks' work"
    return words
