"""A verdict on a user's own kernels: will tile-level synchronisation help, by how much, and why.

Example: two kernels of 192 and 384 blocks on 132 SMs, one block per SM: their last waves are 45 %
and 91 % full. The plans are simulated from the two measured kernel times alone; the best one, its
gain and an 80 % interval come out, with the reason in words.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wavesim.analysis.metrics import metrics_of
from wavesim.costs.calibration_checks import contradictions
from wavesim.costs.calibration_text import words_of_kernel_times
from wavesim.costs.device_costs import machine_of
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Grouped, RowMajor, SlicesLast
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.intervals import half_width, spread_points
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.kinds import kernel_times_kind
from wavesim.predict.prediction import improvement_points, sustained_points
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

NEARLY_FULL = 3.0  # percent of SM slots
HELPS_POINTS = 1.0  # a gain smaller than this is not worth two streams
NO_BETTER_POINTS = 0.5  # by which a plan must be better than a simpler one to be chosen


@dataclass(frozen=True)
class Verdict:
    """The best plan of those tried, its improvement over stream sync in points with an interval, and why.

    `basis` says what was used and what was assumed. `improvements` has every plan tried, in points.
    """

    best: str
    improvement_points: float
    low: float
    high: float
    reason: str
    basis: str
    improvements: Mapping[str, float]


def verdict_on(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int]) -> Verdict:
    """Predicts every plan from the stages' measured times alone. Raises `DescriptionError`."""
    machine = machine_of(device)
    costs = costs_from_kernel_times(pipeline, device, kernel_ns, machine)
    stream = simulate(pipeline, StreamSync(), device, costs)
    traces = {name: simulate(pipeline, plan, device, costs) for name, plan in _plans().items()}
    gains = {
        name: sustained_points(improvement_points(trace.time_ns, stream.time_ns), machine.clock_share)
        for name, trace in traces.items()
    }
    enough = max(gains.values()) - NO_BETTER_POINTS
    best = next(name for name, gain in gains.items() if gain >= enough)
    most = max(info.blocks_per_sm for info in stream.header.stages)
    margin = half_width(kernel_times_kind(pipeline, device, most), spread_points(traces[best], gains[best]))
    basis = words_of_kernel_times(device, costs)
    flags = "".join(f"; {flag}" for flag in contradictions(pipeline, device, kernel_ns))
    if gains[best] < HELPS_POINTS:
        reason = _why_not(stream, traces[best], best, gains[best]) + flags
        high = max(0.0, gains[best] + margin)
        return Verdict("stream", 0.0, 0.0, high, reason, basis, {"stream": 0.0, **gains})
    reason = _why(stream, traces[best], gains, most) + flags
    return Verdict(
        best, gains[best], gains[best] - margin, gains[best] + margin, reason, basis, {"stream": 0.0, **gains}
    )


def _plans() -> dict[str, Plan]:
    """Simpler plans first. Split-K slices go as hardware issues a grid: all tiles' first ones first."""
    policies = (RowSync(), TileSync())
    orders = (RowMajor(), Grouped(4), Grouped(8))
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


def _why_not(stream: Trace, best: Trace, name: str, gain: float) -> str:
    """Where the SM time goes under either plan, in percent of the stream-sync run."""
    before, after = metrics_of(stream), metrics_of(best)
    unit = before.makespan_ns / 100.0
    empty, still_empty = before.tail_loss_ns / unit, after.tail_loss_ns / unit
    waiting, added = after.waiting_ns / unit, (after.busy_ns - before.busy_ns) / unit
    verb = "costs" if gain < 0 else "gains only"
    words = f"the best semaphore plan tried, {name}, {verb} {abs(gain):.1f} points: "
    if empty < NEARLY_FULL:
        words += f"the last waves are nearly full, stream sync leaves {empty:.1f} % of SM slots empty"
    else:
        words += (
            f"of the {empty:.0f} % of SM slots that stream sync leaves empty {still_empty:.0f} % stay empty "
            f"and {waiting:.0f} % go into waiting"
        )
    if added >= 1.0:
        words += f"; drawing tiles, looking at semaphores and posting add {added:.0f} % to the blocks' work"
    return words
