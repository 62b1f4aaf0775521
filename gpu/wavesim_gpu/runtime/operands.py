"""Matrices on the GPU: random inputs and weights, poisoned outputs, a float32 reference.

Example: stage 1 reads X, every later stage reads what its producer wrote; each has a weight matrix and an
output of its own. bf16 travels as uint16 bit patterns, since NumPy has no such type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim_gpu.runtime.device import require_cupy

ALIGNMENT = 16  # bytes of one asynchronous copy
TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3}  # relative error in the Frobenius norm: a few roundings of the type


@dataclass(frozen=True)
class Operands:
    """Per stage: A (m, k), B (k, n) and C (m, columns). A consumer's A is its producer's C."""

    pipeline: Pipeline
    a: Mapping[str, Any]
    b: Mapping[str, Any]
    c: Mapping[str, Any]

    def poison(self, stream: Any = None) -> None:
        """Fills every output with NaN, so that what is not written, or read too early, shows."""
        poison(self.c, stream)

    def outputs(self) -> dict[str, Any]:
        """What each stage wrote, as float32."""
        return {
            stage.name: to_float32(self.c[stage.name], stage.gemm.dtype) for stage in self.pipeline.stages
        }


def poison(outputs: Mapping[str, Any], stream: Any = None) -> None:
    """Fills arrays with NaN, in a stream's order."""
    runtime = require_cupy().cuda.runtime
    for array in outputs.values():
        runtime.memsetAsync(array.data.ptr, 0xFF, array.nbytes, stream.ptr if stream is not None else 0)


def random_operands(pipeline: Pipeline, seed: int = 0, partial_bytes: int = 0) -> Operands:
    """Fresh normal inputs and weights, scaled so that outputs are near one.

    `partial_bytes` is what the kernels need besides. Raises `DeviceError` if all that does not fit in the
    GPU's free memory.
    """
    cupy = require_cupy()
    _require_memory(cupy, pipeline, partial_bytes)
    generator = cupy.random.RandomState(seed)
    inputs = {
        stage.name: _random(generator, (stage.gemm.m, stage.gemm.k), 1.0, stage.gemm.dtype)
        for stage in pipeline.stages
        if pipeline.dependency_of(stage.name) is None
    }
    weights = {
        stage.name: _random(generator, (stage.gemm.k, stage.gemm.n), stage.gemm.k**-0.5, stage.gemm.dtype)
        for stage in pipeline.stages
    }
    return bind(pipeline, inputs, weights)


def bind(pipeline: Pipeline, inputs: Mapping[str, Any], weights: Mapping[str, Any]) -> Operands:
    """Given arrays as a pipeline's operands. Raises `DescriptionError` for wrong ones, before any launch."""
    cupy = require_cupy()
    a, b, c = {}, {}, {}
    for stage in pipeline.stages:
        gemm, dependency = stage.gemm, pipeline.dependency_of(stage.name)
        if dependency is None:
            a[stage.name] = _checked(
                cupy, f"input of {stage.name}", inputs.get(stage.name), gemm, (gemm.m, gemm.k)
            )
        else:
            if len(dependency.producers) > 1:
                raise DescriptionError(
                    f"{dependency}: a GEMM reads A from one producer; "
                    f"{len(dependency.producers)} are named. Split the stage"
                )
            a[stage.name] = c[dependency.producers[0]]
        b[stage.name] = _checked(
            cupy, f"weights of {stage.name}", weights.get(stage.name), gemm, (gemm.k, gemm.n)
        )
        c[stage.name] = cupy.empty((gemm.m, gemm.columns), element_type(gemm.dtype))
    return Operands(pipeline, a, b, c)


def reference(operands: Operands) -> dict[str, Any]:
    """Every stage's output in float32, from the same rounded inputs; intermediates rounded as stored."""
    cupy = require_cupy()
    results: dict[str, Any] = {}
    for stage in operands.pipeline.stages:
        dtype, dependency = stage.gemm.dtype, operands.pipeline.dependency_of(stage.name)
        if dependency is None:
            a = to_float32(operands.a[stage.name], dtype)
        else:
            a = to_float32(from_float32(results[dependency.producers[0]], dtype), dtype)
        product = cupy.matmul(a, to_float32(operands.b[stage.name], dtype))
        results[stage.name] = _activated(cupy, product, stage.gemm.activation)
    return results


