"""What a GEMM computes, in float32: products, biases, activations and what a layer does with them."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim_gpu.driver.device import require_cupy


def computed_outputs(gemm: Gemm, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """C (m, columns) of a, b and what else the GEMM has, all float32; with a cache also k_cache and v_cache.

    Rows of a cache that the product does not write are as in `arrays`.
    """
    outputs = computed_gemm(gemm, arrays)
    if gemm.rope is not None:
        outputs = rotated(gemm.rope, outputs, arrays["rope"])
    if gemm.has_residual:
        outputs = outputs + arrays["residual"]
    result = {"c": outputs[:, : gemm.columns]}
    if gemm.cache is not None:
        for number, name in enumerate(("k_cache", "v_cache")):
            first = gemm.columns + number * gemm.cache.columns
            result[name] = stored(gemm.cache, outputs[:, first : first + gemm.cache.columns], arrays[name])
    return result


def rotated(rope: Rope, sums: Any, table: Any) -> Any:
    """The first heads rotated; `table` is (positions, head_dim), of cosines and sines in turn."""
    cupy, rows = require_cupy(), sums.shape[0]
    angles = table[rope.first + cupy.arange(rows) % rope.rows].reshape(rows, 1, rope.head_dim // 2, 2)
    cosine, sine = angles[..., 0], angles[..., 1]
    heads = sums[:, : rope.columns].reshape(rows, rope.heads, rope.head_dim)
    low, high = heads[..., : rope.head_dim // 2], heads[..., rope.head_dim // 2 :]
    turned = cupy.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=2)
    return cupy.concatenate([turned.reshape(rows, rope.columns), sums[:, rope.columns :]], axis=1)


def stored(cache: CacheStore, rows: Any, before: Any) -> Any:
    """A cache (sequences * capacity, columns) once the new rows are in it."""
    after = before.reshape(-1, cache.capacity, cache.columns).copy()
    after[:, cache.first : cache.first + cache.rows] = rows.reshape(-1, cache.rows, cache.columns)
    return after.reshape(before.shape)


def computed_gemm(gemm: Gemm, arrays: Mapping[str, Any]) -> Any:
    """activation(A x B + bias), all columns, of a, b and what it has of b_values, bias and values_bias."""
    cupy, a = require_cupy(), arrays["a"]

    def product(weights: str, bias: str) -> Any:
        b = arrays[weights]
        sums = cupy.matmul(a, b.T if gemm.b_order == "column" else b)
        return sums + arrays[bias].ravel() if gemm.has_bias else sums

    sums = product("b", "bias")
    if gemm.activation is None:
        return sums
    if not gemm.is_gated:
        return ACTIVATIONS[gemm.activation](cupy, sums)
    if gemm.has_halves:
        gate, value = sums, product("b_values", "values_bias")
    else:
        gate, value = sums[:, ::2], sums[:, 1::2]
    return ACTIVATIONS[gemm.activation](cupy, gate) * value


def _gelu(cupy: Any, x: Any) -> Any:
    inner = cupy.float32(0.7978845608028654) * (x + cupy.float32(0.044715) * x * x * x)
    return cupy.float32(0.5) * x * (cupy.float32(1) + cupy.tanh(inner))


def _gelu_exact(cupy: Any, x: Any) -> Any:
    return cupy.float32(0.5) * x * (cupy.float32(1) + _erf()(x * cupy.float32(0.5**0.5)))


def _relu(cupy: Any, x: Any) -> Any:
    return cupy.maximum(x, cupy.float32(0))


def _silu(cupy: Any, x: Any) -> Any:
    return x / (cupy.float32(1) + cupy.exp(-x))


# Of a sum, or of the gate of a gated activation.
ACTIVATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "gelu": _gelu,
    "gelu-exact": _gelu_exact,
    "relu": _relu,
    "silu": _silu,
    "swiglu": _silu,
    "geglu": _gelu,
    "geglu-exact": _gelu_exact,
}


@cache
def _erf() -> Any:
    return require_cupy().ElementwiseKernel("float32 x", "float32 y", "y = erff(x)", "erf_of_float32")
