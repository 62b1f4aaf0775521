"""A transformer layer as models have it today: norm, QKV, fused attention, output product, norm, MLP.

Example: `transformer_layer("llama-3-8b", 1024)` is seven stages. The attention tile of head h and query rows
i waits for its own rows of Q and, under the causal mask, for rows 0 to i of K and V of its KV head; an output
tile for all heads of its rows; a norm for whole rows. `chain_of(layer, "attention")` is QKV, attention and
output product alone.

Both norms add first: h = product + residual. A layer stands in the middle of a model, so what its first norm
adds up is the run's input. Its last product is added up by the next layer. Over several GPUs (`tp`), one
GPU's share is described; the two all-reduces, after the output product and after the MLP, are no stages.

Buffers. Each layer has QKV, or a KV cache, of its own: a later layer that overwrote rows of K would have to
wait for all attention tiles that read them (`with_shared_qkv` does that: one buffer, and needs that say so).
All others are reused by every layer. Whoever overwrites a row there needs, by way of the stages between, all
those who read it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage, TileSet
from wavesim.safe_io.annotated import typed
from wavesim.safe_io.bounds import shown, whole
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import GATED, Gemm, usual_splits
from wavesim.work.rows import Norm
from wavesim.workloads.hopper import TILE_K, block_of
from wavesim.workloads.models import Model, TransformerShape, layered_models, model_named
from wavesim.workloads.tile_rows import TileRows, columns_between, rows_between, rows_so_far

Phase = Literal["prefill", "decode"]
Tiles = Mapping[str, tuple[int, ...]]  # by stage
# Stages whose waits are a question of their own.
CHAINS: dict[str, tuple[str, ...]] = {
    "attention": ("qkv", "attention", "out"),
    "norm": ("out", "mlp_norm", "up"),
    "mlp": ("up", "down"),
}
STAGES = ("attention_norm", "qkv", "attention", "out", "mlp_norm", "up", "down")
# GEMMs: rows and columns of a tile, splits of K. Attention: query rows and keys of a block. Norms: rows.
PREFILL_TILES: Tiles = {
    **dict.fromkeys(("qkv", "out", "up", "down"), (128, 256, 1)),
    **dict.fromkeys(("attention_norm", "mlp_norm"), (8,)),
    "attention": (128, 128),
}
# Into how many splits products cut K, and attention its keys, follows from the sizes where none are given.
DECODE_TILES: Tiles = {
    **dict.fromkeys(("qkv", "out", "up", "down"), (64, 64)),
    **dict.fromkeys(("attention_norm", "mlp_norm"), (1,)),
    "attention": (64,),
}
KEYS_PER_SPLIT = 256


@dataclass(frozen=True)
class _Sizes:
    """One GPU's share of a layer: `m` rows in all, of sequences of `length` rows each."""

    model: Model
    shape: TransformerShape
    m: int
    sequences: int
    cached: int
    phase: Phase
    tp: int
    tiles: Tiles

    @property
    def length(self) -> int:
        return self.m // self.sequences

    @property
    def heads(self) -> int:
        return self.shape.heads // self.tp

    @property
    def kv_heads(self) -> int:
        return self.shape.kv_heads // self.tp

    @property
    def q_columns(self) -> int:
        return self.heads * self.shape.head_dim

    @property
    def kv_columns(self) -> int:
        return self.kv_heads * self.shape.head_dim

    @property
    def ffn(self) -> int:
        return self.model.share(self.tp)

    def rows(self, height: int) -> TileRows:
        """Of what knows no sequences."""
        return TileRows(self.m, height, self.m)


