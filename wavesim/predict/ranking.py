"""The rule by which plans are ranked, whoever names one: commands, widgets, and `mlp` of the GPU package.

Example: row semaphores promise +12.2 points and were scored on this device; Stream-K promises +12.6 and was
never scored. Rows come first, unless what Stream-K surely gains is more than their interval reaches. Nothing
is simulated here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from wavesim.plan.plan import Plan
from wavesim.predict.forecast import Forecast, HasForecast
from wavesim.predict.intervals import SUPPORTS
from wavesim.safety.verdict import BASES, SafetyVerdict

NO_BETTER_POINTS = 0.5  # by which a plan must be better than a simpler or safer one to be recommended
CONTENDERS = 3  # of those as well supported, whose interval is widened by what the description leaves open


@dataclass(frozen=True)
class ForecastPlan(HasForecast):
    """A plan with the forecast of its gain over stream sync, and its safety."""

    plan: Plan
    safety: SafetyVerdict
    forecast: Forecast


Option = TypeVar("Option", bound=ForecastPlan)


def promising(options: Sequence[Option], widened: Callable[[Option], Option] | None = None) -> Option | None:
    """The option that the best supported predictions favour, unless another is beyond its interval.

    None of no options. It may still be not worth leaving stream sync. `widened` makes the interval of the few
    that come into question cover what is not known.
    """
    chosen: Option | None = None
    for support in SUPPORTS:
        level = [option for option in options if option.forecast.support == support]
        if not level:
            continue
        if chosen is not None and max(o.forecast.low for o in level) <= chosen.forecast.high:
            continue
        first = _best_first(level)[:CONTENDERS]
        best = _best_first(first if widened is None else [widened(option) for option in first])[0]
        if chosen is None or best.forecast.low > chosen.forecast.high:
            chosen = best
    return chosen


def _best_first(options: Sequence[Option]) -> list[Option]:
    """Those not clearly worse than what promises most: guaranteed ones first, of these the simpler ones."""
    enough = max(option.forecast.sure_points for option in options) - NO_BETTER_POINTS
    good = [option for option in options if option.forecast.sure_points >= enough]
    return sorted(good, key=lambda option: BASES.index(option.safety.basis or "idle"))
