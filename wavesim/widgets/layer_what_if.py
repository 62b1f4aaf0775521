"""A what-if on a transformer layer: model, phase, tokens, plan, attention's tile order, every edge's overlap.

Example: stream sync above, the chosen plan below, one time axis; unticking "qkv -> attention" makes attention
wait for the whole QKV product again, and the gain in words follows.
"""

from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.errors import WavesimError
from wavesim.guard.escaping import Markup, element
from wavesim.predict.prediction import improvement_points
from wavesim.view.export import save_html
from wavesim.view.timeline_data import timeline_parts
from wavesim.widgets.drawn import style
from wavesim.widgets.layer_scenario import (
    ATTENTION_ORDERS,
    PARTS,
    SYNCS,
    LayerAnswer,
    LayerScenario,
    layer_answer,
)
from wavesim.widgets.menus import menu
from wavesim.widgets.plans_picture import PlansPicture
from wavesim.widgets.words import Words, problem_box, style_sheet
from wavesim.workloads.models import layered_models

LABEL = {"description_width": "112px"}
TOKENS = {"prefill": (256, 512, 1024, 1536, 2048), "decode": (1, 4, 16, 64)}


class LayerWhatIf(ipywidgets.VBox):
    """The explorer. Keyword arguments are the start values of its controls, by `LayerScenario`'s names.

    Raises `DescriptionError` or `DeadlockError` if the start values cannot run.
    """

    def __init__(self, **start: Any) -> None:
        scenario = LayerScenario(**start)
        self.answer: LayerAnswer = layer_answer(scenario)
        self.model = menu("Model", list(layered_models()), scenario.model)
        self.part = menu("Part", PARTS, scenario.part)
        self.phase = menu("Phase", tuple(TOKENS), scenario.phase)
        self.tokens = menu("Tokens", _offered(scenario.phase, scenario.tokens), scenario.tokens)
        self.sync = menu("Plan", SYNCS, scenario.sync)
        self.attention_order = menu("Attention", list(ATTENTION_ORDERS), scenario.attention_order)
        self.edges = ipywidgets.VBox([])
        self.finding, self.costs = Words(), Words()
        self.picture = PlansPicture(timeline_parts([self.answer.stream, self.answer.chosen]))
        self._is_following = False
        self._offer_edges(scenario)
        for control in self._controls:
            control.observe(self._changed, "value")
        self._say()
        left = ipywidgets.VBox(list(self._controls))
        controls = ipywidgets.HBox([left, self.edges])
        super().__init__([style_sheet(), controls, self.finding, self.picture, self.costs])
        self.add_class("wavesim")

    @property
    def scenario(self) -> LayerScenario:
        """What the controls say."""
        off = tuple(box.description for box in self.edges.children if not box.value)
        names = ("model", "part", "phase", "tokens", "sync", "attention_order")
        return LayerScenario(**{name: getattr(self, name).value for name in names}, waiting=off)

    def html(self) -> Markup:
        """What is shown now, without the controls, for a page that has no kernel."""
        shown = element("div", self.picture.html(), self.finding.value, self.costs.value, class_="wavesim")
        return Markup("").join([element("style", Markup(style("what_if.css"))), shown])

    def save(self, path: str | Path, *, theme: str = "light", width: int = 1000) -> Path:
        """Writes what is shown to .html, its picture to .png or .svg. Raises as `save_html` does."""
        return save_html(self.html(), path, theme=theme, width=width)

    @property
    def _controls(self) -> tuple[ipywidgets.Dropdown, ...]:
        return self.model, self.part, self.phase, self.tokens, self.sync, self.attention_order

    def _changed(self, change: Any) -> None:
        if self._is_following:
            return
        self._is_following = True
        try:
            if change.owner is self.phase:
                offered = _offered(self.phase.value, 0)
                self.tokens.options, self.tokens.value = offered, offered[0]
            if change.owner in (self.part, self.phase):
                self._offer_edges(self.scenario)
            self.answer = layer_answer(self.scenario)
            self.picture.show(timeline_parts([self.answer.stream, self.answer.chosen]))
            self._say()
        except WavesimError as error:
            self.finding.value = problem_box("This cannot run", str(error), Markup(""))
        finally:
            self._is_following = False

    def _offer_edges(self, scenario: LayerScenario) -> None:
        boxes = []
        for word in scenario.edges:
            box = ipywidgets.Checkbox(value=word not in scenario.waiting, description=word, indent=False)
            box.observe(self._changed, "value")
            boxes.append(box)
        self.edges.children = tuple(boxes)

    def _say(self) -> None:
        stream, chosen = self.answer.stream, self.answer.chosen
        points = improvement_points(chosen.time_ns, stream.time_ns)
        words = (
            f"{chosen.header.plan_label}: {chosen.time_ns / 1000:,.1f} µs instead of "
            f"{stream.time_ns / 1000:,.1f} µs, {points:+.1f} points. An edge without a tick waits for the "
            "whole kernel before."
        )
        self.finding.value = element("div", words, role="status", aria_live="polite")
        self.costs.value = element("p", f"Simulated: {self.answer.costs.source}.")


def _offered(phase: str, tokens: int) -> tuple[int, ...]:
    usual = TOKENS.get(phase, ())
    return usual if tokens in usual or not tokens else (*usual, tokens)
