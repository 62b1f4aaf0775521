"""A what-if on blocks that stay: SMs, rows of a block, batches in flight, the barrier, which SM gets what.

Example: WaveRNN's blocks launched anew in every cycle above, staying below. With 96 rows a block and a
balanced mapping no SM of a T4 has two blocks of R any more, and the cycles get shorter.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import WavesimError
from wavesim.model.device import default_device
from wavesim.safe_io.escaping import Markup, element
from wavesim.view.export import save_html
from wavesim.view.timeline_data import TimelineParts, timeline_parts
from wavesim.widgets.drawn import style
from wavesim.widgets.menus import require_start_values
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.plans_picture import PlansPicture
from wavesim.widgets.staying_scenario import (
    MAPPINGS,
    MOST_SMS,
    StayingAnswer,
    StayingScenario,
    sequences_per_ms,
    staying_answer,
)
from wavesim.widgets.words import Words, problem_box, style_sheet
from wavesim.workloads.wavernn import published_device

LABEL = {"description_width": "150px"}
ROWS, BARRIERS_NS = (32, 48, 64, 96, 128), tuple(range(0, 3001, 100))


class StayingWhatIf(ipywidgets.VBox):
    """The explorer. Keyword arguments are the start values of its controls, by `StayingScenario`'s names.

    Raises `DescriptionError` if the start values cannot be.
    """

    def __init__(self, **start: Any) -> None:
        require_start_values("StayingWhatIf", StayingScenario, start)
        scenario = StayingScenario(**start)
        self.answer: StayingAnswer = staying_answer(scenario)
        offered = (published_device().name, default_device().name)
        self.device = _choice("Device", offered, scenario.device)
        self.sms = ipywidgets.IntSlider(
            description="SMs",
            value=scenario.sms,
            min=min(8, scenario.sms),
            max=MOST_SMS,
            style=LABEL,
            continuous_update=False,
        )
        self.recurrent_rows = _choice("Rows of a block of R", ROWS, scenario.recurrent_rows)
        self.batches = ipywidgets.IntSlider(
            description="Batches in flight", value=scenario.batches, min=1, max=5, style=LABEL
        )
        self.barrier_ns = _choice("Barrier (ns)", BARRIERS_NS, scenario.barrier_ns)
        self.mapping = _choice("Mapping", MAPPINGS, scenario.mapping)
        self.finding, self.costs = Words(), Words()
        self.picture = PlansPicture(self._parts())
        for control in self.controls:
            control.observe(self._changed, "value")
        self._say()
        box = ipywidgets.GridBox(self.controls)
        box.add_class("wavesim-controls")
        super().__init__([style_sheet(), box, self.finding, self.picture, self.costs, PageWatch()])
        self.add_class("wavesim")

    @property
    def controls(self) -> tuple[Any, ...]:
        """In reading and Tab order."""
        return (self.device, self.sms, self.recurrent_rows, self.batches, self.barrier_ns, self.mapping)

    @property
    def scenario(self) -> StayingScenario:
        """What the controls say. Raises `DescriptionError`."""
        names = ("device", "sms", "recurrent_rows", "batches", "barrier_ns", "mapping")
        return StayingScenario(**{name: getattr(self, name).value for name in names})

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        shown = element("div", self.picture.html(), self.finding.value, self.costs.value, class_="wavesim")
        return Markup("").join([element("style", Markup(style("what_if.css"))), shown])

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes what is shown to .html, its picture to .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)

    def _changed(self, _: Any) -> None:
        try:
            self.answer = staying_answer(self.scenario)
            self.picture.show(self._parts())
            self._say()
        except WavesimError as error:
            self.finding.value = problem_box("This cannot run", str(error), Markup(""))

    def _parts(self) -> TimelineParts:
        """The two timelines; one kernel boundary is marked, and between the lower one's cycles lies none."""
        parts = timeline_parts([self.answer.launched, self.answer.stays])
        launched, stays = parts.panels
        first = replace(launched, boundaries_ns=launched.boundaries_ns[:1])
        return replace(parts, panels=(first, replace(stays, boundaries_ns=())))

    def _say(self) -> None:
        answer = self.answer
        launched, stays = sequences_per_ms(answer.launched_ns), sequences_per_ms(answer.stays_ns)
        gain = f"{answer.launched_ns / answer.stays_ns:.2f} times as many"
        words = (
            f"{answer.scenario.cut.all_blocks} blocks on {answer.scenario.sms} SMs, "
            f"{answer.scenario.batches} batches of 8 in flight: {launched:,.0f} samples per millisecond "
            f"where blocks are launched in every cycle, {stays:,.0f} where they stay, {gain}."
        )
        self.finding.value = element("div", words, role="status", aria_live="polite")
        self.costs.value = element(
            "p", f"Simulated: {answer.scenario.costs.source}. Shown: the first cycles."
        )


def _choice(label: str, options: Any, value: Any) -> ipywidgets.Dropdown:
    offered = list(options) if value in options else [*options, value]
    return ipywidgets.Dropdown(options=offered, value=value, description=label, style=LABEL)
