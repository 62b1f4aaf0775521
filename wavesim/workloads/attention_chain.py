"""Attention by five kernels, as the cuSync paper has it, of works that run on a GPU; and what its code runs.

Example: `paper_attention(1024)` is GPT-3 145B's attention on one of 8 GPUs for a prompt of 1,024 rows: the
QKV product, each of 12 heads' scores, softmax with dropout, context, output product. With `cached` keys,
sequences go on: `paper_attention(4, cached=1023, sequences=4)` makes each of four longer by a row.

What the paper leaves open, or its figure and text say differently (Figures 2b and 5b, section V):
- K and V of earlier rows lie in caches. Storing the new ones there is no kernel of its own: scores and
  context read them where the QKV product puts them, and store them behind those cached.
- A prompt's scores are causal in the softmax. The products compute what the mask hides, as published.
- Dropout comes after the softmax, as in Megatron. The text has Softmax(Dropout(P)); it is a field.

`cusync_repository_attention` is what the published program runs under the name of attention: four products
of one "head" as wide as all heads together, no softmax, and V read where K lies.
"""

from typing import Any, Literal, cast

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.index import Index
from wavesim.model.kernel import Block, require_positive
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import shown
from wavesim.work.attention.head_product import HeadProduct
from wavesim.work.gemm import Gemm
from wavesim.work.rows import DropoutPlace, Softmax
from wavesim.workloads.mlps import gemm_block
from wavesim.workloads.tile_rows import Span, TileRows, columns_between, quotient, rows_between

HEAD = 128  # columns of one attention head
GPUS = 8
HIDDEN = {"gpt3": 12_288, "llama": 8_192}  # GPT-3 145B, LLaMA 65B
Model = Literal["gpt3", "llama"]
Tile = tuple[int, int]


def paper_attention(  # noqa: PLR0913  # keywords, each of which says one thing
    tokens: int,
    tile: Tile = (128, 128),
    *,
    model: Model = "gpt3",
    cached: int = 0,
    sequences: int = 1,
    dropout: float = 0.1,
    dropout_place: DropoutPlace = "after",
    softmax_rows: int = 16,
    tile_k: int = 32,
    split_k: tuple[int, int] = (1, 1),
    block: Block | None = None,
    dtype: Literal["fp16", "bf16"] = "fp16",
) -> Pipeline:
    """QKV, scores, softmax, context and output for `tokens` rows of `sequences`, each with `cached` keys.

    `tile`, `tile_k`, `split_k` and `block` are those of the first and the last product (by default the
    portable kernels' block), `softmax_rows` a softmax tile's rows. Raises `DescriptionError`.
    """
    hidden = _hidden(model, tile)
    require_positive("paper_attention", tokens=tokens, sequences=sequences)
    if tokens % sequences:
        raise DescriptionError(
            f"paper_attention: tokens is {tokens} and sequences {sequences}; tokens must be a multiple of "
            "sequences, which are equally long"
        )
    length, share = tokens // sequences, hidden // GPUS
    heads = share // HEAD
    rows = cached + length if cached else 0
    qkv, output = _products(tokens, hidden, tile, tile_k, split_k, block, dtype)
    attended = {"kv_heads": heads, "cached": cached, "kv_rows": rows, "dtype": dtype}
    scores = HeadProduct("scores", "scores", sequences, length, heads, **attended)  # type: ignore[arg-type]
    context = HeadProduct("context", "context", sequences, length, heads, **attended)  # type: ignore[arg-type]
    softmax = Softmax(
        "softmax",
        sequences,
        length,
        heads,
        scores.keys,
        softmax_rows,
        is_causal=length > 1,
        dropout=dropout,
        dropout_place=dropout_place,
        dtype=dtype,
    )
    stages = _stages(qkv, scores, softmax, context, output, value_column=2 * share)
    parameters: dict[str, int | str] = {"tokens": tokens, "cached": cached, "tile": f"{tile[0]}x{tile[1]}"}
    return Pipeline(f"paper-attention-{model}", stages, _dependencies(*stages), parameters)


def cusync_repository_attention(
    tokens: int, tile: Tile = (128, 128), *, model: Model = "gpt3", cached: int = 0
) -> Pipeline:
    """Four products for `tokens` rows, of which two attend to `cached` keys too, as one head of all columns.

    Not attention: there is no softmax, no heads, and the last but one multiplies by K again. Raises
    `DescriptionError`. Source: microsoft/cusync, main branch, its example of attention.
    """
    hidden = _hidden(model, tile)
    share = hidden // GPUS
    rows = cached + tokens if cached else 0
    qkv, output = _products(tokens, hidden, tile, 32, (1, 1), None, "fp16")
    wide = {"kv_heads": 1, "head_dim": share, "cached": cached, "kv_rows": rows}
    scores = HeadProduct("scores", "scores", 1, tokens, 1, **wide)  # type: ignore[arg-type]
    context = HeadProduct("context", "context", 1, tokens, 1, **wide)  # type: ignore[arg-type]
    stages = _stages(qkv, scores, None, context, output, value_column=share)
    parameters: dict[str, int | str] = {"tokens": tokens, "cached": cached, "tile": f"{tile[0]}x{tile[1]}"}
    return Pipeline(f"cusync-repository-attention-{model}", stages, _dependencies(*stages), parameters)


