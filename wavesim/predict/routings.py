"""A plan's time where the routing is not known before: an interval over routings that are drawn.

Example: of 19 draws the second shortest and the second longest time hold another draw's in 8 of 10 cases,
whatever the times' distribution. For 256 tokens of Qwen3-30B-A3B all experts alike differ by 2 %.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.predict.known_costs import KnownCosts
from wavesim.safe_io.bounds import whole

USUAL_DRAWS, LEAST_DRAWS, MOST_DRAWS = 19, 9, 999
OUTSIDE = 0.1  # share of draws below the interval, and above it
FIRST_SEED = 1_000  # apart from those that descriptions name


@dataclass(frozen=True)
class RoutingInterval:
    """Times of so many draws: the median, and what holds another draw's in 8 of 10 cases. Simulated."""

    low_ns: int
    median_ns: int
    high_ns: int
    draws: int

    def holds(self, time_ns: int) -> bool:
        """Whether a time lies inside."""
        return self.low_ns <= time_ns <= self.high_ns

    @property
    def text(self) -> str:
        """In words."""
        low, middle, high = (ns / 1e3 for ns in (self.low_ns, self.median_ns, self.high_ns))
        return (
            f"routing drawn anew: median {middle:.1f} us, {low:.1f} to {high:.1f} in 8 of 10 "
            f"(simulated, {self.draws} draws)"
        )


def is_drawn(pipeline: Pipeline) -> bool:
    """Whether a stage's work depends on a draw."""
    return any(stage.work.redrawn(0) is not None for stage in pipeline.stages)


def redrawn(pipeline: Pipeline, seed: int) -> Pipeline:
    """The same with all that is drawn drawn by another seed, alike in all stages.

    The dependencies are made for the new grids.
    """
    works = {stage.name: stage.work.redrawn(seed) or stage.work for stage in pipeline.stages}
    return pipeline.with_works(works)


def over_routings(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    costs: Callable[[Pipeline], KnownCosts],
    draws: int = USUAL_DRAWS,
) -> RoutingInterval:
    """Simulates the plan for `draws` routings. Raises `DescriptionError` where nothing is drawn."""
    whole("draws", draws, LEAST_DRAWS, MOST_DRAWS)
    if not is_drawn(pipeline):
        raise DescriptionError(f"{pipeline.name}: no routing is drawn; leave counts out, or draws")
    times = sorted(time_of(redrawn(pipeline, FIRST_SEED + i), plan, device, costs) for i in range(draws))
    outside = round(OUTSIDE * (draws + 1)) - 1
    return RoutingInterval(times[outside], round(median(times)), times[-1 - outside], draws)


def time_of(pipeline: Pipeline, plan: Plan, device: Device, costs: Callable[[Pipeline], KnownCosts]) -> int:
    """Of one routing."""
    return costs(pipeline).simulated(pipeline, plan, device).time_ns
