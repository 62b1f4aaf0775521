"""The comparison view: predicted over measured, tile by tile, and the difference cause by cause.

Example: choose 1,536 tokens, row semaphores: the simulated timeline above the H200's, dots where tiles
ended later than predicted, and bars of launch, waves, waiting and tile times that add up.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets
import plotly.graph_objects as go

from wavesim.errors import DescriptionError, WavesimError
from wavesim.model.device import default_device
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.escaping import Markup
from wavesim.trace.trace import Trace
from wavesim.view.comparison import Compared, comparison_update
from wavesim.view.export import figure_html, save_figure
from wavesim.view.figure_text import figure_of
from wavesim.view.timeline_figure import FigureUpdate
from wavesim.view.wording import plan_labels
from wavesim.widgets.live_figure import LiveFigure
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.tuned_points import predicted_trace
from wavesim.widgets.words import Words, problem_box, style_sheet

NARROWEST, WIDEST, FIRST_WIDTH = 560, 1400, 960
Run = tuple[str, Callable[[], tuple[Trace, Trace, Trace | None]]]  # label; predicted, measured, stream sync


class ComparisonView(ipywidgets.VBox):
    """A choice of runs and the figure of the chosen one.

    Shows what `wavesim.compare` returned; `recorded` shows the shipped recordings. Raises
    `DescriptionError` if nothing of it was measured.
    """

    @typed
    def __init__(self, compared: Compared | Sequence[Run]) -> None:
        self._runs = list(compared) if isinstance(compared, Sequence) else _runs_of(compared)
        if not self._runs:
            raise DescriptionError(
                "ComparisonView: nothing was measured; use recorded kernels, or a machine with a GPU"
            )
        self._watch = PageWatch()
        self.choice = ipywidgets.Dropdown(
            description="Run",
            options=[(label, index) for index, (label, _) in enumerate(self._runs)],
            layout={"width": "480px"},
        )
        self.figure = LiveFigure(self._update())
        self.problem = Words()
        self._box = ipywidgets.Box([self.figure])
        self._box.add_class("wavesim-picture")
        self.choice.observe(lambda _: self.refresh(), names="value")
        self._watch.observe(lambda _: self.refresh(), names=["is_light", "width"])
        super().__init__([style_sheet(), self.choice, self.problem, self._box, self._watch])
        self.add_class("wavesim")

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

    def refresh(self) -> None:
        """Draws the chosen run, or says why it cannot be drawn."""
        try:
            self._show(self._update())
        except WavesimError as error:
            self.problem.value = problem_box("Not drawn", str(error))
            self._box.add_class("wavesim-stale")
            return
        self.problem.value = ""
        self._box.remove_class("wavesim-stale")

    def _show(self, update: FigureUpdate) -> None:
        """Edits the figure on screen, or replaces it by one with as many series as there are now."""
        if len(update.data) == len(self.figure.data):
            self.figure.redraw(update)
            return
        former, self.figure = self.figure, LiveFigure(update)
        self._box.children = [self.figure]
        former.close()

    def html(self) -> Markup:
        """The chosen run's figure for a page that has no kernel; 5 MB, as plotly.js is in it."""
        return figure_html(self._still("light"))

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes the figure to .html, .png or .svg. Raises as `save_figure` does."""
        return save_figure(self._still(theme, width), path)

    def _still(self, theme: str, width: int = FIRST_WIDTH) -> go.Figure:
        return figure_of(*self._drawn(theme, width))

    def _update(self) -> FigureUpdate:
        width = min(WIDEST, max(NARROWEST, self._watch.width or FIRST_WIDTH))
        return self._drawn(self._watch.theme, width)

    def _drawn(self, theme: str, width: int) -> FigureUpdate:
        ours, theirs, stream = self._runs[self.choice.value][1]()
        return comparison_update([(ours, theirs)], theme=theme, width=width, baseline=stream)


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