def _hidden(model: str, tile: Tile) -> int:
    if model not in HIDDEN:
        raise DescriptionError(f"model is {shown(model)}; known are {', '.join(HIDDEN)}")
    share = HIDDEN[model] // GPUS
    if tile[1] % HEAD or share % tile[1]:
        raise DescriptionError(
            f"tile_n is {tile[1]}; it must be a multiple of {HEAD} that divides {share}, so that a tile "
            "holds whole heads"
        )
    return HIDDEN[model]


def _products(
    tokens: int,
    hidden: int,
    tile: Tile,
    tile_k: int,
    split_k: tuple[int, int],
    block: Block | None,
    dtype: Literal["fp16", "bf16"],
) -> tuple[Gemm, Gemm]:
    """The first and the last: (tokens, 3 hidden / 8) and (tokens, hidden)."""
    share, used = hidden // GPUS, block or gemm_block(tile)
    sizes = (("qkv", 3 * share, hidden, split_k[0]), ("output", hidden, share, split_k[1]))
    first, last = (
        Gemm(name, tokens, n, k, *tile, tile_k, split_k=splits, dtype=dtype, block=used, carveout="full")
        for name, n, k, splits in sizes
    )
    return first, last


def _stages(
    qkv: Gemm,
    scores: HeadProduct,
    softmax: Softmax | None,
    context: HeadProduct,
    output: Gemm,
    value_column: int,
) -> list[Stage]:
    """With where their operands lie; without softmax the context takes the scores as they are."""
    key_cache, value_cache = (
        {"cache": f"{name}_cache"} if scores.kv_rows else {} for name in ("key", "value")
    )
    keys, values = View("qkv", column=output.k), View("qkv", column=value_column)
    weights = "weights" if softmax else "scores"
    between = [Stage("softmax", softmax, buffers={"scores": "scores", "out": weights})] if softmax else []
    return [
        Stage("qkv", qkv, buffers={"c": "qkv"}),
        Stage("scores", scores, buffers={"a": "qkv", "b": keys, **key_cache, "out": "scores"}),
        *between,
        Stage("context", context, buffers={"a": weights, "b": values, **value_cache, "out": "context"}),
        Stage("output", output, buffers={"a": "context"}),
    ]


def _dependencies(qkv: Stage, scores: Stage, *others: Stage) -> list[Dependency]:
    """The tiles that hold what is read. Where keys are cached, all own keys of a sequence are named: which
    of them a block of keys reads, and that it reads none, its regions say.
    """
    *between, context, output = others
    head_blocks = _product(scores).column_blocks
    queries, keys = (_head_columns(qkv, scores, operand) for operand in ("a", "b"))
    needs = [(scores, [qkv[queries, _rows(qkv, scores)], qkv[keys, _own_keys(qkv, scores)]])]
    weights: Stage = scores
    columns = _run(quotient(x, 1, 0, _product(context).column_blocks), head_blocks)
    for softmax in between:
        needs.append((softmax, [scores[_run(x, head_blocks), _rows(scores, softmax)]]))
        weights, columns = softmax, x
    values = qkv[_value_columns(qkv, context), _own_keys(qkv, context)]
    needs.append((context, [weights[columns, _rows(weights, context)], values]))
    needs.append((output, [context[:, _rows(context, output)]]))
    return [Dependency(stage[x, y], tiles) for stage, tiles in needs]


def _run(index: Index, length: int) -> Span:
    """The index-th run of so many tiles."""
    return index if length == 1 else slice(index * length, index * length + length)


def _head_columns(qkv: Stage, scores: Stage, operand: str) -> Span:
    """The QKV product's tile columns that hold a head's queries or keys."""
    work, first = _product(scores), scores.view(operand).column
    head = quotient(x, 1, 0, work.column_blocks)
    return columns_between(head, work.head_dim, first, qkv.gemm.tile_n, work.grid.x)


def _value_columns(qkv: Stage, context: Stage) -> Span:
    """The QKV product's tile columns that hold the values of a tile of the context."""
    work, first = _product(context), context.view("b").column
    return columns_between(x, work.tile_n, first, qkv.gemm.tile_n, work.grid.x)


def _own_keys(qkv: Stage, stage: Stage) -> Span:
    """The QKV product's tile rows of the run's own keys: of a tile's sequence, or of its block of keys."""
    work, height = _product(stage), qkv.gemm.tile_m
    if work.sequences > 1:
        return _tile_rows(quotient(y, 1, 0, work.row_blocks), work.length, qkv)
    if work.product == "context" or work.cached:
        return slice(None)
    block = x - x // work.column_blocks * work.column_blocks
    return block if height == work.tile_n else _tile_rows(block, work.tile_n, qkv)


def _tile_rows(index: Index, rows: int, qkv: Stage) -> slice:
    """The QKV product's tile rows that hold the index-th run of so many rows."""
    height = qkv.gemm.tile_m
    end = quotient(index, rows, rows + height - 1, height)
    return slice(quotient(index, rows, 0, height), end.at_most(qkv.grid.y))


def _rows(producer: Stage, consumer: Stage) -> Span:
    """The producer's tile rows that hold the rows of a tile of the consumer."""
    return rows_between(_cut(producer), _cut(consumer))


def _cut(stage: Stage) -> TileRows:
    work: Any = stage.work
    if stage.work.is_product:
        return TileRows(work.m, work.tile_m, work.m)
    return TileRows(work.sequences * work.length, work.tile_m, work.length)


def _product(stage: Stage) -> HeadProduct:
    return cast("HeadProduct", stage.work)