@typed
def transformer_layer(
    model: str | Model,
    tokens: int,
    *,
    sequences: int | None = None,
    cached: int = 0,
    phase: Phase = "prefill",
    tp: int | None = None,
    tiles: Tiles | None = None,
    layers: int = 1,
) -> Pipeline:
    """`layers` layers of a model in a row, for `tokens` rows in all, on one of `tp` GPUs (the model's usual).

    "prefill": the rows are those of `sequences` (1) prompts of equal length. "decode": one row of each of
    `tokens` sequences, whose caches hold `cached` keys. `tiles`, by stage, replaces `PREFILL_TILES` or
    `DECODE_TILES`. Stages of several layers are called qkv_0, qkv_1, ...
    `layer_variants.py` adds RoPE and the prompt's store into a KV cache. Raises `DescriptionError`.
    """
    sizes = _sizes(model, tokens, sequences, cached, phase, tp, tiles or {})
    whole("layers", layers, least=1, most=8)
    stages: list[Stage] = []
    dependencies: list[Dependency] = []
    for number in range(layers):
        suffix = f"_{number}" if layers > 1 else ""
        own = _stages(sizes, number, suffix)
        before = dict(zip(STAGES, stages[-len(STAGES) :], strict=True)) if stages else {}
        dependencies += _dependencies(sizes, own, before)
        stages += own.values()
    parameters: dict[str, int | str] = {
        "tokens": tokens,
        "model": sizes.model.name,
        "phase": phase,
        "sequences": sizes.sequences,
        "cached": cached,
        "tp": sizes.tp,
    }
    ending = "-decode-layer" if phase == "decode" else "-layer"
    return Pipeline(f"{sizes.model.name}{ending}", stages, dependencies, parameters)


def with_shared_qkv(layers: Pipeline) -> Pipeline:
    """Layers of prefill in a row with one QKV buffer for all; each QKV tile then needs the attention tiles of
    the layer before that read the rows which it overwrites, and all after them.

    Without these needs a fast row of one layer could overwrite keys that slow rows of another still read.
    """
    stages = {stage.name: replace(stage, buffers=_in_one_qkv(stage)) for stage in layers.stages}
    dependencies = []
    for dependency in layers.dependencies:
        consumer = stages[dependency.consumer.stage.name]
        needs = [replace(need, stage=stages[need.stage.name]) for need in dependency.needs]
        kind, _, number = consumer.name.rpartition("_")
        if kind == "qkv" and number != "0":
            needs.append(_readers_of(stages[f"attention_{int(number) - 1}"], consumer.gemm))
        dependencies.append(Dependency(consumer[x, y], needs))
    return replace(layers, stages=list(stages.values()), dependencies=dependencies)


def _in_one_qkv(stage: Stage) -> dict[str, View]:
    places = {name: stage.view(name) for name in stage.buffers}
    return {
        name: replace(view, buffer="qkv") if view.buffer.startswith("qkv_") else view
        for name, view in places.items()
    }


def _readers_of(attention: Stage, qkv: Gemm) -> TileSet:
    """The attention tiles that read K and V of a QKV tile's rows: theirs, and all after them."""
    work = cast("Attention", attention.work)
    mine = TileRows(work.m, work.tile_m, work.length)
    return attention[:, mine.tile_row_of(TileRows(qkv.m, qkv.tile_m, qkv.m).first_row(y)) :]


def chain_of(layer: Pipeline, chain: str | Sequence[str]) -> Pipeline:
    """Some of a pipeline's stages, a name of `CHAINS` or names of stages; what others made is its input.

    Raises `DescriptionError` for names that the pipeline does not have.
    """
    names = CHAINS.get(chain, (chain,)) if isinstance(chain, str) else tuple(chain)
    known = [stage.name for stage in layer.stages]
    for name in names:
        if name not in known:
            raise DescriptionError(
                f"chain is {shown(chain)}; it must be {', '.join(CHAINS)}, or stages of {layer.name}: "
                f"{', '.join(known)}"
            )
    stages = [stage for stage in layer.stages if stage.name in names]
    dependencies = []
    for dependency in layer.dependencies:
        needs = [need for need in dependency.needs if need.stage.name in names]
        if dependency.consumer.stage.name in names and needs:
            dependencies.append(replace(dependency, needs=needs))
    ending = chain if isinstance(chain, str) else "-".join(names)
    return Pipeline(f"{layer.name}-{ending}", stages, dependencies, layer.parameters)


