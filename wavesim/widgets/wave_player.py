"""The wave player: one trace played in the browser, step by step or as a film.

Example: P4 finishes on SM 0 and posts row 1, whose bar goes from 1 of 3 to 2 of 3; at 3 the hatched C3
turns orange. Space plays, arrow keys step, and the tile grids of both kernels fill in.
"""

from collections.abc import Mapping

import traitlets

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.predict.defaults import default_costs
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import whole
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.drawn import DrawnWidget
from wavesim.widgets.scripts import script


class WavePlayer(DrawnWidget):
    """Plays a trace, simulated or measured, or the simulation of a pipeline under a plan on a device.

    `step` is how many dispatches, waits, posts and finishes have been played; set it to go there. None is the
    middle of the run, where a player opens by itself. `plays` starts it as soon as it is in sight, unless the
    reader's system asks for less motion.
    Raises `DescriptionError` for an empty trace or a pipeline without plan and device, and what
    `simulate` raises.
    """

    _esm = script(
        "pen.js",
        "picture.js",
        "blocks.js",
        "timeline.js",
        "wave_events.js",
        "wave_picture.js",
        "wave_player.js",
    )
    step = traitlets.Int(None, min=0, allow_none=True).tag(sync=True)
    plays = traitlets.Bool(default_value=False).tag(sync=True)
    page_traits = ("step", "plays")

    @typed
    def __init__(
        self,
        what: Trace | Pipeline,
        plan: Plan | None = None,
        device: Device | None = None,
        costs: CostModel | None = None,
        *,
        step: int | None = None,
        plays: bool = False,
    ) -> None:
        if step is not None:
            whole("step", step)
        self.trace = what if isinstance(what, Trace) else _simulated(what, plan, device, costs)
        super().__init__(scene=scene_of_timeline(timeline_parts(self.trace)), step=step, plays=plays)


def _simulated(
    pipeline: Pipeline, plan: Plan | None, device: Device | None, costs: CostModel | None
) -> Trace:
    if plan is None or device is None:
        raise DescriptionError(
            f"WavePlayer({pipeline.name}): plan is {plan} and device is {device}; give both, or give a Trace"
        )
    return simulate(pipeline, plan, device, costs or default_costs(pipeline, device, plan.order.name)[0])


class WaveFilm(DrawnWidget):
    """Plays the traces in turn, each under its title, for ever; `seconds` is how long the longest takes.

    Readers whose system asks for less motion see the last instant of the last trace.
    Raises `DescriptionError` where there is no trace, an empty one, or no second to play them in.
    """

    _esm = script(
        "pen.js",
        "picture.js",
        "blocks.js",
        "timeline.js",
        "wave_events.js",
        "wave_picture.js",
        "wave_film.js",
    )

    @typed
    def __init__(self, traces: Mapping[str, Trace], *, seconds: float = 8.0) -> None:
        if not traces:
            raise DescriptionError("WaveFilm: there is no trace; give at least one, as {title: trace}")
        if not 0 < seconds <= 60:
            raise DescriptionError(f"WaveFilm: seconds is {seconds:g}; it must be above 0 and at most 60")
        scenes = [
            {**scene_of_timeline(timeline_parts(trace)), "title": title} for title, trace in traces.items()
        ]
        super().__init__(scene={"scenes": scenes, "seconds": seconds})
