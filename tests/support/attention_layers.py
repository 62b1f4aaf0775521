"""Attention between the product that makes its operands and the one that reads it, as tests use it."""

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import Gemm


def attention(**options):
    return Attention("attention", **{"sequences": 2, "length": 384, "heads": 4, "kv_heads": 2, **options})


def layer(work, hidden=256):
    """The QKV product, attention on its packed output, and the product after it."""
    heads, kv_heads, size, group = work.heads, work.kv_heads, work.head_dim, work.heads // work.kv_heads
    qkv = Gemm("qkv", work.m, (heads + 2 * kv_heads) * size, hidden, 128, 128, 64, dtype=work.dtype)
    out = Gemm("out", work.m, hidden, work.columns, 128, 128, 64, dtype=work.dtype)
    first = Stage("qkv", qkv, "hopper", buffers={"c": "packed"})
    views = {"q": 0, "k": heads * size, "v": (heads + kv_heads) * size}
    packed = {name: View("packed", column=column) for name, column in views.items()}
    own = Stage("attention", work, buffers={**packed, "out": "heads"})
    last = Stage("out", out, "hopper", buffers={"a": "heads"})
    top = y // work.row_blocks * work.row_blocks  # where the sequence begins
    of_a_tile = 128 // size  # heads whose columns a tile of the product holds
    queries, keys, values = (
        head // of_a_tile for head in (x, heads + x // group, heads + kv_heads + x // group)
    )
    needs = [first[queries, y], first[keys, top : y + 1], first[values, top : y + 1]]
    links = [Dependency(own[x, y], needs), Dependency(last[x, y], [own[:, y]])]
    return Pipeline("layer", [first, own, last], links)


def decode(**options):
    usual = {"sequences": 5, "cached": 300, "heads": 8, "kv_heads": 2, "splits": 3, "kv_rows": 320}
    return AttentionDecode("decode", **{**usual, "appends": True, **options})


def decode_layer(work, hidden=256):
    """The QKV product of one token per sequence, attention over a cache, and the product after it."""
    size, wide = work.head_dim, (work.heads + 2 * work.kv_heads) * work.head_dim
    qkv = Gemm("qkv", work.sequences, wide, hidden, 64, 64, 32, dtype=work.dtype)
    out = Gemm("out", work.sequences, hidden, work.columns, 64, 64, 32, dtype=work.dtype)
    first = Stage("qkv", qkv, "portable", buffers={"c": "packed"})
    views = {"q": 0, "k_new": work.columns, "v_new": work.columns + work.kv_heads * size}
    packed = {name: View("packed", column=column) for name, column in views.items()}
    own = Stage("decode", work, buffers={**packed, "out": "heads"})
    last = Stage("out", out, "portable", buffers={"a": "heads"})
    of_a_head = size // 64  # tiles of the product
    of_a_group = work.heads // work.kv_heads * of_a_head
    begins = {name: column // 64 for name, column in views.items()}
    needs = [first[of_a_group * x : of_a_group * x + of_a_group, 0]]
    for name in ("k_new", "v_new"):
        begin = begins[name] + of_a_head * x
        needs.append(first[begin : begin + of_a_head, 0])
    links = [Dependency(own[x, y], needs), Dependency(last[x, y], [own[:, :]])]
    return Pipeline("decode layer", [first, own, last], links)
