"""Matrices on the GPU: random inputs and weights, poisoned outputs, a float32 reference.

Example: stage 1 reads X, every later stage reads what its producer wrote; each has a weight matrix and an
output of its own. bf16 travels as uint16 bit patterns, since NumPy has no such type.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim_gpu.kernels.backend import Addresses
from wavesim_gpu.kernels.gemm_reference import computed_gemm
from wavesim_gpu.runtime.device import require_cupy

ALIGNMENT = 16  # bytes of one asynchronous copy
TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3}  # relative error in the Frobenius norm: a few roundings of the type


@dataclass(frozen=True)
class Operands:
    """Per stage: A (m, k), B (k, n) and C (m, columns). A consumer's A is its producer's C.

    A column-major B is stored as (n, k). With gates in halves `b` and `bias` are the gates', `b_values` and
    `values_bias` the values', of n/2 columns each.
    """

    pipeline: Pipeline
    a: Mapping[str, Any]
    b: Mapping[str, Any]
    c: Mapping[str, Any]
    b_values: Mapping[str, Any] = field(default_factory=dict)
    bias: Mapping[str, Any] = field(default_factory=dict)
    values_bias: Mapping[str, Any] = field(default_factory=dict)

    def addresses(self, stage: str, partials: int = 0, tickets: int = 0) -> Addresses:
        """Where a stage's operands are, and how far apart their rows."""
        a, b, c = self.a[stage], self.b[stage], self.c[stage]
        others = {
            name: getattr(self, name)[stage].data.ptr
            for name in ("b_values", "bias", "values_bias")
            if stage in getattr(self, name)
        }
        strides = {f"{name}_stride": array.strides[0] // 2 for name, array in (("a", a), ("b", b), ("c", c))}
        return Addresses(a.data.ptr, b.data.ptr, c.data.ptr, partials, tickets, **others, **strides)

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
    gemms = {stage.name: stage.gemm for stage in pipeline.stages}
    halves = {name: gemm for name, gemm in gemms.items() if gemm.has_halves}
    weights, values = (_random_weights(generator, some) for some in (gemms, halves))
    bias, values_bias = (_random_biases(generator, some) for some in (gemms, halves))
    return bind(pipeline, inputs, weights, values=values, bias=bias, values_bias=values_bias)


def weight_shape(gemm: Gemm) -> tuple[int, int]:
    """Of B as it is stored; with gates in halves of either matrix."""
    (columns,) = bias_shape(gemm)
    return (gemm.k, columns) if gemm.b_order == "row" else (columns, gemm.k)


def bias_shape(gemm: Gemm) -> tuple[int]:
    """A value per column; with gates in halves of either bias."""
    return (gemm.n // 2 if gemm.has_halves else gemm.n,)


def bind(
    pipeline: Pipeline,
    inputs: Mapping[str, Any],
    weights: Mapping[str, Any],
    *,
    values: Mapping[str, Any] | None = None,
    bias: Mapping[str, Any] | None = None,
    values_bias: Mapping[str, Any] | None = None,
) -> Operands:
    """Given arrays as a pipeline's operands. Raises `DescriptionError` for wrong ones, before any launch.

    `values` and `values_bias` are those of stages with gates in halves, whose gates' are in the others.
    """
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
            cupy, f"weights of {stage.name}", weights.get(stage.name), gemm, weight_shape(gemm)
        )
        c[stage.name] = cupy.empty((gemm.m, gemm.columns), element_type(gemm.dtype))
    extra = {
        name: _checked_extra(cupy, pipeline, name, given or {})
        for name, given in (("b_values", values), ("bias", bias), ("values_bias", values_bias))
    }
    return Operands(pipeline, a, b, c, **extra)


def reference(operands: Operands) -> dict[str, Any]:
    """Every stage's output in float32, from the same rounded inputs; intermediates rounded as stored."""
    results: dict[str, Any] = {}
    for stage in operands.pipeline.stages:
        dtype, dependency = stage.gemm.dtype, operands.pipeline.dependency_of(stage.name)
        if dependency is None:
            a = to_float32(operands.a[stage.name], dtype)
        else:
            a = to_float32(from_float32(results[dependency.producers[0]], dtype), dtype)
        results[stage.name] = _stage_reference(operands, stage.name, a)
    return results


def _stage_reference(operands: Operands, name: str, a: Any) -> Any:
    """One stage's output from its A, all in float32."""
    gemm = operands.pipeline.stage(name).gemm
    given = {key: getattr(operands, key).get(name) for key in ("b", "b_values", "bias", "values_bias")}
    others = {key: to_float32(array, gemm.dtype) for key, array in given.items() if array is not None}
    return computed_gemm(gemm, {"a": a, **others})


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


def _random_weights(generator: Any, gemms: Mapping[str, Gemm]) -> dict[str, Any]:
    return {
        name: _random(generator, weight_shape(gemm), gemm.k**-0.5, gemm.dtype) for name, gemm in gemms.items()
    }


def _random_biases(generator: Any, gemms: Mapping[str, Gemm]) -> dict[str, Any]:
    return {
        name: _random(generator, bias_shape(gemm), 1.0, gemm.dtype)
        for name, gemm in gemms.items()
        if gemm.has_bias
    }


def _random(generator: Any, shape: tuple[int, ...], scale: float, dtype: str) -> Any:
    return from_float32(generator.standard_normal(shape, dtype="float32") * generator_scale(scale), dtype)


def generator_scale(scale: float) -> Any:
    """A float32 scalar: a Python float would be fine too, but must not promote the array."""
    return require_cupy().float32(scale)


def _checked_extra(cupy: Any, pipeline: Pipeline, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values' weights and biases, of the stages that have them."""
    found = {}
    for stage in pipeline.stages:
        gemm = stage.gemm
        is_bias, is_of_values = "bias" in name, "values" in name
        if (gemm.has_bias or not is_bias) and (gemm.has_halves or not is_of_values):
            shape = bias_shape(gemm) if is_bias else weight_shape(gemm)
            found[stage.name] = _checked(cupy, f"{name} of {stage.name}", given.get(stage.name), gemm, shape)
    return found


def _checked(cupy: Any, what: str, array: Any, gemm: Gemm, shape: tuple[int, ...]) -> Any:
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
