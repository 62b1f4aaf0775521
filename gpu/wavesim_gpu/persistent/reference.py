"""What WaveRNN's kernels must have written, step by step, in fp32 or int32, each from what it had read.

Example: h after step 3 is computed from the h after step 2 that the kernel stored, not from one of our own:
so an error shows in the step that made it, and nothing is hidden by the others' rounding.
"""

from collections.abc import Mapping
from math import inf, isnan
from typing import Any

from wavesim_gpu.persistent.weights import GATES, HALF, HIDDEN, INT8_ONE, Weights

# Largest difference of a stored value: one step of int8, and fp16's rounding of sums in another order.
TOLERANCES = {"int8": 1.0, "fp16": 4e-3}


def worst_errors(numpy: Any, weights: Weights, outputs: Mapping[str, Any]) -> dict[str, float]:
    """The largest differences by output: "state", "inner0", "inner1", and "logits0", "logits1".

    `outputs` are arrays of the same names as `wavernn.cu` lays them out, of NumPy or of CuPy, whichever
    `numpy` is. fp16's errors behind R are shares of the largest value. NaN is an error of infinity.
    """
    errors = {}
    state = outputs["state"]
    before, after = state[:-1], state[1:]
    errors["state"] = _worst(numpy, _gated(numpy, weights, before), after)
    for side, (first, second) in enumerate((("o1", "o2"), ("o3", "o4"))):
        half = after[..., side * HALF : (side + 1) * HALF]
        sums = _product(numpy, half, weights, first) * weights.inner_scale
        inner, logits = outputs[f"inner{side}"], outputs[f"logits{side}"]
        stored = _stored(numpy, weights, numpy.maximum(sums, 0))
        errors[f"inner{side}"] = _worst(numpy, stored, inner) / _scale(numpy, weights, stored)
        exact = _product(numpy, inner, weights, second)
        errors[f"logits{side}"] = _worst(numpy, exact, logits) / _scale(numpy, weights, exact)
    return errors


def is_right(weights: Weights, errors: Mapping[str, float]) -> bool:
    """Whether all are within what rounding explains; int32 sums have none."""
    allowed = TOLERANCES[weights.dtype]
    return all(
        error <= (0.0 if weights.dtype == "int8" and name.startswith("logits") else allowed)
        for name, error in errors.items()
    )


def _gated(numpy: Any, weights: Weights, before: Any) -> Any:
    sums = _product(numpy, before, weights, "r") * weights.gate_scale
    u, r, e = (sums[..., gate * HIDDEN : (gate + 1) * HIDDEN] for gate in range(GATES))
    unit = INT8_ONE if weights.dtype == "int8" else 1.0
    update = 1 / (1 + numpy.exp(-u))
    new = numpy.tanh(e / (1 + numpy.exp(-r)))
    h = before.astype(numpy.float32) / unit
    return _stored(numpy, weights, (update * h + (1 - update) * new) * unit)


def _product(numpy: Any, inputs: Any, weights: Weights, layer: str) -> Any:
    """Sums over K in float64, which holds those of int8 exactly."""
    matrix = numpy.asarray(weights.matrices[layer]).astype(numpy.float64)
    return inputs.astype(numpy.float64) @ matrix.T


def _stored(numpy: Any, weights: Weights, values: Any) -> Any:
    """As int8 stores it; fp16's rounding is left to the tolerance."""
    return numpy.clip(numpy.rint(values), -127, 127) if weights.dtype == "int8" else values


def _scale(numpy: Any, weights: Weights, values: Any) -> float:
    """What errors are a share of: 1 where values are whole numbers."""
    return 1.0 if weights.dtype == "int8" else max(1.0, float(numpy.abs(values).max()))


def _worst(numpy: Any, expected: Any, result: Any) -> float:
    worst = float(numpy.abs(expected - result.astype(numpy.float64)).max())
    return inf if isnan(worst) else worst
