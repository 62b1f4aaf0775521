"""Fields of the tables that describe a layer's kernels: RoPE, KV cache, attention, decode, products by heads,
norms, softmax, copies.

Example: `rope = { heads = 40, head_dim = 128 }` of a QKV product.
"""

from dataclasses import replace

from wavesim.work.description.described_field import Field

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
NORM = (
    Field("rows", "rows", "that are normed", "required", "-", "rows = 1024"),
    Field("columns", "columns", "of a row", "required", "-", "columns = 4096"),
    Field("kind", "word", "rms (RMSNorm) or layer (LayerNorm, with a bias)", '"rms"', "-", 'kind = "layer"'),
    Field(
        "residual",
        "true or false",
        "adds one first, and keeps the sum; what makes it stands in `needs`",
        "true",
        "-",
        "residual = false",
    ),
    Field("epsilon", "number", "added to the mean square", "1e-5", "-", "epsilon = 1e-6"),
)
SOFTMAX = (
    SEQUENCES,
    LENGTH,
    HEADS[0],
    Field("keys", "keys", "of a sequence, with those cached", "required", "-", "keys = 1536"),
    Field("causal", "true or false", "hides keys after a query's own", "true", "-", "causal = false"),
    Field("scale", "number", "of the scores before", "1", "-", "scale = 0.088"),
    Field("dropout", "share", "of the weights that are dropped", "0", "-", "dropout = 0.1"),
    Field(
        "dropout_place",
        "word",
        "after the softmax, or before it",
        '"after"',
        "-",
        'dropout_place = "before"',
    ),
)
COPY = (
    Field("rows", "rows", "that are copied", "required", "-", "rows = 1024"),
    Field("columns", "columns", "of a row", "required", "-", "columns = 4096"),
)
LAYER_STAGES = (  # of a stage, the tables above by name
    Field(
        "rope",
        "table",
        "heads of a product's output that are rotated by their positions, as below; no activation",
        "none",
        "-",
        "rope = { heads = 40, head_dim = 128 }",
    ),
    Field(
        "cache",
        "table",
        "KV cache that takes the last columns of a product, K and V, as below; no activation",
        "none",
        "-",
        "cache = { columns = 1024 }",
    ),
    Field(
        "attention",
        "table",
        "fused attention over a prompt, as below; its `tile` is query rows and keys; not with `m`, `n`, `k`",
        "not attention",
        "`grid` and `flops` or `kernel_us` are required",
        "attention = { length = 1024, heads = 32, kv_heads = 8 }",
    ),
    Field(
        "decode",
        "table",
        "attention of one query a sequence over its cache, as below; its `tile` is the keys of a block",
        "not attention",
        "as `attention`",
        "decode = { sequences = 16, cached = 2047, heads = 32, kv_heads = 8 }",
    ),
    Field(
        "head_product",
        "table",
        "a product of every head by itself, scores or context of attention in several kernels, as below",
        "not such a product",
        "as `attention`",
        'head_product = { product = "scores", length = 1024, heads = 12, kv_heads = 12 }',
    ),
    Field(
        "norm",
        "table",
        "RMSNorm or LayerNorm of rows, with or without a residual, as below; its `tile` is rows",
        "not a norm",
        "as `attention`",
        "norm = { rows = 1024, columns = 4096 }",
    ),
    Field(
        "softmax",
        "table",
        "softmax of attention's scores, with dropout, as below; its `tile` is query rows",
        "not a softmax",
        "as `attention`",
        "softmax = { length = 1024, heads = 12, keys = 1024 }",
    ),
    Field(
        "copy",
        "table",
        "a copy by tiles of rows and columns, as below",
        "not a copy",
        "as `attention`",
        "copy = { rows = 1024, columns = 4096 }",
    ),
)
