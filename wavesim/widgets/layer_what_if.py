"""A what-if on a transformer layer, or a chain of it: model, phase, tokens, plan, order, edges' policies.

Example: QKV, attention and output product of GPT-3 145B on one of eight GPUs at 512 tokens, row semaphores by
dependent launch; with "whole kernel" at "qkv-attention" (`edges="qkv-attention=grid"`, as of the command
`wavesim simulate`) attention waits for the whole QKV product again, and the gain in words follows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import ipywidgets

from wavesim.codegen.edge_policies import (
    NO_OVERLAP,
    chosen_edges,
    edges_by_name,
    edges_text,
    notable_policies,
    with_edges,
)
from wavesim.model import device as devices
from wavesim.model.device import Device, default_device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Order, Reversed, RowMajor
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.known_costs import KnownCosts
from wavesim.trace.trace import Trace
from wavesim.widgets.explorer import menu
from wavesim.widgets.plans_what_if import PlansWhatIf, instead_of, simulated_plans
from wavesim.workloads.layer_backends import with_backends
from wavesim.workloads.layers import CHAINS, chain_of, transformer_layer
from wavesim.workloads.models import layered_models

WHOLE = "whole layer"
PARTS = (WHOLE, *CHAINS)
# Under the causal mask the first rows of a sequence have the fewest keys.
ATTENTION_ORDERS: dict[str, Order] = {
    "short rows first": RowMajor(),
    "long rows first": Reversed(RowMajor()),
}
SYNCS = ("pdl+row", "pdl+tile", "row", "tile", "pdl", "stream")
CACHED = 2047
AS_THE_PLAN = ("as the plan", "")
POLICY_TEXT = {NO_OVERLAP: "whole kernel", "together": "needed together"}
TOKENS = {"prefill": (256, 512, 1024, 1536, 2048), "decode": (1, 4, 16, 64)}


@dataclass(frozen=True)
class LayerScenario:
    """One setting of all controls. `edges`: as `--edges`, ignored without semaphores."""

    model: str = "gpt3-145b"
    part: str = "attention"
    phase: str = "prefill"
    tokens: int = 512
    sync: str = "pdl+row"
    attention_order: str = "short rows first"
    edges: str = ""
    device: str = field(default_factory=lambda: default_device().name)

    @property
    def pipeline(self) -> Pipeline:
        """The stages. Raises `DescriptionError`."""
        return _pipeline(self.model, self.part, self.phase, self.tokens)

    @property
    def used_device(self) -> Device:
        """From the catalogue."""
        return devices.load(self.device)

    @property
    def edge_policies(self) -> dict[str, tuple[str, ...]]:
        """What each edge, as "qkv-attention", may wait by, finest first; the last does not overlap."""
        return _edge_policies(self.pipeline)

    @property
    def has_semaphores(self) -> bool:
        """Whether its edges can have policies."""
        return parse_plan(self.sync).sync.has_semaphores

    @property
    def plan(self) -> Plan:
        """How the stages are synchronised. Raises `DescriptionError`."""
        plan = parse_plan(self.sync)
        if self.has_semaphores:
            plan = with_edges(plan, self.pipeline, self.edges)
        return _ordered(plan, self.pipeline, self.attention_order)

    @property
    def baseline(self) -> Plan:
        """Stream sync in the same orders."""
        return _ordered(StreamSync(), self.pipeline, self.attention_order)


@dataclass(frozen=True, eq=False)
class LayerAnswer:
    """The two traces of a scenario, and where their costs come from."""

    scenario: LayerScenario
    stream: Trace
    chosen: Trace
    costs: KnownCosts


def layer_answer(scenario: LayerScenario) -> LayerAnswer:
    """Simulates both plans. Raises `DescriptionError` or `DeadlockError` where they cannot run."""
    plans = (scenario.baseline, scenario.plan)
    (stream, chosen), costs = simulated_plans(scenario.pipeline, plans, scenario.used_device)
    return LayerAnswer(scenario, stream, chosen, costs)


@lru_cache(maxsize=32)
def _pipeline(model: str, part: str, phase: str, tokens: int) -> Pipeline:
    is_decode = phase == "decode"
    layer = transformer_layer(
        model,
        tokens,
        phase="decode" if is_decode else "prefill",
        cached=CACHED if is_decode else 0,
    )
    return with_backends(layer if part == WHOLE else chain_of(layer, part))


@lru_cache(maxsize=32)
def _edge_policies(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    return {name: notable_policies(pipeline, edge) for name, edge in edges_by_name(pipeline).items()}


def _ordered(plan: Plan, pipeline: Pipeline, word: str) -> Plan:
    has_attention = any(stage.name == "attention" for stage in pipeline.stages)
    return replace(plan, orders={"attention": ATTENTION_ORDERS[word]}) if has_attention else plan


class LayerWhatIf(PlansWhatIf):
    """The plan that the controls say, below stream sync."""

    scenario_type = LayerScenario

    def _controls(self, first: LayerScenario) -> tuple[Any, ...]:
        self.edges = ipywidgets.GridBox()
        self.edges.add_class("wavesim-controls")
        controls = {
            "model": menu("Model", layered_models(), first.model),
            "part": menu("Part", PARTS, first.part),
            "phase": menu("Phase", TOKENS, first.phase),
            "tokens": menu("Tokens", _offered(first.phase, first.tokens), first.tokens),
            "sync": menu("Plan", SYNCS, first.sync),
            "attention_order": menu("Attention", ATTENTION_ORDERS, first.attention_order),
        }
        self._offer_edges(first, chosen_edges(first.pipeline, first.edges))
        return controls, self.edges

    @property
    def scenario(self) -> LayerScenario:
        """What the controls say."""
        return LayerScenario(**self.values, edges=edges_text(self._chosen))

    @property
    def _chosen(self) -> dict[str, str]:
        """The policy of each edge; "" as the plan has it."""
        return {edge.description: edge.value for edge in self.edges.children}

    def _timelines(self) -> Sequence[Trace]:
        self.answer = layer_answer(self.scenario)
        return self.answer.stream, self.answer.chosen

    def _follow(self, change: Any) -> None:
        """Offers the edges of another pipeline or plan; what was chosen stays where it is still offered."""
        if change.owner is self.phase:
            offered = _offered(self.phase.value, 0)
            self.tokens.options, self.tokens.value = offered, offered[0]
        if change.owner in self.controls:
            scenario, chosen = replace(self.scenario, edges=""), self._chosen
            offered_edges = scenario.edge_policies
            kept = {name: word for name, word in chosen.items() if word in offered_edges.get(name, ())}
            self._offer_edges(scenario, kept)

    def _offer_edges(self, scenario: LayerScenario, chosen: Mapping[str, str]) -> None:
        """A menu for each edge of the pipeline, with the policies that suit its grid."""
        menus = []
        for name, words in scenario.edge_policies.items():
            value = chosen.get(name, "")
            offered = dict.fromkeys((*words, value) if value else words)
            options = [AS_THE_PLAN, *((POLICY_TEXT.get(word, word), word) for word in offered)]
            menus.append(menu(name, options, value, disabled=not scenario.has_semaphores))
            menus[-1].observe(self._changed, "value")
        self.edges.children = tuple(menus)

    def _words(self) -> tuple[str, str]:
        stream, chosen = self.answer.stream, self.answer.chosen
        asked = self.answer.scenario
        own = f" ({asked.edges.replace(',', ', ')})" if asked.has_semaphores and asked.edges else ""
        finding = f"{chosen.header.plan_label}{own}: {instead_of(chosen, stream)}."
        return finding, f"Simulated: {self.answer.costs.source}."


def _offered(phase: str, tokens: int) -> tuple[int, ...]:
    usual = TOKENS.get(phase, ())
    return usual if tokens in usual or not tokens else (*usual, tokens)
