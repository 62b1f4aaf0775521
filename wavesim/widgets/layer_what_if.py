"""A what-if on a transformer layer: model, phase, tokens, plan, attention's tile order, every edge's policy.

Example: stream sync above, the chosen plan below, one time axis; with "whole kernel" at "qkv-attention"
attention waits for the whole QKV product again, and the gain in words follows.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets

from wavesim.codegen.edge_policies import NO_OVERLAP, chosen_edges, edges_text
from wavesim.errors import WavesimError
from wavesim.predict.prediction import improvement_points
from wavesim.safe_io.escaping import Markup, element
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
from wavesim.widgets.menus import menu, require_start_values
from wavesim.widgets.page_watch import PageWatch
from wavesim.widgets.plans_picture import PlansPicture
from wavesim.widgets.words import Words, problem_box, style_sheet
from wavesim.workloads.models import layered_models

EDGE_LABEL = {"description_width": "150px"}
AS_THE_PLAN = ("as the plan", "")
POLICY_TEXT = {NO_OVERLAP: "whole kernel", "together": "needed together"}
TOKENS = {"prefill": (256, 512, 1024, 1536, 2048), "decode": (1, 4, 16, 64)}


class LayerWhatIf(ipywidgets.VBox):
    """The explorer. Keyword arguments are the start values of its controls, by `LayerScenario`'s names.

    Raises `DescriptionError` or `DeadlockError` if the start values cannot run.
    """

    def __init__(self, **start: Any) -> None:
        require_start_values("LayerWhatIf", LayerScenario, start)
        scenario = LayerScenario(**start)
        self.model = menu("Model", list(layered_models()), scenario.model)
        self.part = menu("Part", PARTS, scenario.part)
        self.phase = menu("Phase", tuple(TOKENS), scenario.phase)
        self.tokens = menu("Tokens", _offered(scenario.phase, scenario.tokens), scenario.tokens)
        self.sync = menu("Plan", SYNCS, scenario.sync)
        self.attention_order = menu("Attention", list(ATTENTION_ORDERS), scenario.attention_order)
        self.answer: LayerAnswer = layer_answer(scenario)
        self.edges = ipywidgets.VBox([])
        self.finding, self.costs = Words(), Words()
        self.picture = PlansPicture(timeline_parts([self.answer.stream, self.answer.chosen]))
        self._is_following = False
        self._offer_edges(scenario, chosen_edges(scenario.pipeline, scenario.edges))
        for control in self._controls:
            control.observe(self._changed, "value")
        self._say()
        left = ipywidgets.VBox(list(self._controls))
        controls = ipywidgets.HBox([left, self.edges])
        super().__init__([style_sheet(), controls, self.finding, self.picture, self.costs, PageWatch()])
        self.add_class("wavesim")

    @property
    def scenario(self) -> LayerScenario:
        """What the controls say."""
        names = ("model", "part", "phase", "tokens", "sync", "attention_order")
        controls = {name: getattr(self, name).value for name in names}
        return LayerScenario(**controls, edges=edges_text(self._chosen))

    @property
    def _chosen(self) -> dict[str, str]:
        """The policy of each edge; "" as the plan has it."""
        return {one.description: one.value for one in self.edges.children}

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
            if change.owner in self._controls:
                self._follow()
            self.answer = layer_answer(self.scenario)
            self.picture.show(timeline_parts([self.answer.stream, self.answer.chosen]))
            self._say()
        except WavesimError as error:
            self.finding.value = problem_box("This cannot run", str(error), Markup(""))
        finally:
            self._is_following = False

    def _follow(self) -> None:
        """Offers the edges of another pipeline or plan; what was chosen stays where it is still offered."""
        scenario, chosen = replace(self.scenario, edges=""), self._chosen
        offered = scenario.edge_policies
        kept = {name: word for name, word in chosen.items() if word in offered.get(name, ())}
        self._offer_edges(scenario, kept)

    def _offer_edges(self, scenario: LayerScenario, chosen: Mapping[str, str]) -> None:
        """A menu for each edge of the pipeline, with the policies that suit its grid."""
        menus = []
        for name, words in scenario.edge_policies.items():
            value = chosen.get(name, "")
            offered = dict.fromkeys((*words, value) if value else words)
            options = [AS_THE_PLAN, *((POLICY_TEXT.get(word, word), word) for word in offered)]
            menus.append(menu(name, options, value, style=EDGE_LABEL, disabled=not scenario.has_semaphores))
            menus[-1].observe(self._changed, "value")
        self.edges.children = tuple(menus)

    def _say(self) -> None:
        stream, chosen = self.answer.stream, self.answer.chosen
        points = improvement_points(chosen.time_ns, stream.time_ns)
        asked = self.answer.scenario
        own = f" ({asked.edges.replace(',', ', ')})" if asked.has_semaphores and asked.edges else ""
        words = (
            f"{chosen.header.plan_label}{own}: {chosen.time_ns / 1000:,.1f} µs instead of "
            f"{stream.time_ns / 1000:,.1f} µs, {points:+.1f} points."
        )
        self.finding.value = element("div", words, role="status", aria_live="polite")
        self.costs.value = element("p", f"Simulated: {self.answer.costs.source}.")


def _offered(phase: str, tokens: int) -> tuple[int, ...]:
    usual = TOKENS.get(phase, ())
    return usual if tokens in usual or not tokens else (*usual, tokens)
