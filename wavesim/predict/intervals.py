"""Intervals: how far predictions of a kind were off on the development split, by how hard each was.

Example: at 2560 tokens 8 us are half a percent of the run and SMs stand idle for 3 % of it: a spread of 0.8
points. At 768 tokens in groups of eight rows 8 us are a whole percent, and SMs wait or stand idle for 36 %,
so that a few blocks decide when all ends: 2.7. Of the development split the worst case of 8 in 10 sizes was
off by no more than its spread, times what `recordings/intervals.json` says of the kind; that is more where
constants were fitted to these very cases. `wavesim validate` counts how many cases of the test split lie in
their intervals.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from wavesim.analysis.metrics import metrics_of
from wavesim.costs.device_costs import costs_of
from wavesim.model.device import catalogue_name
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.trace import Trace

INTERVALS = FOLDER / "intervals.json"
UNSCORED_POINTS = 8.0  # half-width where nothing of the kind was measured; a guess

# Where predictions of a kind were held against measurements: on this device, on others only, or nowhere.
Support = Literal["here", "elsewhere", "never"]
LEVEL_TEXT: dict[Support, str] = {
    "here": "8 times in 10",
    "elsewhere": "a wide guess: such predictions were scored on other devices, not on this one",
    "never": "a wide guess: no prediction of this kind was ever scored",
}


@dataclass(frozen=True)
class KindScore:
    """How far predictions of a kind were off.

    `half_width_over_spread`: half of the 80 % interval, from the development split. The errors are of the
    test split of `cases`, absolute, in points; `devices` are those that they were measured on.
    """

    half_width_over_spread: float
    devices: tuple[str, ...]
    cases: int
    median_abs_error_points: float
    p90_abs_error_points: float


def support_of(kind: str, device: str) -> Support:
    """Where predictions of a kind were scored, as seen from a device."""
    known = committed_kinds().get(kind)
    if known is None:
        return "never"
    return "here" if catalogue_name(device) in known.devices else "elsewhere"


def history_text(kind: str, device: str) -> str:
    """How far predictions of a kind have differed from measurements, and where."""
    known = committed_kinds().get(kind)
    if known is None:
        return "no prediction of this kind was ever scored; take the sign and the shape, not the size"
    where = "" if catalogue_name(device) in known.devices else ", none of them on this device"
    return (
        f"{kind}: median error {known.median_abs_error_points:.1f} points, 90 % within "
        f"{known.p90_abs_error_points:.1f}, over {known.cases} plans measured on "
        f"{' and '.join(known.devices)}{where}"
    )


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
    known = committed_kinds().get(kind)
    is_elsewhere = bool(device) and support_of(kind, device) != "here"
    return UNSCORED_POINTS if known is None or is_elsewhere else known.half_width_over_spread * spread


@lru_cache(maxsize=1)
def committed_kinds() -> dict[str, KindScore]:
    """What was last committed with the package of every kind; empty if there is nothing."""
    if not INTERVALS.exists():
        return {}
    found = json.loads(INTERVALS.read_text())["kinds"]
    return {kind: KindScore(**{**one, "devices": tuple(one["devices"])}) for kind, one in found.items()}
