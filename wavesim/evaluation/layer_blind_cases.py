"""What the blind run of layers measures: chains and pairs of a layer's stages, norms, whole layers.

Example: "chain llama-65b 2048" is QKV, attention and output product at 2,048 tokens, on one of 8 GPUs, under
stream sync, dependent launch and semaphores, attention's short tiles first and its longest first. Sizes that
costs were fitted on (640, 768, 1,280 and 1,920 tokens) are the trial's; none of them is here. No list has a
case of another; from the second on there are chains and layers whose products leave their SMs as they end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.workloads.layer_backends import with_backends, with_chained_products
from wavesim.workloads.layers import chain_of, transformer_layer

Kind = Literal["chain", "into", "from", "norm", "layer", "decode", "chained", "chained-layer"]
BASELINE = "stream"
PLANS = ("pdl", "pdl+row", "pdl+tile")
CHAINED_PLANS = ("pdl+row", "pdl+tile", "persistent+pdl+row")
SHORT_FIRST, LONG_FIRST = "row", "reversed:row"
MODELS = ("gpt3-145b", "llama-65b", "llama-3-8b", "qwen2.5-0.5b")
SMALL = ("qwen2.5-0.5b",)  # products too narrow for the usual tiles
SMALL_TILES = dict.fromkeys(("qkv", "out", "up", "down"), (128, 128, 1))
PARTS: Mapping[Kind, tuple[str, ...]] = {
    "chain": ("qkv", "attention", "out"),
    "into": ("qkv", "attention"),
    "from": ("attention", "out"),
    "norm": ("out", "mlp_norm", "up"),
    "chained": ("qkv", "attention", "out"),
}
TOKENS: Mapping[Kind, tuple[int, ...]] = {
    "chain": (256, 512, 1024, 1536, 2048, 3072, 4096),
    "into": (512, 1536),
    "from": (1024, 2048),
    "norm": (512, 2048),
    "layer": (512, 1024, 2048),
    "decode": (1, 16),
}
SECOND_TOKENS: Mapping[Kind, tuple[int, ...]] = {
    "chain": (384, 896, 1408, 1792, 2560, 3584),
    "into": (896, 2560),
    "from": (1408, 2560),
    "norm": (896, 1408),
    "layer": (384, 896, 1408),
    "decode": (2, 8),
    "chained": (896, 1408),
    "chained-layer": (896,),
}
THIRD_TOKENS: Mapping[Kind, tuple[int, ...]] = {
    "chain": (448, 1152, 1664, 2304, 3328),
    "into": (576,),
    "from": (2304,),
    "norm": (704, 1664),
    "layer": (448, 1152, 1664),
    "decode": (3, 12),
    "chained": (704, 1664),
    "chained-layer": (704,),
}
TRIAL: tuple[tuple[Kind, str, int], ...] = (
    ("chain", "gpt3-145b", 1280),
    ("chain", "llama-3-8b", 768),
    ("norm", "llama-65b", 1280),
    ("layer", "qwen2.5-0.5b", 1280),
    ("decode", "llama-3-8b", 4),
    # Of bf16 products with a bias, which are faster than in the first two runs.
    ("chain", "qwen2.5-0.5b", 640),
    ("chain", "qwen2.5-0.5b", 1280),
    ("chain", "qwen2.5-0.5b", 1920),
    ("into", "qwen2.5-0.5b", 1280),
    ("chained", "qwen2.5-0.5b", 1280),
    ("layer", "qwen2.5-0.5b", 640),
    ("chained-layer", "qwen2.5-0.5b", 768),
)
CACHED = 2047


class BlindCase(Protocol):
    """What a blind run measures: stages, and plans of them, by the order of some tiles."""

    @property
    def name(self) -> str:
        """For files and people."""

    @property
    def orders(self) -> tuple[str, ...]:
        """Of tiles that are not all alike; one where there are none."""

    @property
    def entries(self) -> Iterator[tuple[str, str]]:
        """(order, plan), stream sync first in each order."""

    def pipeline(self) -> Pipeline:
        """Its stages, each with its backend."""

    def plan(self, word: str, order: str) -> Plan:
        """A plan with tiles in an order."""


@dataclass(frozen=True)
class BlindLayerCase:
    """A part of a model's layer at so many tokens; of "decode" these are sequences."""

    kind: Kind
    model: str
    tokens: int

    @property
    def name(self) -> str:
        """For files and people."""
        return f"{self.kind} {self.model} {self.tokens}"

    def pipeline(self) -> Pipeline:
        """Its stages, each with its backend."""
        is_decode = self.kind == "decode"
        layer = transformer_layer(
            self.model,
            self.tokens,
            phase="decode" if is_decode else "prefill",
            cached=CACHED if is_decode else 0,
            tiles=SMALL_TILES if self.model in SMALL and not is_decode else None,
        )
        part = chain_of(layer, PARTS[self.kind]) if self.kind in PARTS else layer
        return with_chained_products(part) if self.is_chained else with_backends(part)

    @property
    def is_chained(self) -> bool:
        """Whether blocks of its products leave as they end."""
        return self.kind.startswith("chained")

    @property
    def plans(self) -> tuple[str, ...]:
        """Those that are held against stream sync."""
        return CHAINED_PLANS if self.is_chained else PLANS

    @property
    def orders(self) -> tuple[str, ...]:
        """Of attention's tiles; one where there are none or all are alike."""
        return (SHORT_FIRST,) if self.kind in ("norm", "decode") else (SHORT_FIRST, LONG_FIRST)

    def plan(self, word: str, order: str) -> Plan:
        """A plan with attention's tiles in an order."""
        plan = parse_plan(word)
        return plan if order == SHORT_FIRST else replace(plan, orders={"attention": parse_order(order)})

    @property
    def entries(self) -> Iterator[tuple[str, str]]:
        """(order, plan), stream sync first in each order."""
        return ((order, word) for order in self.orders for word in (BASELINE, *self.plans))


def all_cases() -> list[BlindLayerCase]:
    """In an order that mixes models, so that a run that ends early has some of each."""
    return _listed(TOKENS)


def second_cases() -> list[BlindLayerCase]:
    """Of the second run."""
    return _listed(SECOND_TOKENS)


def third_cases() -> list[BlindLayerCase]:
    """Of the third run."""
    return _listed(THIRD_TOKENS)


def every_case() -> list[BlindLayerCase]:
    """Of all runs."""
    return [*all_cases(), *second_cases(), *third_cases()]


def _listed(sizes: Mapping[Kind, tuple[int, ...]]) -> list[BlindLayerCase]:
    return [
        BlindLayerCase(kind, model, tokens)
        for kind, several in sizes.items()
        for tokens in several
        for model in MODELS
    ]


def trial_cases() -> list[BlindLayerCase]:
    """Development sizes, to try the run on."""
    return [BlindLayerCase(*one) for one in TRIAL]
