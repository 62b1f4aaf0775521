"""Fields of the tables that describe a layer's kernels: RoPE, KV cache, attention, decode, products by heads.

Example: `rope = { heads = 40, head_dim = 128 }` of a QKV product.
"""

from dataclasses import replace

from wavesim.model.described_field import Field

FIRST = Field("first", "rows", "of a sequence that were there before", "0", "-", "first = 512")
ROWS = Field("rows", "rows", "of the product for a sequence", "`m`", "-", "rows = 512")
ROPE = (
    Field("heads", "heads", "that are rotated, the first ones: Q's and K's", "required", "-", "heads = 40"),
    Field("head_dim", "columns", "of a head: 64 or 128", "128", "-", "head_dim = 64"),
    ROWS,
    FIRST,
)
CAPACITY = Field(
    "capacity", "rows", "of the cache for a sequence", "as many as there are keys", "-", "capacity = 4096"
)
CACHE = (
    Field("columns", "columns", "of K, and of V: a multiple of 64", "required", "-", "columns = 1024"),
    ROWS,
    FIRST,
    CAPACITY,
)
SEQUENCES = Field("sequences", "sequences", "of the batch", "1", "-", "sequences = 4")
HEADS = (
    Field("heads", "heads", "of the queries", "required", "-", "heads = 32"),
    Field(
        "kv_heads",
        "heads",
        "of K and V; each is read by as many of the queries'",
        "required",
        "-",
        "kv_heads = 8",
    ),
    Field("head_dim", "columns", "of a head: 64 or 128", "128", "-", "head_dim = 64"),
)
LENGTH = Field("length", "rows", "of a sequence's queries", "required", "-", "length = 1024")
CACHED = Field("cached", "keys", "of a sequence that were there before", "0", "-", "cached = 512")
ATTENTION = (
    SEQUENCES,
    LENGTH,
    *HEADS,
    CACHED,
    CAPACITY,
    Field("causal", "true or false", "a query sees keys up to its own alone", "true", "-", "causal = false"),
)
DECODE = (
    SEQUENCES,
    replace(CACHED, default="required", example="cached = 2047"),
    *HEADS,
    CAPACITY,
    Field(
        "splits",
        "splits",
        "of the keys, each a block of its own",
        "as many as keep the device's memory busy",
        "-",
        "splits = 4",
    ),
    Field(
        "appends",
        "true or false",
        "the kernel stores the step's own K and V into the cache",
        "false",
        "-",
        "appends = true",
    ),
)
HEAD_PRODUCT = (
    Field(
        "product",
        "word",
        "scores (Q times K transposed) or context (weights times V)",
        "required",
        "-",
        'product = "scores"',
    ),
    SEQUENCES,
    LENGTH,
    *HEADS[:2],
    Field("head_dim", "columns", "of a head: a multiple of 8", "128", "-", "head_dim = 96"),
    CACHED,
    replace(CAPACITY, default="no cache"),
)
