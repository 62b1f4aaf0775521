"""SwiGLU by itself, as it follows a library's product."""

import numpy as np
import pytest

from wavesim_gpu.evaluation.baselines.swiglu import launch_swiglu

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_pairs_of_gate_and_value_become_swish_of_the_gate_times_the_value(cupy, runner, dtype):
    rng = np.random.default_rng(7)
    pairs = rng.standard_normal((37, 264)).astype(np.float32)
    bits = pairs.view(np.uint32)
    # bf16 has no NumPy type: the upper half of a float's bits, cut off.
    stored = pairs.astype(np.float16) if dtype == "fp16" else (bits >> 16).astype(np.uint16)
    exact = pairs if dtype == "fp16" else (bits & 0xFFFF0000).view(np.float32)
    on_gpu = cupy.asarray(stored)
    out = cupy.full((37, 132), 0x7FFF, cupy.uint16)  # a NaN in both types
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    launch_swiglu(on_gpu, out, dtype, stream)
    stream.synchronize()
    raw = out.get()
    made = raw.view(np.float16) if dtype == "fp16" else (raw.astype(np.uint32) << 16).view(np.float32)
    gate, value = exact[:, 0::2].astype(np.float64), exact[:, 1::2].astype(np.float64)
    expected = gate / (1.0 + np.exp(-gate)) * value
    error = np.linalg.norm(made - expected) / np.linalg.norm(expected)
    assert error < (1e-3 if dtype == "fp16" else 5e-3)
