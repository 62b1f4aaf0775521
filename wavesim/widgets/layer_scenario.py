"""A what-if on a whole layer, or on a chain of it, as a value, and the two traces that answer it.

Example: QKV, attention and output product of GPT-3 145B on one of eight GPUs at 512 tokens, row semaphores by
dependent launch, short rows of attention first, attention waiting for single tiles of the QKV product
(`edges="qkv-attention=tile"`, as of the command `wavesim simulate`). Nothing here knows of widgets.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache

from wavesim.codegen.edge_policies import edges_by_name, notable_policies, with_edges
from wavesim.model import device as devices
from wavesim.model.device import Device, default_device
from wavesim.model.pipeline import Pipeline
from wavesim.model_time.model_pass import layer_costs
from wavesim.plan.order import Order, Reversed, RowMajor
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan, StreamSync
from wavesim.predict.known_costs import KnownCosts
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.layer_backends import with_backends
from wavesim.workloads.layers import CHAINS, chain_of, transformer_layer

WHOLE = "whole layer"
PARTS = (WHOLE, *CHAINS)
# Under the causal mask the first rows of a sequence have the fewest keys.
ATTENTION_ORDERS: dict[str, Order] = {
    "short rows first": RowMajor(),
    "long rows first": Reversed(RowMajor()),
}
SYNCS = ("pdl+row", "pdl+tile", "row", "tile", "pdl", "stream")
CACHED = 2047


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
    pipeline, device = scenario.pipeline, scenario.used_device
    costs = layer_costs(pipeline, device)
    stream, chosen = (
        simulate(pipeline, plan, device, costs.of_plan(pipeline, plan, device))
        for plan in (scenario.baseline, scenario.plan)
    )
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
