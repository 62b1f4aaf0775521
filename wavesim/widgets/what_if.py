"""The what-if explorer: change tokens, tile, device, order or policy and see both timelines follow.

Picture: stream sync above, the chosen plan below, the same time axis, and the gain in words. A setting
that cannot run says why and leaves the last good picture, greyed; a deadlock is told as one.
"""

from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import WavesimError
from wavesim.view.timeline_data import TimelineParts, timeline_parts
from wavesim.view.timeline_figure import timeline_update
from wavesim.widgets.controls import Controls, start_scenario
from wavesim.widgets.live_figure import LiveFigure
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.scenario import Answer, answer
from wavesim.widgets.summary import costs_html, failure_html, finding_html, problem_html, table_html
from wavesim.widgets.when_still import WhenStill

NARROWEST, WIDEST, FIRST_WIDTH = 560, 1400, 960
# Up to so many tiles the picture is drawn in full at once; more are drawn as a picture first, and in full
# (bars, hovering) when the controls have been still for a moment: a browser needs 0.1 s per 1,000 bars.
AT_ONCE_TILES, STILL_S = 300, 0.4
MANY_SMS, GPU_HEIGHT = 80, 840  # two whole GPUs and the controls on one screen
STYLE = Path(__file__).parent / "what_if.css"


class WhatIf(ipywidgets.VBox):
    """The explorer. Keyword arguments are the start values of its controls, by `Scenario`'s names.

    Raises `DescriptionError` or `DeadlockError` if the start values cannot run.
    """

    def __init__(self, **start: Any) -> None:
        self._watch = PageWatch()
        self.controls = Controls(start_scenario(**start), self.refresh)
        self.answer: Answer = answer(self.controls.scenario)
        self.finding = ipywidgets.HTML()
        self.table = ipywidgets.HTML()
        self.costs = ipywidgets.HTML()
        self.figure = LiveFigure(timeline_update(self._parts(), self._watch.theme))
        self._detail = WhenStill(self._draw_in_full, STILL_S)
        self._picture_box = ipywidgets.Box([self.figure])
        self._picture_box.add_class("wavesim-picture")
        self._below = ipywidgets.Box([self.table, self.costs])
        self._below.add_class("wavesim-below")
        self._say()
        self._watch.observe(lambda _: self._redraw(), names=["is_light", "width"])
        style = ipywidgets.HTML(f"<style>{STYLE.read_text(encoding='utf-8')}</style>")
        style.add_class("wavesim-style")
        parts = [style, self.controls.box, self.finding, self._picture_box, self._below, self._watch]
        super().__init__(parts)
        self.add_class("wavesim")

    def refresh(self) -> None:
        """Simulates what the controls say and shows it; called on every change of a control."""
        is_told = False
        try:
            self.answer = answer(self.controls.scenario)
            self._redraw()
            self._say()
            is_told = True
        except WavesimError as error:
            self._refuse(problem_html(error, self.answer))
            is_told = True
        finally:
            if not is_told:
                self._refuse(failure_html(self.answer))

    def _parts(self) -> TimelineParts:
        width = min(WIDEST, max(NARROWEST, self._watch.width or FIRST_WIDTH))
        height = GPU_HEIGHT if self.answer.scenario.sm_count > MANY_SMS else None
        return timeline_parts([self.answer.stream, self.answer.chosen], width=width, height=height)

    def _redraw(self) -> None:
        self._detail.cancel()
        if len(self.answer.stream) + len(self.answer.chosen) <= AT_ONCE_TILES:
            self._draw_in_full()
            return
        self.figure.redraw(timeline_update(self._parts().preview, self._watch.theme))
        self._detail.restart()

    def _draw_in_full(self) -> None:
        self.figure.redraw(timeline_update(self._parts(), self._watch.theme))

    def _say(self) -> None:
        """The words around the picture, and the picture no longer greyed."""
        for part in (self._picture_box, self._below):
            part.remove_class("wavesim-stale")
        self.finding.value = finding_html(self.answer)
        self.table.value = table_html(self.answer)
        self.costs.value = costs_html(self.answer)

    def _refuse(self, html: str) -> None:
        self.finding.value = html
        for part in (self._picture_box, self._below):
            part.add_class("wavesim-stale")
