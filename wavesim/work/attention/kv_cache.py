"""Whether a product that fills a KV cache and the attention that reads it mean the same cache.

Example: a QKV product stores behind 512 cached rows of 2,048, `CacheStore(1024, 1024, 2048, first=512)`, and
attention reads `Attention(..., cached=512, kv_rows=4096)`. Both are right by themselves; together, attention
would read the second sequence 2,048 rows too far down.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from wavesim.errors import DescriptionError
from wavesim.model.regions import View
from wavesim.model.stage import Stage

Disagreement = tuple[str, object, object]  # what it is about, the product's value, attention's
PAIRS = (("k_cache", "k"), ("v_cache", "v"))


def require_caches_agree(attention: Stage, stages: Sequence[Stage], producers: Sequence[str]) -> None:
    """Raises `DescriptionError` where a product's cache or RoPE and its attention's keys are not the same.

    They belong together where the cache lies in one buffer, or, where neither stage names its buffers, where
    attention needs the product's tiles: `producers` names all that it needs. The error names both stages,
    both values and the fix.
    """
    for product in stages:
        if product.work.is_product and (product.gemm.cache or product.gemm.rope):
            _require_pair(product, attention, is_needed=product.name in producers)


def _require_pair(product: Stage, attention: Stage, *, is_needed: bool) -> None:
    gemm, work = product.gemm, cast("Any", attention.work)
    pairs: list[Disagreement] = []
    if gemm.cache is not None and _is_one_cache(product, attention, is_needed=is_needed):
        pairs += _of_cache(gemm, work)
        pairs += _of_places(product, attention)
    if gemm.rope is not None and is_needed:
        pairs += _of_rope(gemm, work)
    for what, stored, read in pairs:
        if stored != read:
            raise DescriptionError(
                f"stages {product.name} and {attention.name} disagree on K and V: {what} is {stored} in "
                f"{product.name} and {read} in {attention.name}; make them equal"
            )


def _is_one_cache(product: Stage, attention: Stage, *, is_needed: bool) -> bool:
    if not any(name in product.buffers for name, _ in PAIRS):
        return is_needed
    stored, read = (
        {stage.view(pair[at]).buffer for pair in PAIRS} for at, stage in enumerate((product, attention))
    )
    return bool(stored & read)


def _of_cache(gemm: Any, work: Any) -> Iterator[Disagreement]:
    cache, length, stores = gemm.cache, work.new_rows, getattr(work, "appends", False)
    yield "who stores the new rows", "this product", "attention too (appends)" if stores else "this product"
    yield "rows of a sequence (rows; length)", cache.rows, length
    yield "sequences", gemm.m // cache.rows, work.sequences
    yield "the first new row (first; cached)", cache.first, work.cached
    yield "rows of the cache for a sequence (capacity; kv_rows)", cache.capacity, work.kv_rows
    yield "columns of K (columns; kv_heads x head_dim)", cache.columns, work.kv_heads * work.head_dim
    yield "columns of Q (n - 2 columns; heads x head_dim)", gemm.n - 2 * cache.columns, work.columns
    yield "element (dtype)", gemm.dtype, work.dtype


def _of_places(product: Stage, attention: Stage) -> Iterator[Disagreement]:
    if not any(name in product.buffers for name, _ in PAIRS):
        return
    for (stored, read), letter in zip(PAIRS, "KV", strict=True):
        yield f"the place of {letter}", _place(product.view(stored)), _place(attention.view(read))


def _place(view: View) -> str:
    return f"row {view.row}, column {view.column} of {view.buffer!r}"


def _of_rope(gemm: Any, work: Any) -> Iterator[Disagreement]:
    rope, length = gemm.rope, work.new_rows
    yield "the size of a rotated head (head_dim)", rope.head_dim, work.head_dim
    yield "heads of Q and K (heads; heads + kv_heads)", rope.heads, work.heads + work.kv_heads
    yield "rows of a sequence (rows; length)", rope.rows, length
    yield "the first position (first; cached)", rope.first, work.cached
