"""What `layer_graphs` measures: layers, chains of a layer and single products, with candidates for each side.

Example: Llama-3-8B's layer at 1,024 tokens is tried in the tiles that suit each product alone and in 128x256
throughout, under each class of plans: stream sync, dependent launch, semaphores. Of each class the fastest in
a few rounds goes on to the rounds that count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Literal, Protocol

from wavesim.errors import DescriptionError
from wavesim.model.attention import AttentionDecode
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.model_time.model_pass import CHAINED
from wavesim.plan.order import parse_order
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.predict.product_tiles import best_tiles
from wavesim.safe_io.bounds import shown
from wavesim.workloads.layers import Phase, chain_of, transformer_layer
from wavesim_gpu.bench.libraries.torch_layer import torch_layers
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.run.operands import Operands

Kind = Literal["layer", "decode", "chain", "product"]
PlanClass = Literal["stream", "pdl", "semaphores"]
GEMM_BACKEND, CHAINED_BACKEND = "hopper", "hopper-chained"
TILES = tuple((m, n) for m, n, _ in backend_named(GEMM_BACKEND).tiles)
LAYER_PLANS: dict[PlanClass, tuple[str, ...]] = {
    "stream": ("stream",),
    "pdl": ("pdl", "persistent+pdl+boundary"),
    "semaphores": ("row", "persistent+pdl+row"),
}
CHAIN_PLANS: dict[PlanClass, tuple[str, ...]] = {
    "stream": ("stream", "persistent-stream"),
    "pdl": ("pdl", "persistent+pdl+boundary"),
    "semaphores": ("row", "tile", "pdl+row", "persistent+pdl+row"),
}
DECODE_PLANS: dict[PlanClass, tuple[str, ...]] = {
    "stream": ("stream",),
    "pdl": ("pdl",),
    "semaphores": ("pdl+row", "pdl+tile"),
}
# Of products whose blocks leave as they end, which run otherwise than the usual by dependent launch alone.
CHAINED_PLANS = tuple(f"{CHAINED}{word}" for word in ("pdl+row", "pdl+tile", "persistent+pdl+row"))
CHAINED_KINDS: tuple[Kind, ...] = ("layer", "chain", "decode")
PLANS: dict[Kind, dict[PlanClass, tuple[str, ...]]] = {
    "layer": LAYER_PLANS,
    "chain": CHAIN_PLANS,
    "decode": DECODE_PLANS,
    "product": {"stream": CHAIN_PLANS["stream"]},
}
# Of attention: rows from the top, short ones first under the causal mask, or the longest first.
ATTENTION_ORDERS = ("row", "reversed:row")
LAYER_TOKENS = (1024, 2048)
CHAIN_TOKENS = (512, 1024, 1536, 2048)
PRODUCT_TOKENS = (512, 2048)
CACHED = 2047
FEW_TOKENS = 512
MODELS = ("gpt3-145b", "llama-65b", "llama-3-8b", "qwen2.5-0.5b")
CUT_MODELS = ("gpt3-145b", "llama-65b")  # their chains at 8-way tensor parallelism
DECODE_MODELS = ("qwen2.5-0.5b", "llama-3-8b")
PRODUCTS = ("qkv", "out", "up", "down")


@dataclass(frozen=True)
class GraphCandidate:
    """One plan of a case, in tiles and orders that it names; "chained+" stands for products for chains.

    An order of "" where there is no attention.
    """

    plan_class: PlanClass
    tiles: str
    plan_word: str
    attention_order: str
    pipeline: Pipeline

    @property
    def plan(self) -> Plan:
        """The plan, attention's tiles in the order named."""
        plan = parse_plan(self.plan_word.removeprefix(CHAINED))
        if self.attention_order in ("", "row"):
            return plan
        return replace(plan, orders={"attention": parse_order(self.attention_order)})

    @property
    def group(self) -> tuple[str, bool]:
        """Equal for candidates of the same kernels in the same tiles, which share operands."""
        return self.tiles, self.plan_word.startswith(CHAINED)

    @property
    def label(self) -> str:
        """For people and files."""
        attention = f", attention {self.attention_order}" if self.attention_order else ""
        return f"{self.plan_word}, {self.tiles} tiles{attention}"


