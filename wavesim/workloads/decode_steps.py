"""A decode step as a megakernel has it: per layer QKV, attention over the cache, output product, MLP's two.

Example: `decode_step("llama-3-8b", cached=511)` is five stages, each of which waits for all of the one
before: four products of one row that read 436 MB of weights, and attention that reads 2 MB of cache. Norms
are folded into the products that read them, residuals and SwiGLU into those that write. `layers` of them in a
row share their buffers, all but the caches: the anti-dependencies that this makes are kept by the waits, and
checked.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown, whole
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import GATED
from wavesim.work.streamed import MOST_ROWS, StreamedProduct
from wavesim.workloads.models import Model, layered_models, model_named

PRODUCTS = ("qkv", "out", "up", "down")
TILE_ROWS = 16  # of weights, as in our kernel
MOST_LAYERS = 24  # 120 stages
KEYS_PER_SPLIT, MOST_SPLITS = 64, 16
KEY_BLOCK = 64
Splits = Mapping[str, int]


@typed
def decode_step(
    model: str | Model,
    batch: int = 1,
    cached: int = 511,
    *,
    layers: int = 1,
    splits: Splits | None = None,
    tile_rows: int | Mapping[str, int] = TILE_ROWS,
    attends: bool = True,
) -> Pipeline:
    """`layers` layers of a model, one new token for each of `batch` sequences with `cached` keys.

    `splits`, by stage without its number: of K for products (1), of the keys for attention (64 each,
    up to 16).
    `tile_rows`: weight rows of a tile, of all products or by stage.
    Without `attends` the output product reads the queries: the products alone. Stages of several layers are
    called qkv_0, attention_0, ... Raises `DescriptionError`.
    """
    known = model_named(model) if isinstance(model, str) else model
    if known.layer is None:
        raise DescriptionError(
            f"{known.name}: its layer is not described; known are {', '.join(layered_models())} (models.toml)"
        )
    for name in splits or {}:
        if name not in (*PRODUCTS, "attention"):
            raise DescriptionError(
                f"splits are given for {shown(name)}; stages are {', '.join(PRODUCTS)}, attention"
            )
    whole("batch", batch, least=1, most=MOST_ROWS)
    whole("cached", cached)
    works = _works(known, batch, cached, {**_usual_splits(cached), **(splits or {})}, tile_rows)
    buffers = _buffers(known, attends=attends)
    stages = [
        Stage(name, work, buffers=buffers[name])
        for name, work in works.items()
        if attends or name != "attention"
    ]
    dependencies = [Dependency(later[x, y], [earlier[:, :]]) for earlier, later in pairwise(stages)]
    parameters: dict[str, int | str] = {"model": known.name, "batch": batch, "cached": cached}
    return in_a_row(Pipeline(f"{known.name}-decode-step", stages, dependencies, parameters), layers)


def in_a_row(layer: Pipeline, layers: int) -> Pipeline:
    """So many layers like this one, each of which begins when all of the one before is there.

    Stages are called qkv_0, qkv_1, ... Weights and caches are each layer's own, all other buffers shared.
    """
    whole("layers", layers, least=1, most=MOST_LAYERS)
    stages: list[Stage] = []
    dependencies: list[Dependency] = []
    for number in range(layers if layers > 1 else 0):
        own = {stage.name: _numbered(stage, number) for stage in layer.stages}
        if stages:
            dependencies.append(Dependency(next(iter(own.values()))[x, y], [stages[-1][:, :]]))
        for dependency in layer.dependencies:
            needs = [replace(need, stage=own[need.stage.name]) for need in dependency.needs]
            dependencies.append(Dependency(own[dependency.consumer.stage.name][x, y], needs))
        stages += own.values()
    parameters = {**layer.parameters, "layers": layers}
    if layers == 1:
        return replace(layer, parameters=parameters)
    return Pipeline(layer.name, stages, dependencies, parameters)


def _numbered(stage: Stage, number: int) -> Stage:
    name, ahead = f"{stage.name}_{number}", stage.work.ahead_operands
    views = {operand: stage.view(operand) for operand in stage.buffers}
    buffers = {
        operand: replace(view, buffer=f"{view.buffer}_{number}") if operand in ahead else view
        for operand, view in views.items()
    }
    work: Any = stage.work
    return replace(stage, name=name, work=replace(work, name=name), buffers=buffers)


def _usual_splits(cached: int) -> dict[str, int]:
    return {**dict.fromkeys(PRODUCTS, 1), "attention": min(MOST_SPLITS, -(-(cached + 1) // KEYS_PER_SPLIT))}


def _works(
    model: Model, batch: int, cached: int, splits: Splits, tile_rows: int | Mapping[str, int]
) -> dict[str, StreamedProduct | AttentionDecode]:
    shape = model.layer
    assert shape is not None, "decode_step has refused it"
    is_gated, width = model.activation in GATED, shape.heads * shape.head_dim

    def product(name: str, n: int, k: int, **more: object) -> StreamedProduct:
        rows = tile_rows if isinstance(tile_rows, int) else tile_rows.get(name, TILE_ROWS)
        values = {"tile_n": rows, "split_k": splits[name], "dtype": model.dtype, **more}
        return StreamedProduct(name, batch, n, k, has_bias=_has_bias(shape.bias, name), **values)  # type: ignore[arg-type]

    return {
        "qkv": product("qkv", width + 2 * shape.kv_heads * shape.head_dim, model.hidden, norm=shape.norm),
        "attention": AttentionDecode(
            "attention",
            batch,
            cached,
            shape.heads,
            shape.kv_heads,
            shape.head_dim,
            splits["attention"],
            KEY_BLOCK,
            appends=True,
            dtype=model.dtype,
        ),
        "out": product("out", model.hidden, width, has_residual=True),
        "up": product(
            "up",
            model.ffn * (2 if is_gated else 1),
            model.hidden,
            norm=shape.norm,
            activation=model.activation,
        ),
        "down": product("down", model.hidden, model.ffn, has_residual=True),
    }


def _has_bias(bias: str, product: str) -> bool:
    return bias == "all" or (bias == "qkv" and product == "qkv")


def _buffers(model: Model, *, attends: bool) -> dict[str, dict[str, str | View]]:
    """Where operands lie, by stage: the residual stream is "h" before the MLP and after, "h_mlp" between."""
    shape = model.layer
    assert shape is not None, "decode_step has refused it"
    width = shape.heads * shape.head_dim
    key, value = View("qkv", width), View("qkv", width + shape.kv_heads * shape.head_dim)
    return {
        "qkv": {"x": "h", "out": "qkv"},
        "attention": {
            "q": "qkv",
            "k_new": key,
            "v_new": value,
            "k": "keys",
            "v": "values",
            "out": "attended",
        },
        "out": {"x": "attended" if attends else "qkv", "residual": "h", "out": "h_mlp"},
        "up": {"x": "h_mlp", "out": "inner"},
        "down": {"x": "inner", "residual": "h_mlp", "out": "h"},
    }