def relative_errors(operands: Operands, expected: Mapping[str, Any]) -> dict[str, float]:
    """|out - ref| / |ref| per stage, in the Frobenius norm; NaN where an output holds one."""
    cupy = require_cupy()
    errors = {}
    for stage in operands.pipeline.stages:
        got, want = to_float32(operands.c[stage.name], stage.gemm.dtype), expected[stage.name]
        errors[stage.name] = float(cupy.linalg.norm((got - want).ravel()) / cupy.linalg.norm(want.ravel()))
    return errors


def is_right(operands: Operands, errors: Mapping[str, float]) -> bool:
    """Whether every stage's error is within its element type's tolerance; NaN never is."""
    return all(errors[stage.name] <= TOLERANCE[stage.gemm.dtype] for stage in operands.pipeline.stages)


def element_type(dtype: str) -> str:
    """The array type that holds fp16 or bf16."""
    return "float16" if dtype == "fp16" else "uint16"


def from_float32(values: Any, dtype: str) -> Any:
    """Rounded to nearest even."""
    if dtype == "fp16":
        return values.astype("float16")
    bits = values.view("uint32")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")


def to_float32(values: Any, dtype: str) -> Any:
    """The same numbers, exactly."""
    if dtype == "fp16":
        return values.astype("float32")
    return (values.astype("uint32") << 16).view("float32")


def _random(generator: Any, shape: tuple[int, int], scale: float, dtype: str) -> Any:
    return from_float32(generator.standard_normal(shape, dtype="float32") * generator_scale(scale), dtype)


def generator_scale(scale: float) -> Any:
    """A float32 scalar: a Python float would be fine too, but must not promote the array."""
    return require_cupy().float32(scale)


def _activated(cupy: Any, product: Any, activation: str | None) -> Any:
    if activation == "gelu":
        return _gelu(cupy, product)
    if activation == "swiglu":
        gate, value = product[:, ::2], product[:, 1::2]
        return gate / (cupy.float32(1) + cupy.exp(-gate)) * value
    return product


def _gelu(cupy: Any, x: Any) -> Any:
    inner = cupy.float32(0.7978845608028654) * (x + cupy.float32(0.044715) * x * x * x)
    return cupy.float32(0.5) * x * (cupy.float32(1) + cupy.tanh(inner))


def _checked(cupy: Any, what: str, array: Any, gemm: Gemm, shape: tuple[int, int]) -> Any:
    wanted = element_type(gemm.dtype)
    if array is None:
        raise DescriptionError(f"{what} is missing; give a CuPy array {shape} of {wanted}")
    if not isinstance(array, cupy.ndarray):
        raise DescriptionError(f"{what} is a {type(array).__name__}; give a CuPy array: cupy.asarray(...)")
    if array.shape != shape or array.dtype != wanted:
        raise DescriptionError(f"{what} is {array.shape} of {array.dtype}; it must be {shape} of {wanted}")
    if not array.flags.c_contiguous or array.data.ptr % ALIGNMENT:
        raise DescriptionError(
            f"{what} must be row-major and aligned to {ALIGNMENT} bytes; use cupy.ascontiguousarray"
        )
    return array


def _require_memory(cupy: Any, pipeline: Pipeline, partial_bytes: int) -> None:
    """Raises `DeviceError` unless matrices, partial sums and the generator's float32 copies fit."""
    gemms = [stage.gemm for stage in pipeline.stages]
    stored = partial_bytes + sum(2 * (g.m * g.k + g.k * g.n + g.m * g.n) for g in gemms)
    largest = max(8 * max(g.m * g.k, g.k * g.n) for g in gemms)
    free, total = cupy.cuda.runtime.memGetInfo()
    free += cupy.get_default_memory_pool().free_bytes()
    if stored + largest > free:
        raise DeviceError(
            f"pipeline {pipeline.name} needs {(stored + largest) / 1e9:.1f} GB of GPU memory; "
            f"{free / 1e9:.1f} of {total / 1e9:.1f} GB are free. Use fewer tokens"
        )
