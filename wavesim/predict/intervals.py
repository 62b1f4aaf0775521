"""Intervals: how far predictions of a kind were off on the development split, by how hard each was.

Example: at 2560 tokens 8 us are half a percent of the run and SMs stand idle for 3 % of it: a spread of 0.8
points. At 768 tokens in groups of eight rows 8 us are a whole percent, and SMs wait or stand idle for 36 %,
so that a few blocks decide when all ends: 2.7. Of the development split the worst case of 8 in 10 sizes was
off by no more than its spread, times what `recordings/intervals.json` says of the kind; that is more where
constants were fitted to these very cases. `wavesim validate` counts how many cases of the test split lie in
their intervals.
"""

import json
from dataclasses import dataclass, replace
from functools import lru_cache

from wavesim.analysis.metrics import metrics_of
from wavesim.costs.device_costs import costs_of
from wavesim.predict.kinds import trace_kind
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.trace import Trace

INTERVALS = FOLDER / "intervals.json"
STREAM_TRACE = "stream-sync trace"  # what was known of the kinds predicted from one
SCORED_PLANS = ("row", "tile")  # short names of the plans in the recordings
UNSCORED_POINTS = 8.0  # half-width where nothing of the kind was measured; a guess


@dataclass(frozen=True)
class Interval:
    """An improvement in points and its 80 % interval; `scored` is False where no score covers its kind."""

    points: float
    low: float
    high: float
    scored: bool


def interval_of(points: float, kind: str, device: str, trace: Trace) -> Interval:
    """The interval of a predicted improvement, by its kind, the device and the plan's simulated trace.

    Without a score of this kind on this device it is `UNSCORED_POINTS` either way.
    """
    half = half_width(kind, spread_points(trace, points), device)
    is_scored = costs_of(device).is_scored(kind) and kind in committed_half_widths()
    return Interval(points, points - half, points + half, is_scored)


def interval_from_trace(trace: Trace, points: float, *, is_calibrated: bool) -> Interval:
    """The interval of a plan simulated with the costs of a stream-sync run; stream sync's own is 0 to 0.

    Unscored where costs are not `is_calibrated` on a run of this size and order, and for plans that no
    recording has.
    """
    head = trace.header
    device = str(head.device.get("name", ""))
    is_scored_plan = is_calibrated and head.plan in (*SCORED_PLANS, "stream")
    kind = trace_kind(STREAM_TRACE, head.stages) if is_scored_plan else ""
    found = interval_of(points, kind, device, trace)
    return replace(found, low=points, high=points) if head.plan == "stream" else found


def spread_points(trace: Trace, improvement: float) -> float:
    """How hard a plan is to predict, in points, from its predicted trace and improvement alone.

    The sum of what no run is free of; a start-up that takes longer or shorter from run to run; a share of the
    SM time that is not spent computing; a share of what a busy DRAM adds to the tiles, where being in step or
    not is chance. Only on devices whose data file has an `[interval]`; elsewhere all cases count as 1.
    """
    weights = costs_of(str(trace.header.device.get("name", ""))).spread
    if weights is None:
        return 1.0
    found = metrics_of(trace)
    stream_ns = trace.time_ns / max(0.01, 1.0 - improvement / 100.0)
    idle = 100.0 * (found.waiting_ns + found.tail_loss_ns) / max(1, found.makespan_ns)
    slower = float(trace.header.costs.get("memory", {}).get("slower_percent", 0.0))
    start = 100.0 * weights.startup_ns / stream_ns
    return weights.least_points + start + weights.idle_share * idle + weights.dram_share * slower


def half_width(kind: str, spread: float, device: str = "") -> float:
    """Half of the 80 % interval of a case in points, by its kind; `UNSCORED_POINTS` if none was measured.

    With a device's name, also where none of the kind was measured on that device.
    """
    known = committed_half_widths().get(kind)
    is_elsewhere = bool(device) and not costs_of(device).is_scored(kind)
    return UNSCORED_POINTS if known is None or is_elsewhere else known * spread


@lru_cache(maxsize=1)
def committed_half_widths() -> dict[str, float]:
    """The half-widths as last committed with the package; empty if there are none."""
    if not INTERVALS.exists():
        return {}
    found: dict[str, float] = json.loads(INTERVALS.read_text())["half_width_over_spread"]
    return found
