"""What a GEMM computes, in float32: products, biases and activations of CuPy arrays."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from wavesim.model.kernel import Gemm
from wavesim_gpu.runtime.device import require_cupy


def computed_gemm(gemm: Gemm, arrays: Mapping[str, Any]) -> Any:
    """C (m, columns) of a, b and, where it has them, b_values, bias and values_bias, all float32."""
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
