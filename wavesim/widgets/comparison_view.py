"""The comparison view: predicted over measured, tile by tile, and the difference cause by cause.

Example: choose 1,536 tokens, row semaphores: the simulated timeline above the H200's, dots where tiles
ended later than predicted, and bars of launch, waves, waiting and tile times that add up.
"""

from collections.abc import Callable, Sequence
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.device import default_device
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.safe_io.annotated import typed
from wavesim.trace.difference import explain_difference
from wavesim.trace.trace import Trace
from wavesim.view.comparison import Compared, TracePair, comparison_finding, scene_of_difference
from wavesim.view.timeline_data import Extras, timeline_parts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.view.wording import plan_labels
from wavesim.widgets.drawn import DrawnWidget, PlansPicture
from wavesim.widgets.explorer import Explorer, menu
from wavesim.widgets.scripts import script
from wavesim.widgets.tuner_view import predicted_trace

Run = tuple[str, Callable[[], tuple[Trace, Trace, Trace | None]]]  # label; predicted, measured, stream sync


class ErrorsPicture(DrawnWidget):
    """Errors tile by tile over time, and the reasons that add up to the whole."""

    _esm = script("pen.js", "picture.js", "errors_picture.js")


class ComparisonView(Explorer):
    """A choice of runs, the timelines of the chosen one and its errors.

    Shows what `wavesim.compare` returned; `recorded` shows the shipped recordings. Raises
    `DescriptionError` if nothing of it was measured.
    """

    kinds = (PlansPicture, ErrorsPicture)

    @typed
    def __init__(self, compared: Compared | Sequence[Run]) -> None:
        self._runs = list(compared) if isinstance(compared, Sequence) else _runs_of(compared)
        if not self._runs:
            raise DescriptionError(
                "ComparisonView: nothing was measured; use recorded kernels, or a machine with a GPU"
            )
        options = [(label, index) for index, (label, _) in enumerate(self._runs)]
        super().__init__({"choice": menu("Run", options, 0, layout={"width": "480px"})})

    @classmethod
    @typed
    def recorded(
        cls, tile: str = "128x256", order: str = "row", device: str | None = None
    ) -> "ComparisonView":
        """The shipped recordings of a tile and order, each predicted from its stream-sync run alone."""
        device = device or default_device().name
        chosen = [case for case in cases() if (case.device, case.tile, case.order) == (device, tile, order)]
        chosen.sort(key=lambda case: case.tokens)
        return cls([_recorded_run(case, plan) for case in chosen for plan in sorted(case.paths)])

    def _scenes(self) -> Sequence[dict[str, Any]]:
        ours, theirs, stream = self._runs[self.choice.value][1]()
        (label,) = plan_labels([ours.header])
        pair = TracePair(label, ours, theirs, explain_difference(ours, theirs, stream))
        labels = Extras(tuple(f"{label}, {word}" for word in ("predicted", "measured")))
        timelines = scene_of_timeline(timeline_parts([ours, theirs], extras=labels), comparison_finding(pair))
        return [timelines, scene_of_difference(ours, pair.difference)]


def _runs_of(compared: Compared) -> list[Run]:
    pairs = zip(compared.predicted, compared.measured, strict=True)
    stream = next((trace for trace in compared.measured if trace and trace.header.plan == "stream"), None)
    names = plan_labels([ours.header for ours in compared.predicted])
    return [
        (name, lambda ours=ours, theirs=theirs: (ours, theirs, stream))  # type: ignore[misc]
        for name, (ours, theirs) in zip(names, pairs, strict=True)
        if theirs is not None
    ]


def _recorded_run(case: RecordedCase, plan: str) -> Run:
    label = f"{case.tokens:,} tokens, {case.trace(plan).header.plan_label.lower()}"
    return label, lambda: (predicted_trace(case, plan)[0], case.trace(plan), case.trace("stream"))
