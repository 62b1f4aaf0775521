"""What attention computes, in float32: softmax, mask and dropout of CuPy arrays.

Example: of q (256, 512), k and v (256, 128) with four heads of 128 and one KV head, all four read the same
keys; the result is (256, 512).
"""

from collections.abc import Mapping
from typing import Any

from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.kernels.attention.dropout import kept


def attention_reference(work: Attention, q: Any, k: Any, v: Any) -> Any:
    """Out (sequences * length, heads * head_dim) of q of that shape, k and v (sequences * kv_rows, ...)."""
    cupy, group = require_cupy(), work.heads // work.kv_heads
    out, hidden, keeps = cupy.empty_like(q), _hidden(cupy, work), _keeps(cupy, work)
    for sequence in range(work.sequences):
        rows = slice(sequence * work.length, (sequence + 1) * work.length)
        keys = slice(sequence * work.kv_rows, sequence * work.kv_rows + work.keys)
        for head in range(work.heads):
            own, shared = _columns(work, head), _columns(work, head // group)
            scores = cupy.matmul(q[rows, own], k[keys, shared].T) * cupy.float32(work.scale)
            weights = _softmax(cupy, cupy.where(hidden, cupy.float32("-inf"), scores))
            if keeps is not None:
                weights *= keeps[sequence * work.heads + head]
            out[rows, own] = cupy.matmul(weights, v[keys, shared])
    return out


def decode_reference(work: AttentionDecode, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Out (sequences, heads * head_dim) of q and the cache; with `appends` also k and v with the new rows."""
    cupy = require_cupy()
    heads = (work.sequences, work.kv_heads, work.head_dim)
    k, v = (arrays[name].reshape(work.sequences, work.kv_rows, *heads[1:]).copy() for name in ("k", "v"))
    q = arrays["q"].reshape(work.sequences, work.kv_heads, -1, work.head_dim)
    out = cupy.full_like(q, cupy.nan)
    lengths = arrays["lengths"].ravel().tolist() if work.has_lengths else [work.keys] * work.sequences
    for sequence, length in enumerate(lengths):
        if not 1 <= length <= work.keys:
            continue
        if work.appends:
            k[sequence, length - 1] = arrays["k_new"].reshape(heads)[sequence]
            v[sequence, length - 1] = arrays["v_new"].reshape(heads)[sequence]
        keys, values = (cache[sequence, :length].transpose(1, 0, 2) for cache in (k, v))
        scores = cupy.matmul(q[sequence], keys.transpose(0, 2, 1)) * cupy.float32(work.scale)
        out[sequence] = cupy.matmul(_softmax(cupy, scores), values)
    written = {"out": out.reshape(work.sequences, work.columns)}
    flat = (work.sequences * work.kv_rows, work.kv_heads * work.head_dim)
    return {**written, "k": k.reshape(flat), "v": v.reshape(flat)} if work.appends else written


def _columns(work: Attention, head: int) -> slice:
    return slice(head * work.head_dim, (head + 1) * work.head_dim)


def _softmax(cupy: Any, scores: Any) -> Any:
    weights = cupy.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _hidden(cupy: Any, work: Attention) -> Any:
    """Which keys a query does not see, (length, keys)."""
    if not work.is_causal:
        return cupy.zeros((work.length, work.keys), bool)
    return cupy.arange(work.keys)[None] > work.cached + cupy.arange(work.length)[:, None]


def _keeps(cupy: Any, work: Attention) -> Any:
    """What weights are multiplied by, (sequences * heads, length, keys); None without dropout."""
    if not work.dropout:
        return None
    heads = work.sequences * work.heads
    is_kept = kept(cupy, work.seed, work.dropout, heads, work.length, work.keys)
    return is_kept.astype(cupy.float32) * cupy.float32(1 / (1 - work.dropout))
