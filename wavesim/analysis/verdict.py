"""A verdict on a user's own kernels: will tile-level synchronisation help, by how much, and why.

Picture: two kernels of 192 and 384 blocks on 132 SMs, one block per SM: their last waves are 45 %
and 91 % full. The plans are simulated from the two measured kernel times alone; the best one, its
gain and an interval come out, with the reason in words.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from wavesim.analysis.metrics import metrics_of
from wavesim.analysis.prediction import improvement_points
from wavesim.analysis.validation import committed_scores
from wavesim.model.device import Device
from wavesim.model.order import Grouped, RowMajor
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync, StreamSync
from wavesim.model.policy import RowSync, TileSync
from wavesim.sim.calibration import costs_from_kernel_times
from wavesim.sim.simulation import simulate
from wavesim.trace import Trace

NEARLY_FULL = 3.0  # percent of SM slots
RECORDED_DEVICES, MOST_SCORED_BLOCKS = ("h200",), 2
HELPS_POINTS = 1.0  # a gain smaller than this is not worth two streams
UNSCORED_POINTS = 8.0  # half-width of the interval where no recordings of the kind exist


@dataclass(frozen=True)
class Verdict:
    """The best plan of those tried, its improvement over stream sync in points with an interval, and why.

    `improvements` has every plan tried, in points.
    """

    best: str
    improvement_points: float
    low: float
    high: float
    reason: str
    improvements: Mapping[str, float]


def verdict_on(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int]) -> Verdict:
    """Predicts every plan from the stages' measured times alone. Raises `DescriptionError`."""
    costs = costs_from_kernel_times(pipeline, device, kernel_ns)
    stream = simulate(pipeline, StreamSync(), device, costs)
    traces = {name: simulate(pipeline, plan, device, costs) for name, plan in _plans().items()}
    gains = {name: improvement_points(trace.time_ns, stream.time_ns) for name, trace in traces.items()}
    best = max(gains, key=lambda name: gains[name])
    most = max(info.blocks_per_sm for info in stream.header.stages)
    margin = _margin(device, most)
    if gains[best] < HELPS_POINTS:
        reason = _why_not(stream, traces[best], best, gains[best])
        high = max(0.0, gains[best] + margin)
        return Verdict("stream", 0.0, 0.0, high, reason, {"stream": 0.0, **gains})
    reason = _why(stream, traces[best], gains, most)
    return Verdict(
        best, gains[best], gains[best] - margin, gains[best] + margin, reason, {"stream": 0.0, **gains}
    )


def _plans() -> dict[str, Plan]:
    policies = (RowSync(), TileSync())
    orders = (RowMajor(), Grouped(4), Grouped(8))
    return {
        policy.name if order == RowMajor() else f"{policy.name} {order.name}": SemaphoreSync(
            policy, order=order
        )
        for order in orders
        for policy in policies
    }


def _margin(device: Device, blocks_per_sm: int) -> float:
    """Half-width of the interval: the 90th percentile of past errors here, with as many blocks per SM.

    Those predictions used full traces; where nothing was recorded it is `UNSCORED_POINTS`, a guess.
    """
    score = committed_scores().get("own-1-block" if blocks_per_sm == 1 else "own-2-blocks")
    is_scored = score is not None and device.name in RECORDED_DEVICES and blocks_per_sm <= MOST_SCORED_BLOCKS
    return score.p90_abs_error_points if score is not None and is_scored else UNSCORED_POINTS


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
