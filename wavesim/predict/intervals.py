"""Intervals: how far predictions were off, by what was known, how hard each was, and where they were scored.

Example: predictions from a stream-sync trace of our first GEMM were scored on an H200, so that 8 times in 10
the measurement lies within 1.5 spreads of them there. On a GPU where none was scored, and for kernels of
which no prediction was ever scored, the interval is as wide as holds 8 in 10 over all families of kernels
that were, each left out in turn. The words say which of the three it is. `recordings/intervals.json` has the
widths, and `wavesim validate` counts how many measurements lie inside, also of devices and kernels left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import sqrt
from typing import Literal, get_args

from wavesim.costs.device_costs import costs_of
from wavesim.model.device import catalogue_name
from wavesim.predict.kinds import are_kernels_unnamed
from wavesim.recordings.shipped import FOLDER
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace

INTERVALS = FOLDER / "intervals.json"
# Of layers and of convolutions, scored in runs of their own.
LAYER_INTERVALS = FOLDER / "layers" / "intervals.json"
CONVOLUTION_INTERVALS = FOLDER / "convolutions" / "intervals.json"
LEVEL = 0.8
UNSCORED_POINTS = 8.0  # half-width where the package has no scores at all; a guess

# Where predictions of a kind were held against measurements: on this device, on others only, or nowhere.
Support = Literal["here", "elsewhere", "never"]
SUPPORTS: tuple[Support, ...] = get_args(Support)  # best first
LEVEL_TEXT: dict[Support, str] = {
    "here": "8 times in 10",
    "elsewhere": "a wide guess: such predictions were scored on other devices, not on this one",
    "never": "a wide guess: no prediction of this kind was ever scored",
}


@dataclass(frozen=True)
class KindScore:
    """How far predictions of a kind were off.

    `half_width_over_spread`: half of the 80 % interval, from the development split, measured on `devices`.
    The errors are of the test split, absolute, in points; of some kinds that has no `cases`.
    """

    half_width_over_spread: float
    devices: tuple[str, ...]
    cases: int
    median_abs_error_points: float
    p90_abs_error_points: float


@dataclass(frozen=True)
class Widths:
    """Half-widths over spread: of each kind where it was scored, and of what was `unseen`."""

    kinds: Mapping[str, KindScore]
    unseen: float

    def support(self, kind: str, device: str) -> Support:
        """Where predictions of a kind were scored, on cases of the test split, as seen from a device."""
        known = self.kinds.get(kind)
        if known is None or not known.cases:
            return "never"
        return "here" if device in known.devices else "elsewhere"

    def half_width(self, kind: str, spread: float, device: str) -> float:
        """Half of the interval in points. What was not scored here keeps its kind's own if that is wider."""
        own = self.kinds[kind].half_width_over_spread if kind in self.kinds else 0.0
        return spread * (own if self.support(kind, device) == "here" else max(own, self.unseen))


def support_of(kind: str, device: str) -> Support:
    """Where predictions of a kind were scored, as seen from a device, by the committed scores."""
    return committed_widths().support(kind, catalogue_name(device))


def half_width(kind: str, spread: float, device: str) -> float:
    """Half of the interval of a user's case in points, by its kind and device, from the committed widths.

    Kernels without a name are kernels that nobody scored, whatever others of their kind were: never narrower
    than what was `unseen`. The first strangers' kernels lay inside the narrower intervals 12 times in 30.
    """
    widths = committed_widths()
    own = widths.half_width(kind, spread, catalogue_name(device))
    return max(own, spread * widths.unseen) if are_kernels_unnamed(kind) else own


def history_text(kind: str, device: str) -> str:
    """How far predictions of a kind have differed from measurements, and where."""
    known = committed_widths().kinds.get(kind)
    if known is None:
        return "no prediction of this kind was ever scored; take the sign and the shape, not the size"
    if not known.cases:
        return f"{kind}: only the sizes that its interval was learnt on were measured, none beside them"
    where = "" if catalogue_name(device) in known.devices else ", none of them on this device"
    return (
        f"{kind}: median error {known.median_abs_error_points:.1f} points, 90 % within "
        f"{known.p90_abs_error_points:.1f}, over {known.cases} plans measured on "
        f"{' and '.join(known.devices)}{where}"
    )


def scored_text(kind: str, device: str) -> str:
    """On how many such plans predictions were scored, and where; a guess where that was not on the device."""
    known, support = committed_widths().kinds.get(kind), support_of(kind, device)
    if known is None or support == "never":
        return "a guess: no such prediction was ever scored"
    where = " and ".join(known.devices)
    if support == "elsewhere":
        return f"a guess: such predictions were scored on {where}, not on {catalogue_name(device)}"
    plans = "plans of other kernels" if are_kernels_unnamed(kind) else "such plans"
    return f"scored on {known.cases} {plans} on {where}"


def spread_points(trace: Trace, improvement: float) -> float:
    """How hard a plan is to predict, in points, from its predicted trace and improvement alone.

    Errors are independent, so variances add: what no run is free of; a start-up that takes
    longer or shorter from run to run; the share of the SM time that is not spent computing, where a few
    blocks decide when all ends; what a busy DRAM adds to the tiles, where being in step or not is chance; and
    the size of the improvement. The root of their sum.
    """
    weights = costs_of(str(trace.header.device.get("name", ""))).spread
    found = metrics_of(trace)
    stream_ns = trace.time_ns / max(0.01, 1.0 - improvement / 100.0)
    idle = 100.0 * (found.waiting_ns + found.tail_loss_ns) / max(1, found.makespan_ns)
    slower = float((trace.header.costs.get("memory") or {}).get("slower_percent", 0.0))
    return sqrt(
        weights.least_points
        + 100.0 * weights.startup_ns / stream_ns
        + weights.idle_share * idle
        + weights.dram_share * slower
        + weights.gain_share * abs(improvement)
    )


@lru_cache(maxsize=1)
def committed_widths() -> Widths:
    """What was last committed with the package; nothing of any kind if there is nothing."""
    if not INTERVALS.exists():
        return Widths({}, UNSCORED_POINTS)
    found = json.loads(INTERVALS.read_text())
    own = [path for path in (LAYER_INTERVALS, CONVOLUTION_INTERVALS) if path.exists()]
    listed = chain.from_iterable(json.loads(path.read_text())["kinds"].items() for path in own)
    kinds = {
        kind: KindScore(**{**one, "devices": tuple(one["devices"])})
        for kind, one in {**found["kinds"], **dict(listed)}.items()
    }
    return Widths(kinds, found["unseen"])