class MeasuredCase(Protocol):
    """What `layer_graphs` needs of a case; a dataclass, whose fields are written to the file."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> str:
        """Of cases whose kernels are alike."""

    @property
    def name(self) -> str:
        """Within its kind."""

    def candidates(self, device: Device) -> list[GraphCandidate]:
        """All plans that are tried, the first in the tiles that PyTorch is given the operands of."""

    def by_torch(self, sets: Sequence[Operands]) -> tuple[list[Any], str]:
        """What runs it by PyTorch on each set of operands, and what that is called."""


@dataclass(frozen=True)
class GraphCase:
    """What is computed: `name` of a layer or of its chain, at so many tokens."""

    kind: Kind
    model: str
    tokens: int
    part: str = ""  # a chain, or a stage

    @property
    def name(self) -> str:
        """For people and files."""
        words = (self.model, self.part, "decode" if self.kind == "decode" else "", f"{self.tokens}")
        return " ".join(word for word in words if word)

    def pipelines(self, device: Device) -> dict[str, Pipeline]:
        """By the name of their tiles: each product's best alone, and for chains of few tokens 128x128."""
        phase: Phase = "decode" if self.kind == "decode" else "prefill"
        cached = CACHED if phase == "decode" else 0
        plain = transformer_layer(self.model, self.tokens, phase=phase, cached=cached)
        best = best_tiles(plain, device, TILES)
        choices: dict[str, dict[str, tuple[int, ...]]] = {"best": dict(best)}
        if self.kind == "chain" and self.tokens <= FEW_TOKENS:
            choices["128x128"] = dict.fromkeys(best, (128, 128, 1))
        return {
            name: self._part_of(
                transformer_layer(self.model, self.tokens, phase=phase, cached=cached, tiles=tiles)
            )
            for name, tiles in choices.items()
        }

    def candidates(self, device: Device) -> list[GraphCandidate]:
        """All that are tried."""
        found = []
        for tiles, pipeline in self.pipelines(device).items():
            orders = ATTENTION_ORDERS if self.kind in ("layer", "chain") else ("row",)
            plans = PLANS[self.kind]
            for plan_class, words in plans.items():
                found += [
                    GraphCandidate(plan_class, tiles, word, order, pipeline)
                    for word in words
                    for order in orders
                ]
            if self.kind in CHAINED_KINDS:
                chained = on_backend(pipeline, CHAINED_BACKEND)
                found += [
                    GraphCandidate("semaphores", tiles, word, order, chained)
                    for word in CHAINED_PLANS
                    for order in orders
                ]
        return found

    def by_torch(self, sets: Sequence[Operands]) -> tuple[list[Any], str]:
        """Layers of cuBLASLt's products and torch's own kernels."""
        layers, attention = torch_layers(sets)
        return layers, f"cuBLASLt, {attention}, torch norms"

    def _part_of(self, layer: Pipeline) -> Pipeline:
        found = chain_of(layer, [self.part] if self.kind == "product" else self.part) if self.part else layer
        return on_backend(found, GEMM_BACKEND)


def on_backend(pipeline: Pipeline, backend: str) -> Pipeline:
    """Its GEMMs by that backend, other stages by whatever computes them."""
    stages = {
        stage.name: replace(stage, backend=backend) if isinstance(stage.work, Gemm) else stage
        for stage in pipeline.stages
    }
    return pipeline.with_stages(stages)


def all_cases() -> list[GraphCase]:
    """In the order in which they are measured: those that matter most first, models in turns."""
    return list(chain(_layers(), _chains(), _products()))


def cases_named(text: str) -> list[GraphCase]:
    """Those whose kind and name contain a text. Raises `DescriptionError` if there are none."""
    found = [case for case in all_cases() if text in f"{case.kind} {case.name}"]
    if not found:
        raise DescriptionError(f"--only is {shown(text)}; it is in no case, such as 'layer llama-3-8b'")
    return found


def _layers() -> Iterator[GraphCase]:
    for model in DECODE_MODELS:
        yield GraphCase("decode", model, 1)
    for tokens in LAYER_TOKENS:
        for model in MODELS:
            yield GraphCase("layer", model, tokens)


def _chains() -> Iterator[GraphCase]:
    for tokens in CHAIN_TOKENS:
        for model in CUT_MODELS:
            yield GraphCase("chain", model, tokens, "attention")


def _products() -> Iterator[GraphCase]:
    for tokens in PRODUCT_TOKENS:
        for model in MODELS:
            for part in PRODUCTS:
                yield GraphCase("product", model, tokens, part)


def has_few_rows(pipeline: Pipeline) -> bool:
    """Whether its weights are most of what it reads: a decode step, or one product alone."""
    works = [stage.work for stage in pipeline.stages]
    return pipeline.parameters.get("phase") == "decode" or (len(works) == 1 and isinstance(works[0], Gemm))


def weight_bytes(pipeline: Pipeline) -> int:
    """Of the products, and of the caches: what a run reads once."""

    def read_once(stage: Stage) -> int:
        if isinstance(stage.work, AttentionDecode):
            return stage.work.kv_bytes
        return stage.work.operands["b"].bytes if isinstance(stage.work, Gemm) else 0

    return sum(map(read_once, pipeline.stages))
