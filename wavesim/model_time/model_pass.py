"""One layer of a model and a pass through all of them, under each way of synchronising, simulated.

Example: Llama-3-8B at 1,024 tokens on an H200: what a layer takes under stream sync, by dependent launch and
with semaphores, split into attention, its products, MLP, norms, all-reduce and launch gaps. The time is that
of the second of two layers in a row, so that what lies between layers counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wavesim.costs.layer_costs import costs_of_stages
from wavesim.costs.peer_costs import PeerCosts, peer_costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import find_costs
from wavesim.predict.forecast import HELPS_POINTS, Forecast
from wavesim.predict.kinds import CHAINED_PRODUCTS
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.product_times import best_tiles, costs_from_products
from wavesim.safe_io.bounds import shown
from wavesim.trace.trace import Trace
from wavesim.work.collective import ELEMENT_BYTES
from wavesim.workloads.hopper import TILES
from wavesim.workloads.layer_backends import with_backends, with_chained_products
from wavesim.workloads.layers import Phase, transformer_layer
from wavesim.workloads.models import layered_models, model_named

WAYS = ("stream", "pdl", "pdl+row", "pdl+tile")
CHAINED = "chained+"  # before a plan: products by the kernel whose blocks leave their SMs as they end
CHAINED_WAY = f"{CHAINED}pdl+tile"
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
    """A layer under one way of synchronising: nanoseconds by part, which add up, and what it gains."""

    word: str
    parts_ns: dict[str, float]
    forecast: Forecast

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
    all_reduce: PeerCosts | None

    def gain_points(self, way: PassWay) -> float:
        """What a way gains over the first, in points of a whole layer."""
        return way.forecast.points

    @property
    def best(self) -> PassWay:
        """The way to run: the fastest whose gain is worth it, by how far such predictions are off."""
        worth_it = [way for way in self.ways if way.forecast.is_worth_it]
        return max(worth_it, key=self.gain_points, default=self.ways[0])

    @property
    def gains_nothing(self) -> bool:
        """Whether no way is predicted to gain what is worth naming."""
        return all(way.forecast.points < HELPS_POINTS for way in self.ways)


def layer_costs(pipeline: Pipeline, device: Device) -> KnownCosts:
    """From what each kind of kernel took alone on the device, else from its data sheet."""
    if all(stage.work.is_product for stage in pipeline.stages):
        return costs_from_products(pipeline, device)
    return find_costs(pipeline, device)


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
    if name not in layered_models():
        raise DescriptionError(f"model is {shown(name)}; known are {', '.join(layered_models())}")
    model = model_named(name)
    two = two_layers(name, device, tokens, phase=phase, cached=cached, tp=tp)
    gpus = int(two.parameters["tp"])
    links = peer_costs_of(device.name) if gpus > 1 else None
    size = ELEMENT_BYTES * tokens * model.hidden
    reduced_ns = 2.0 * links.time_ns("all-reduce", size, gpus) if links else 0.0
    known = layer_costs(two, device)
    timed: list[PassWay] = []
    for word in ways:
        own, costs = built_for(word, two, known, device)
        trace = costs.simulated(own, parse_plan(word.removeprefix(CHAINED)), device)
        parts = {**second_layer_ns(own, trace), ALL_REDUCE: reduced_ns}
        first_ns = sum((timed[0].parts_ns if timed else parts).values())
        forecast = costs.forecast(trace, 100 * (1 - sum(parts.values()) / first_ns))
        timed.append(PassWay(word, parts, forecast if timed else forecast.of_the_baseline))
    assert model.layer is not None
    return ModelPass(
        name, tokens, phase, cached, gpus, model.layer.layers, device.name, tuple(timed), known.source, links
    )


def built_for(word: str, two: Pipeline, known: KnownCosts, device: Device) -> tuple[Pipeline, KnownCosts]:
    """The layers with the kernels that a way runs, and their costs; no gain of chained ones was scored."""
    if not word.startswith(CHAINED):
        return with_backends(two), known
    own = with_chained_products(two)
    if not known.kind:
        return own, known
    return own, replace(known, model=costs_of_stages(own, device), kind=f"{known.kind}, {CHAINED_PRODUCTS}")


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
    return transformer_layer(name, tokens, phase=phase, cached=cached, tp=tp, tiles=tiles, layers=2)


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
