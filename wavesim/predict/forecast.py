"""A forecast: a predicted improvement with all that has to stand beside it wherever it is shown.

Example: "+14.1 points over stream sync (+12.9 to +15.3 points, 8 times in 10)", calibrated on a recorded run,
no default assumed. On a device where nobody scored such predictions the same sentence ends "a wide guess: no
prediction of this kind was ever scored", and `scored` is false.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wavesim.predict.intervals import (
    LEVEL_TEXT,
    Support,
    half_width,
    history_text,
    spread_points,
    support_of,
)
from wavesim.trace.trace import Trace

TOLD_POINTS = 0.1  # a smaller widening by what nobody knows is not told
HELPS_POINTS = 1.0  # a gain smaller than this is not worth another plan
MOST_POINTS = 100.0  # nothing takes less than no time
SURE_SHARE = 0.5  # of the interval's lower half: a gain of as much is there about 3 times in 4


@dataclass(frozen=True)
class Forecast:
    """An improvement over stream sync in points, its interval from `low` to `high`, and what it rests on.

    - `scenarios`: the least and the most that was predicted, by what is not known. `widened`: by how many
      points each of that, by its label, widens the interval.
    - `kind`: the predictions that it is one of, as scores name them; "" where there is no name for it.
    - `support`: whether such predictions were scored "here", on this device; "elsewhere", on others only; or
      "never", anywhere.
    - `basis`: what the prediction was made from. `defaults`: each constant or fact assumed for want of a
      measurement. `caveats`: what else limits it. `history`: how far such predictions were off.
    """

    points: float
    low: float
    high: float
    kind: str = ""
    support: Support = "never"
    basis: str = ""
    defaults: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    history: str = ""
    scenarios: tuple[float, float] | None = None
    widened: Mapping[str, float] = field(default_factory=dict)

    @property
    def scored(self) -> bool:
        """Whether predictions of this kind were held against measurements on this device."""
        return self.support == "here"

    @property
    def needed_points(self) -> float:
        """The least gain for which the plan is run: worth it, and more than such predictions are often off.

        What is of no kind of predictions, such as unit times, has no such error.
        """
        off = SURE_SHARE * (self.points - self.low) if self.kind else 0.0
        return max(HELPS_POINTS, off)

    @property
    def sure_points(self) -> float:
        """The gain less half of the interval below it: at least as much is gained about 3 times in 4."""
        return self.points - SURE_SHARE * (self.points - self.low)

    @property
    def is_worth_it(self) -> bool:
        """Whether the plan is one to run in place of stream sync."""
        return self.points >= self.needed_points

    @property
    def interval_text(self) -> str:
        """The interval and how far it can be trusted; it never claims a rate that was not measured."""
        return f"{self.low:+.1f} to {self.high:+.1f} points, {LEVEL_TEXT[self.support]}"

    @property
    def text(self) -> str:
        """One sentence: the improvement, its interval and what that is worth."""
        return f"{self.points:+.1f} points over stream sync ({self.interval_text})"

    @property
    def of_the_baseline(self) -> "Forecast":
        """The same for stream sync, which the others are compared with: 0 by definition."""
        return replace(self, points=0.0, low=0.0, high=0.0)

    @property
    def declined(self) -> "Forecast":
        """The same where the plan gains too little to be run: 0, and at `high` what is lost at most."""
        return replace(self, points=0.0, low=0.0, high=max(0.0, self.high))

    def as_json(self) -> dict[str, Any]:
        """What the JSON of every prediction carries."""
        return {
            "improvement_points": self.points,
            "low": self.low,
            "high": self.high,
            "scored": self.scored,
            "support": self.support,
            "interval": self.interval_text,
            "basis": self.basis,
            "defaults": list(self.defaults),
            "caveats": list(self.caveats),
            "history": self.history,
        }


class HasForecast:
    """What carries a forecast shows its interval, and whether it was scored, as its own."""

    forecast: Forecast

    @property
    def low(self) -> float:
        """The lower end of the interval, in points."""
        return self.forecast.low

    @property
    def high(self) -> float:
        """The upper end of the interval, in points."""
        return self.forecast.high

    @property
    def scored(self) -> bool:
        """Whether predictions of this kind were held against measurements on this device."""
        return self.forecast.scored


def forecast_of(
    points: float,
    trace: Trace,
    kind: str,
    device: str,
    *,
    basis: str = "",
    defaults: tuple[str, ...] = (),
    caveats: tuple[str, ...] = (),
    alternatives: Mapping[str, float] | None = None,
) -> Forecast:
    """The forecast of a simulated plan of a kind of predictions on a device.

    `alternatives`: the improvement, in points, if what the description leaves open were otherwise, by label.
    The interval spans them all, and a caveat says how much wider each makes it.
    """
    half = half_width(kind, spread_points(trace, points), device)
    least = most = points
    widened: dict[str, float] = {}
    told = list(caveats)
    for label, other in (alternatives or {}).items():
        wider = max(0.0, least - other) + max(0.0, other - most)
        least, most = min(least, other), max(most, other)
        if wider >= TOLD_POINTS:
            widened[label] = wider
            told.append(f"{label}: {other:+.1f} points; not knowing widens the interval by {wider:.1f}")
    return Forecast(
        points=points,
        low=least - half,
        high=min(most + half, MOST_POINTS),
        scenarios=(least, most),
        widened=widened,
        kind=kind,
        support=support_of(kind, device),
        basis=basis,
        defaults=defaults,
        caveats=tuple(told),
        history=history_text(kind, device),
    )


LEAST_STAGES = 3  # of two the second's blocks fill all slots alike
LOST_POINTS, OFF_POINTS = 13, 9  # of published chains of four (cuSync, V100), at most


def placement_caveat(trace: Trace) -> tuple[str, ...]:
    """One line for a simulated chain whose stages overlap on shared SMs; none for others."""
    stages = trace.header.stages
    blocks = max(stage.blocks_per_sm for stage in stages)
    if len(stages) < LEAST_STAGES or blocks == 1 or not trace.header.dependencies:
        return ()
    words = (
        f"placement: up to {blocks} blocks share an SM, and those of later kernels, issued early, land "
        f"beside working ones; published chains of four lost up to {LOST_POINTS} points by it, and such "
        f"predictions were off by up to {OFF_POINTS}"
    )
    return (words,)
