"""The what-if explorer: change tokens, tile, device, order or policy and see both timelines follow.

Example: stream sync above, the chosen plan below, the same time axis, and the gain in words. A setting
that cannot run says why and leaves the last good picture, greyed; a deadlock is told as one.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import WavesimError
from wavesim.safe_io.escaping import Markup, element
from wavesim.view.export import save_html
from wavesim.view.timeline_data import TimelineParts, timeline_parts
from wavesim.widgets.controls import Controls, start_scenario
from wavesim.widgets.drawn import style
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.plans_picture import PlansPicture
from wavesim.widgets.scenario import Answer, answer
from wavesim.widgets.summary import costs_html, failure_html, finding_html, problem_html, table_html
from wavesim.widgets.what_if_code import address_of, code_of
from wavesim.widgets.words import Words, style_sheet


class WhatIf(ipywidgets.VBox):
    """The explorer. Keyword arguments are the start values of its controls, by `Scenario`'s names.

    Raises `DescriptionError` or `DeadlockError` if the start values cannot run.
    """

    def __init__(self, **start: Any) -> None:
        self._watch = PageWatch()
        self.controls = Controls(start_scenario(**start), self.refresh)
        self.answer: Answer = answer(self.controls.scenario)
        self.finding = Words()
        self.table = Words()
        self.costs = Words()
        self.picture = PlansPicture(self._parts())
        self._picture_box = ipywidgets.Box([self.picture])
        self._picture_box.add_class("wavesim-picture")
        self._below = ipywidgets.Box([self.table, self.costs])
        self._below.add_class("wavesim-below")
        self._say()
        parts = [style_sheet(), self.controls.box, self.finding, self._picture_box, self._below, self._watch]
        super().__init__(parts)
        self.add_class("wavesim")

    def refresh(self) -> None:
        """Simulates what the controls say and shows it; called on every change of a control."""
        is_told = False
        try:
            with _collections_deferred():
                self.answer = answer(self.controls.scenario)
                self.picture.show(self._parts())
            self._say()
            is_told = True
        except WavesimError as error:
            self._refuse(problem_html(error, self.answer))
            is_told = True
        finally:
            if not is_told:
                self._refuse(failure_html(self.answer))

    @property
    def code(self) -> str:
        """The call that opens the explorer as it is shown now; "" for kernels that are in no catalogue."""
        return code_of(self.answer.scenario)

    def address(self, site: str) -> str:
        """A link that opens it on a site of `make lite`, with nothing installed. Raises as `address_of`."""
        return address_of(self.answer.scenario, site)

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        words = (part.value for part in (self.finding, self.table, self.costs))
        shown = element("div", self.picture.html(), *words, class_="wavesim")
        return Markup("").join([element("style", Markup(style("what_if.css"))), shown])

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes what is shown to .html, its picture to .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)

    def _parts(self) -> TimelineParts:
        return timeline_parts([self.answer.stream, self.answer.chosen])

    def _say(self) -> None:
        """The words around the picture, and the picture no longer greyed."""
        for part in (self._picture_box, self._below):
            part.remove_class("wavesim-stale")
        self.finding.value = finding_html(self.answer)
        self.table.value = table_html(self.answer)
        self.costs.value = costs_html(self.answer)

    def _refuse(self, html: Markup) -> None:
        self.finding.value = html
        for part in (self._picture_box, self._below):
            part.add_class("wavesim-stale")


@contextmanager
def _collections_deferred() -> Iterator[None]:
    """No garbage collection inside: with a notebook's heap each costs as much as simulating 4,000 tiles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
