"""The frame of what-ifs that draw timelines under each other: a scenario's controls, a finding, a source.

Example: `ExpertsWhatIf(tokens=16)` begins with 16 tokens; `ExpertsWhatIf(token=16)` is refused by name.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model_time.model_pass import layer_costs
from wavesim.plan.plan import Plan
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.escaping import element
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.view.timeline_data import TimelineParts, timeline_parts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.drawn import PlansPicture
from wavesim.widgets.explorer import Explorer, require_start_values
from wavesim.widgets.words import Words


class PlansWhatIf(Explorer):
    """Keyword arguments are the start values of the controls, by the names of the scenario's fields.

    A subclass names its `scenario_type` and answers `_controls`, `_timelines` and `_words`. Raises
    `DescriptionError` or `DeadlockError` if the start values cannot run.
    """

    kinds = (PlansPicture,)
    scenario_type: ClassVar[type]

    def __init__(self, **start: Any) -> None:
        require_start_values(type(self).__name__, self.scenario_type, start)
        self.finding, self.costs = Words(), Words()
        controls, *beside = self._controls(self.scenario_type(**start))
        super().__init__(controls, beside=beside, above=[self.finding], below=[self.costs])

    @property
    def scenario(self) -> Any:
        """What the controls say. Raises `DescriptionError`."""
        return self.scenario_type(**self.values)

    def _controls(self, first: Any) -> tuple[Any, ...]:
        """By field of the scenario, and what comes beside them."""
        raise NotImplementedError

    def _timelines(self) -> Sequence[Trace]:
        """What the controls say, simulated; the first at the top. Raises `WavesimError`."""
        raise NotImplementedError

    def _words(self) -> tuple[str, str]:
        """The finding, and where the times come from."""
        raise NotImplementedError

    def _scenes(self) -> Sequence[dict[str, Any]]:
        return [scene_of_timeline(self._panels(timeline_parts(self._timelines())))]

    def _panels(self, parts: TimelineParts) -> TimelineParts:
        """The timelines as they are drawn."""
        return parts

    def _say(self) -> None:
        finding, source = self._words()
        self.finding.value = element("div", finding, role="status", aria_live="polite")
        self.costs.value = element("p", source)


def simulated_plans(
    pipeline: Pipeline, plans: Sequence[Plan], device: Device
) -> tuple[list[Trace], KnownCosts]:
    """Traces of the plans, and the costs that they were simulated with. Raises as `simulate` does."""
    costs = layer_costs(pipeline, device)
    return [simulate(pipeline, plan, device, costs.of_plan(pipeline, plan, device)) for plan in plans], costs


def instead_of(chosen: Trace, other: Trace) -> str:
    """Both times and the gain, in words."""
    points = improvement_points(chosen.time_ns, other.time_ns)
    return f"{chosen.time_ns / 1000:,.1f} µs instead of {other.time_ns / 1000:,.1f} µs, {points:+.1f} points"