def _sizes(
    model: str | Model,
    tokens: int,
    sequences: int | None,
    cached: int,
    phase: Phase,
    tp: int | None,
    tiles: Tiles,
) -> _Sizes:
    found = model_named(model) if isinstance(model, str) else model
    if found.layer is None:
        known = ", ".join(layered_models())
        raise DescriptionError(
            f"{found.name}: its MLP is described, its layer is not; known are {known} (models.toml)"
        )
    if phase not in get_args(Phase):
        raise DescriptionError(f"phase is {shown(phase)}; it must be 'prefill' or 'decode'")
    whole("tokens", tokens, least=1)
    whole("cached", cached)
    count = tokens if phase == "decode" else 1
    count = count if sequences is None else whole("sequences", sequences, least=1, most=tokens)
    if tokens % count or (phase == "decode" and count != tokens):
        rule = "divide" if phase == "prefill" else "in decode be"
        raise DescriptionError(f"sequences is {count}; it must {rule} the {tokens} rows in all (tokens)")
    if phase == "prefill" and cached:
        raise DescriptionError(
            f"cached is {cached}; a prompt's own keys and values are in the packed QKV output, where earlier "
            "ones are not. Use cached=0, and with_cache(layer, cached) of layer_variants.py"
        )
    share = found.layer.tp if tp is None else whole("tp", tp, least=1)
    for name, value in (("heads", found.layer.heads), ("kv_heads", found.layer.kv_heads)):
        if value % share:
            raise DescriptionError(f"tp is {share}; it must divide the {value} {name} of {found.name}")
    for name in tiles:
        if name not in STAGES:
            raise DescriptionError(f"tiles are given for {shown(name)}; stages are {', '.join(STAGES)}")
    usual = PREFILL_TILES if phase == "prefill" else DECODE_TILES
    return _Sizes(found, found.layer, tokens, count, cached, phase, share, {**usual, **tiles})


def _stages(s: _Sizes, number: int, suffix: str) -> dict[str, Stage]:
    """A layer's stages by their names without the suffix."""
    is_first = number == 0
    hidden, d = s.model.hidden, s.shape.head_dim
    qkv = f"qkv_{number}"
    heads = {"q": View(qkv), "k": View(qkv, s.q_columns), "v": View(qkv, s.q_columns + s.kv_columns)}
    if s.phase == "decode":
        new = {"k_new": heads["k"], "v_new": heads["v"]}
        heads = {"q": heads["q"], "k": View(f"keys_{number}"), "v": View(f"values_{number}"), **new}
    columns = s.ffn * (2 if s.model.activation in GATED else 1)
    first_norm = {"x": "x" if is_first else "mlp", "residual": "residual" if is_first else "h_mlp"}
    works: dict[str, tuple[Gemm | Attention | AttentionDecode | Norm, Mapping[str, str | View]]] = {
        "attention_norm": (_norm(s, "attention_norm"), {**first_norm, "sum": "h", "out": "normed"}),
        "qkv": (
            _gemm(s, "qkv", s.q_columns + 2 * s.kv_columns, hidden, has_bias=s.shape.bias != "none"),
            {"a": "normed", "c": qkv},
        ),
        "attention": (_attention(s), {**heads, "out": "attended"}),
        "out": (_gemm(s, "out", hidden, s.heads * d), {"a": "attended", "c": "projected"}),
        "mlp_norm": (
            _norm(s, "mlp_norm"),
            {"x": "projected", "residual": "h", "sum": "h_mlp", "out": "normed"},
        ),
        "up": (
            replace(_gemm(s, "up", columns, hidden), activation=s.model.activation),
            {"a": "normed", "c": "inner"},
        ),
        "down": (_gemm(s, "down", hidden, s.ffn), {"a": "inner", "c": "mlp"}),
    }
    return {
        name: Stage(
            name + suffix,
            replace(work, name=name + suffix),
            buffers=buffers,
        )
        for name, (work, buffers) in works.items()
    }


