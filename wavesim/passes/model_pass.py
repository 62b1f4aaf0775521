"""One layer of a model and a pass through all of them, under each way of synchronising, simulated.

Example: Llama-3-8B at 1,024 tokens on an H200: what a layer takes under stream sync, by dependent launch and
with semaphores, split into attention, its products, MLP, norms, all-reduce and launch gaps. The time is that
of the second of two layers in a row, so that what lies between layers counts once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from wavesim.costs.layer_costs import costs_of_stages
from wavesim.errors import DescriptionError
from wavesim.guard.bounds import shown
from wavesim.guard.documents import read_toml
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.passes.all_reduce import AllReduce, all_reduces
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import KnownCosts, find_costs
from wavesim.predict.product_tiles import best_tiles
from wavesim.predict.product_times import costs_from_products
from wavesim.trace.trace import Trace
from wavesim.workloads.hopper import TILES
from wavesim.workloads.layers import Phase, transformer_layer
from wavesim.workloads.models import model_named

WAYS = ("stream", "pdl", "pdl+row", "pdl+tile")
# Parts of a layer, by stage; what no kernel fills, and what no kernel here computes, come after them.
PARTS: dict[str, tuple[str, ...]] = {
    "attention": ("attention",),
    "its products": ("qkv", "out"),
    "MLP": ("up", "down"),
    "norms": ("attention_norm", "mlp_norm"),
}
LAUNCH, ALL_REDUCE = "launch gaps", "all-reduce"
PART_NAMES = (*PARTS, LAUNCH, ALL_REDUCE)


@dataclass(frozen=True)
class PassWay:
    """A layer under one way of synchronising: nanoseconds by part, which add up."""

    word: str
    parts_ns: dict[str, float]

    @property
    def layer_ns(self) -> float:
        """All parts."""
        return sum(self.parts_ns.values())


@dataclass(frozen=True)
class ModelPass:
    """What was asked, and each way's layer. `basis` says where kernel times come from."""

    model: str
    tokens: int
    phase: Phase
    cached: int
    tp: int
    layers: int
    device: str
    ways: tuple[PassWay, ...]
    basis: str
    all_reduce: AllReduce | None

    def gain_points(self, way: PassWay) -> float:
        """What a way gains over the first, in points of a whole layer."""
        return 100 * (1 - way.layer_ns / self.ways[0].layer_ns)


def layer_costs(pipeline: Pipeline, device: Device) -> KnownCosts:
    """From what each kind of kernel took alone on the device, else from its data sheet."""
    if all(isinstance(stage.work, Gemm) for stage in pipeline.stages):
        return costs_from_products(pipeline, device)
    try:
        model = costs_of_stages(with_backends(pipeline), device)
    except DescriptionError:
        return find_costs(pipeline, device)
    source = f"tile times of each kind of kernel from what such kernels took alone on {device.name}"
    return KnownCosts(model, source)


def with_backends(pipeline: Pipeline) -> Pipeline:
    """Each stage with the kernels that compute its kind of work, where it names none."""
    return _with_names(pipeline, _backends())


def with_chained_products(pipeline: Pipeline) -> Pipeline:
    """The same, products by the kernel for chains whose blocks leave their SMs as they end."""
    return _with_names(pipeline, {**_backends(), **_backends()["chained"]})


def _with_names(pipeline: Pipeline, names: Mapping[str, Any]) -> Pipeline:
    return pipeline.with_stages(
        {
            stage.name: replace(stage, backend=stage.backend or names.get(type(stage.work).__name__, ""))
            for stage in pipeline.stages
        }
    )


@cache
def _backends() -> Mapping[str, Any]:
    """By the class of a stage's work; "chained" those of chains, where they are others."""
    return read_toml(Path(__file__).with_name("backends.toml"))


def pass_of(
    name: str,
    device: Device,
    tokens: int,
    *,
    phase: Phase = "prefill",
    cached: int = 0,
    tp: int | None = None,
    ways: Sequence[str] = WAYS,
) -> ModelPass:
    """Simulates two layers in a row under every way. Raises `DescriptionError`."""
    for word in ways:
        if list(ways).count(word) > 1:
            raise DescriptionError(f"ways names {shown(word)} twice; name each way once")
    model = model_named(name)
    two = two_layers(name, device, tokens, phase=phase, cached=cached, tp=tp)
    gpus = int(two.parameters["tp"])
    links = all_reduces().get(device.name) if gpus > 1 else None
    if gpus > 1 and links is None:
        raise DescriptionError(
            f"tp is {gpus}, and no all-reduce was measured on {device.name}; known are "
            f"{', '.join(all_reduces())}. Use --tp 1"
        )
    reduced_ns = 2 * links.time_ns(tokens, model.hidden, gpus) if links else 0.0
    known = layer_costs(two, device)
    found = []
    for word in ways:
        trace = known.simulated(two, parse_plan(word), device)
        found.append(PassWay(word, {**second_layer_ns(two, trace), ALL_REDUCE: reduced_ns}))
    assert model.layer is not None
    return ModelPass(
        name, tokens, phase, cached, gpus, model.layer.layers, device.name, tuple(found), known.source, links
    )


def two_layers(
    name: str,
    device: Device,
    tokens: int,
    *,
    phase: Phase = "prefill",
    cached: int = 0,
    tp: int | None = None,
) -> Pipeline:
    """Two layers in a row, each product in the tiles that suit it alone. Raises `DescriptionError`."""
    plain = transformer_layer(name, tokens, phase=phase, cached=cached, tp=tp)
    tiles = best_tiles(plain, device, TILES)
    two = transformer_layer(name, tokens, phase=phase, cached=cached, tp=tp, tiles=tiles, layers=2)
    return with_backends(two)


def second_layer_ns(two: Pipeline, trace: Trace) -> dict[str, float]:
    """The second layer's time by part: what each stage's end lies behind the end of those before it."""
    part_of = {stage: part for part, stages in PARTS.items() for stage in stages}
    parts = dict.fromkeys((*PARTS, LAUNCH), 0.0)
    ended = 0
    for stage in two.stages:
        rows = trace.rows_of(stage.name)
        start, end = int(trace.start_ns[rows].min()), int(trace.end_ns[rows].max())
        kind, _, number = stage.name.rpartition("_")
        if number == "1":
            parts[LAUNCH] += max(0, start - ended)
            parts[part_of[kind]] += max(0, end - max(ended, start))
        ended = max(ended, end)
    return parts
