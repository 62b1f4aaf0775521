"""What roundings of a chain add up to, by arithmetic: far enough below the tolerance, and a fault far above.

A stage is compared with a reference that read the reference's own roundings, so that errors of a chain add
up, as variances do. Those of attention, relative: an error e of Q or of K moves each score by e times the
scores' standard deviation s, a weight by as much, and the outputs, sums of random values, too. So with errors
q, k, v of what it reads and r of one rounding (of the weights, of the outputs) it is off by

    sqrt(s^2 (q^2 + k^2) + v^2 + 2 r^2).

With rotations s is about 1. Tables that do not rotate have s = 1.8 and errors above bf16's tolerance, without
any fault of a kernel.
"""

import numpy as np
import pytest
from numpy_as_cupy import numpy_as_cupy

from wavesim.work.attention import Attention
from wavesim.work.rows import Norm
from wavesim.workloads.layer_variants import with_cache, with_rope
from wavesim.workloads.layers import chain_of, transformer_layer
from wavesim.workloads.models import Model, TransformerShape
from wavesim_gpu.driver.element_types import TOLERANCE, from_float32, to_float32
from wavesim_gpu.kernels.attention import reference as attention_reference
from wavesim_gpu.kernels.gemm import reference as gemm_reference
from wavesim_gpu.kernels.rows import norm
from wavesim_gpu.run import operands as bound
from wavesim_gpu.run import random_inputs, references

ROUNDING = 2**-8 / 3**0.5 * 0.75  # of bf16, relative: uniform within half a step, steps grow with the number


@pytest.fixture(autouse=True)
def arrays(monkeypatch):
    """Arrays are NumPy's."""
    cupy = numpy_as_cupy()
    for module in (bound, random_inputs, references, gemm_reference, attention_reference, norm):
        monkeypatch.setattr(module, "require_cupy", lambda: cupy)


def attention_half():
    """A layer's norm, QKV with RoPE into a cache, attention over it, the product behind it."""
    shape = TransformerShape(4, 1, 64, 1, "rms", "none", has_rope=True, tp=1, source="made for this test")
    model = Model("small", 512, 512, "swiglu", "bf16", "made for this test", shape)
    tiles = {"qkv": (64, 128, 1), "out": (64, 128, 1), "attention": (128, 128)}
    layer = with_cache(with_rope(transformer_layer(model, 128, tiles=tiles)), cached=64, capacity=256)
    return chain_of(layer, ("attention_norm", "qkv", "attention", "out"))


def rounded(values):
    return to_float32(from_float32(np.ascontiguousarray(values, np.float32), "bf16"), "bf16")


def attend(work, q, k, v, scores_found, first_key=0):
    """As the kernel does: weights are rounded, their sum and the outputs' are not, outputs are."""
    out, keys, group = np.empty_like(q), slice(first_key, first_key + work.keys), work.heads // work.kv_heads
    for head in range(work.heads):
        own, shared = (slice(i * work.head_dim, (i + 1) * work.head_dim) for i in (head, head // group))
        scores = q[:, own] @ k[keys, shared].T * np.float32(work.scale)
        scores_found.append(scores.std())
        last = work.cached + np.arange(work.length)[:, None]
        scores = np.where(np.arange(work.keys) > last, -np.inf, scores)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, own] = rounded(weights) @ v[keys, shared] / weights.sum(axis=1, keepdims=True)
    return {"out": out}


def normed(work, read):
    """As the kernel does: the sum is rounded before it is squared."""
    total = rounded(read["x"] + read["residual"])
    mean = (total * total).mean(axis=1, keepdims=True)
    return {"sum": total, "out": total / np.sqrt(mean + work.epsilon) * read["weight"]}


def run_as_kernels(operands, first_key=0):
    """Each stage on what is stored, in the kernels' roundings; the scores' standard deviation."""
    found = []
    for stage in operands.pipeline.stages:
        read = {
            name: to_float32(operands.arrays[stage.name, name], matrix.dtype)
            for name, matrix in stage.tiled.operands.items()
        }
        if isinstance(stage.work, Attention):
            made = attend(stage.work, read["q"], read["k"], read["v"], found, first_key)
        elif isinstance(stage.work, Norm):
            made = normed(stage.work, read)
        else:
            made = gemm_reference.computed_outputs(stage.work, read)
        for name, values in made.items():
            operands.arrays[stage.name, name][...] = from_float32(np.ascontiguousarray(values), "bf16")
    return float(np.mean(found))


def judged(operands, first_key=0):
    """The errors of a run, and what the chain's roundings make of attention's by the derivation."""
    expected = references.reference(operands, "hopper")
    operands.poison()
    spread = run_as_kernels(operands, first_key)
    errors = references.relative_errors(operands, expected)
    q, k, v = (errors[f"qkv.{name}"] for name in ("c", "k_cache", "v_cache"))
    return errors, np.sqrt(spread**2 * (q**2 + k**2) + v**2 + 2 * ROUNDING**2)


def test_roundings_of_a_layer_add_up_as_variances_do_and_are_within_the_tolerance():
    operands = bound.random_operands(attention_half(), seed=19)
    errors, derived = judged(operands)
    assert references.is_right(operands, errors), errors
    assert errors["attention"] == pytest.approx(derived, rel=0.15)
    assert derived < 0.75 * TOLERANCE["bf16"]


def test_keys_of_the_next_row_are_far_beyond_what_roundings_explain():
    operands = bound.random_operands(attention_half(), seed=19)
    errors, derived = judged(operands, first_key=1)
    assert not references.is_right(operands, errors)
    assert errors["attention"] > 20 * derived


def test_tables_that_do_not_rotate_make_roundings_look_like_faults():
    operands = bound.random_operands(attention_half(), seed=19)
    table = operands.arrays["qkv", "rope"]
    cosines, sines = table[:, ::2], table[:, 1::2]
    assert np.allclose(cosines**2 + sines**2, 1, atol=1e-6)
    assert abs(float(cosines.mean())) < 0.05
    table[...] = np.random.default_rng(19).standard_normal(table.shape, dtype=np.float32)
    errors, derived = judged(operands)
    assert derived > TOLERANCE["bf16"]
    assert errors["attention"] == pytest.approx(derived, rel=0.15)