def _gemm(s: _Sizes, name: str, n: int, k: int, *, has_bias: bool = False) -> Gemm:
    tile_m, tile_n, *splits = s.tiles[name]
    split_k = splits[0] if splits else usual_splits(-(-s.m // tile_m) * -(-n // tile_n), k)
    return Gemm(
        name,
        s.m,
        n,
        k,
        tile_m,
        tile_n,
        TILE_K,
        split_k,
        s.model.dtype,
        block=block_of((tile_m, tile_n)),
        carveout="full",
        has_bias=has_bias or s.shape.bias == "all",
    )


def _norm(s: _Sizes, name: str) -> Norm:
    return Norm(name, s.m, s.model.hidden, s.tiles[name][0], s.shape.norm, dtype=s.model.dtype)


def _attention(s: _Sizes) -> Attention | AttentionDecode:
    tile, *more = s.tiles["attention"]
    sizes = (s.heads, s.kv_heads, s.shape.head_dim)
    if s.phase == "prefill":
        return Attention(
            "attention",
            s.sequences,
            s.length,
            *sizes,
            tile_m=tile,
            tile_n=more[0] if more else tile,
            dtype=s.model.dtype,
        )
    key_blocks = -(-(s.cached + 1) // tile)
    splits = more[0] if more else min(key_blocks, -(-(s.cached + 1) // KEYS_PER_SPLIT))
    return AttentionDecode(
        "attention", s.sequences, s.cached, *sizes, splits, tile, appends=True, dtype=s.model.dtype
    )


def _dependencies(s: _Sizes, own: Mapping[str, Stage], before: Mapping[str, Stage]) -> list[Dependency]:
    """What a layer's stages need of each other, and of the layer before."""
    pairs = [("attention_norm", "qkv"), ("attention", "out"), ("out", "mlp_norm")]
    pairs += [("mlp_norm", "up"), ("up", "down")]
    found = {consumer: [_rows_of(s, own, producer, consumer)] for producer, consumer in pairs}
    found["attention"] = _heads_of(s, own)
    if before:
        previous = {**own, "down": before["down"]}
        found["attention_norm"] = [_rows_of(s, previous, "down", "attention_norm")]
    return [Dependency(own[name][x, y], found[name]) for name in STAGES if name in found]


def _rows_of(s: _Sizes, stages: Mapping[str, Stage], producer: str, consumer: str) -> TileSet:
    """Whole rows of a producer."""
    rows = rows_between(_tile_rows(s, producer), _tile_rows(s, consumer))
    columns = 0 if producer.endswith("norm") else slice(None)
    return stages[producer][columns, rows]


def _tile_rows(s: _Sizes, name: str) -> TileRows:
    if name != "attention":
        return s.rows(s.tiles[name][0])
    return TileRows(s.m, s.tiles[name][0], s.length) if s.phase == "prefill" else s.rows(1)


def _heads_of(s: _Sizes, own: Mapping[str, Stage]) -> list[TileSet]:
    """Of QKV's tiles: the attention tile's rows of Q, and K and V of its head in all rows that it sees."""
    qkv, attention = own["qkv"], own["attention"]
    rows, mine = _tile_rows(s, "qkv"), _tile_rows(s, "attention")
    d, count, width = s.shape.head_dim, attention.grid.x, qkv.gemm.tile_n
    group = s.heads // s.kv_heads
    own_rows = rows_between(rows, mine)
    seen = rows_so_far(rows, mine) if s.phase == "prefill" else own_rows
    # A tile of decode has all query heads of a KV head.
    q_width = d * group if s.phase == "decode" else d
    kv_head = x if s.phase == "decode" or group == 1 else x // group
    needs = [qkv[columns_between(x, q_width, 0, width, count), own_rows]]
    offsets = (s.q_columns, s.q_columns + s.kv_columns)
    needs += [qkv[columns_between(kv_head, d, offset, width, count), seen] for offset in offsets]
    return needs
