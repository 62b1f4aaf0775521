"""A decode step as a megakernel has it: per layer QKV, attention over the cache, output product, MLP's two.

Example: `decode_step("llama-3-8b", cached=511)` is five stages, each of which waits for all of the one
before: four products of one row that read 436 MB of weights, and attention that reads 2 MB of cache. Norms
are folded into the products that read them, residuals and SwiGLU into those that write. `layers` of them in a
row share their buffers, all but the caches: the anti-dependencies that this makes are kept by the waits, and
checked.
"""

from collections.abc import Mapping
from dataclasses import replace

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
TILE_ROWS = 8  # of weights
MOST_LAYERS = 16
KEYS_PER_SPLIT = 256
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

    `splits`, by stage without its number: of K for products (1), of the keys for attention (one per 256).
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
    whole("layers", layers, least=1, most=MOST_LAYERS)
    stages: list[Stage] = []
    dependencies: list[Dependency] = []
    for number in range(layers):
        works = _works(known, batch, cached, {**_usual_splits(cached), **(splits or {})}, tile_rows)
        names = [name for name in works if attends or name != "attention"]
        for name in names:
            suffix = f"_{number}" if layers > 1 else ""
            made = _stage(works[name], name + suffix, _buffers(known, name, number, attends=attends))
            if stages:
                dependencies.append(Dependency(made[x, y], [stages[-1][:, :]]))
            stages.append(made)
    parameters: dict[str, int | str] = {
        "model": known.name,
        "batch": batch,
        "cached": cached,
        "layers": layers,
    }
    return Pipeline(f"{known.name}-decode-step", stages, dependencies, parameters)


def _usual_splits(cached: int) -> dict[str, int]:
    return {**dict.fromkeys(PRODUCTS, 1), "attention": -(-(cached + 1) // KEYS_PER_SPLIT)}


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


def _buffers(model: Model, name: str, number: int, *, attends: bool) -> dict[str, str | View]:
    """Where a stage's operands lie: the residual stream is "h" before the MLP and after, "h_mlp" between."""
    shape = model.layer
    assert shape is not None, "decode_step has refused it"
    key, value = shape.heads * shape.head_dim, (shape.heads + shape.kv_heads) * shape.head_dim
    caches = {"k": View(f"keys_{number}"), "v": View(f"values_{number}")}
    buffers: dict[str, dict[str, str | View]] = {
        "qkv": {"x": "h", "out": "qkv"},
        "attention": {
            "q": View("qkv"),
            "k_new": View("qkv", key),
            "v_new": View("qkv", value),
            **caches,
            "out": "attended",
        },
        "out": {"x": "attended" if attends else View("qkv"), "residual": "h", "out": "h_mlp"},
        "up": {"x": "h_mlp", "out": "inner"},
        "down": {"x": "inner", "residual": "h_mlp", "out": "h"},
    }
    return buffers[name]


def _stage(work: StreamedProduct | AttentionDecode, name: str, buffers: Mapping[str, str | View]) -> Stage:
    return Stage(name, replace(work, name=name), buffers=dict(buffers))
