"""Operands of any stages: where they lie, what is random, poisoned and put back, what is expected."""

import numpy as np
import pytest
from numpy_as_cupy import filled, numpy_as_cupy

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import View
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.work.rows import Norm
from wavesim_gpu.driver.element_types import from_float32, to_float32
from wavesim_gpu.kernels.gemm import reference as gemm_reference
from wavesim_gpu.run import operands as bound
from wavesim_gpu.run import random_inputs, references


@pytest.fixture(autouse=True)
def arrays(monkeypatch):
    """Arrays are NumPy's, and a norm is what its docstring says."""
    cupy = numpy_as_cupy()
    for module in (bound, random_inputs, references, gemm_reference):
        monkeypatch.setattr(module, "require_cupy", lambda: cupy)
    backends = references.backends_of

    def with_plain_norms(pipeline, default):
        found = backends(pipeline, default)
        return {name: PlainNorm() if "norm" in name else one for name, one in found.items()}

    monkeypatch.setattr(references, "backends_of", with_plain_norms)


class PlainNorm:
    def reference(self, work, arrays):
        total = arrays["x"] + arrays["residual"]
        mean = (total * total).mean(axis=1, keepdims=True)
        return {"sum": total, "out": total / np.sqrt(mean + work.epsilon) * arrays["weight"]}


def product(name, a, c, m=64):
    return Stage(name, Gemm(name, m, 64, 64, 64, 64, 32), buffers={"a": a, "c": c})


def layers(count=2):
    """Product, then norm of its sum with a residual that is updated in place; all in the same buffers."""
    stages, needs = [], []
    for i in range(count):
        up = product(f"up_{i}", "normal" if i else "x", "sums")
        norm = Stage(
            f"norm_{i}",
            Norm(f"norm_{i}", 64, 64, 16),
            buffers={"x": "sums", "residual": "h", "sum": "h", "out": "normal"},
        )
        if i:
            needs.append(Dependency(up[x, y], [stages[-1][0, :]]))
        needs.append(Dependency(norm[x, y], [up[0, 0]]))
        stages += [up, norm]
    return Pipeline("layers", stages, needs)


def run_by_hand(operands):
    """Computes the stages one after another on what is stored, as kernels would."""
    for stage in operands.pipeline.stages:
        own = {
            name: to_float32(operands.arrays[stage.name, name], matrix.dtype)
            for name, matrix in stage.tiled.operands.items()
        }
        made = PlainNorm().reference(stage.work, own) if "norm" in stage.name else {"c": own["a"] @ own["b"]}
        for name, values in made.items():
            operands.arrays[stage.name, name][...] = from_float32(values, "fp16")


def test_operands_in_one_buffer_are_views_of_it():
    parts = {"gate": View("joint"), "value": View("joint", 64)}
    stages = [product(name, "x", view) for name, view in parts.items()]
    down = Stage("down", Gemm("down", 64, 64, 128, 64, 64, 32), buffers={"a": "joint"})
    needs = [Dependency(down[x, y], [stage[:, y] for stage in stages])]
    operands = bound.random_operands(Pipeline("joined", [*stages, down], needs))
    places = {name: operands.places(name) for name in ("gate", "value", "down")}
    assert places["value"]["c"].address == places["gate"]["c"].address + 2 * 64
    assert places["down"]["a"] == places["gate"]["c"]
    assert {place.row_stride for place in (places["value"]["c"], places["down"]["a"])} == {128}
    assert places["gate"]["a"] == places["value"]["a"]


def test_what_a_run_makes_is_poisoned_and_what_it_updates_is_put_back():
    operands = bound.random_operands(layers(), seed=1)
    before = operands.arrays["norm_0", "residual"].copy()
    run_by_hand(operands)
    assert not np.array_equal(operands.arrays["norm_0", "residual"], before)
    operands.poison()
    assert np.array_equal(operands.arrays["norm_0", "residual"], before)
    for name in ("sums", "normal"):
        assert np.isnan(operands.storage[name]).all()
    for name in ("x", "h", "up_0.b"):
        assert not np.isnan(operands.storage[name]).any()


def test_the_reference_says_what_lies_in_reused_buffers_in_the_end():
    operands = bound.random_operands(layers(), seed=2)
    expected = references.reference(operands)
    assert set(expected) == {"up_0", "norm_0.out", "norm_0.sum", "up_1", "norm_1.out", "norm_1.sum"}
    assert np.array_equal(expected["up_0"], expected["up_1"])
    errors = references.relative_errors(operands, expected)
    assert not references.is_right(operands, errors)
    operands.poison()
    run_by_hand(operands)
    errors = references.relative_errors(operands, expected)
    assert references.is_right(operands, errors), errors
    # After a run the reference is the same: it begins with what was there before it.
    again = references.reference(operands)
    assert all(np.array_equal(again[name], values) for name, values in expected.items())


def test_one_wrong_element_too_large_or_nan_is_not_right():
    operands = bound.random_operands(layers(1), seed=3)
    expected = references.reference(operands)
    operands.poison()
    run_by_hand(operands)
    for wrong in (np.nan, 40.0):
        operands.arrays["norm_0", "out"][5, 7] = wrong
        assert not references.is_right(operands, references.relative_errors(operands, expected))


def test_given_arrays_become_their_buffers_or_are_copied_into_them():
    joint = Stage("down", Gemm("down", 64, 64, 128, 64, 64, 32), buffers={"a": View("wide", 0), "b": "b"})
    other = product("other", View("wide", 64), "c")
    pipeline = Pipeline("inputs", [joint, other], [])
    wide, weights = filled(np.ones((64, 128), np.float16)), filled(np.full((128, 64), 2, np.float16))
    ones = filled(np.ones((64, 64), np.float16))
    operands = bound.operands_of(
        pipeline, {("down", "a"): wide, ("down", "b"): weights, ("other", "b"): ones}
    )
    assert operands.storage["wide"] is wide
    assert float(operands.arrays["other", "a"].sum()) == 64 * 64


@pytest.mark.parametrize(
    ("arrays_given", "words"),
    [
        ({}, r"input of one is missing; give a CuPy array \(64, 64\) of float16"),
        ({"one": [1]}, "input of one is a list; give a CuPy array"),
        ({"one": np.zeros((64, 32), np.float16)}, r"input of one is \(64, 32\) of float16; it must be"),
        ({"one": np.zeros((64, 64), np.float32)}, r"input of one is .* of float32; it must be"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(arrays_given, words):
    pipeline = Pipeline("one", [Stage("one", Gemm("one", 64, 64, 64, 64, 64, 32))])
    given = {name: filled(a) if isinstance(a, np.ndarray) else a for name, a in arrays_given.items()}
    with pytest.raises(DescriptionError, match=words):
        bound.bind(pipeline, given, {})


def test_two_producers_of_one_a_need_named_buffers():
    gate, value = (Stage(name, Gemm(name, 64, 64, 64, 64, 64, 32)) for name in ("gate", "value"))
    down = Stage("down", Gemm("down", 64, 64, 64, 64, 64, 32))
    pipeline = Pipeline("two", [gate, value, down], [Dependency(down[x, y], [gate[:, y], value[:, y]])])
    with pytest.raises(DescriptionError, match="a GEMM reads A from one producer; 2 are named"):
        bound.random_operands(pipeline)


def test_a_plain_pair_has_the_operands_that_it_always_had():
    first, second = (Stage(name, Gemm(name, 64, 64, 64, 64, 64, 32)) for name in ("first", "second"))
    operands = bound.random_operands(Pipeline("pair", [first, second], [gemm_rows(first, second)]), seed=4)
    assert operands.a["second"].ctypes.data == operands.c["first"].ctypes.data
    addresses = operands.addresses("second", partials=16, tickets=32)
    assert (addresses.a, addresses.a_stride) == (operands.c["first"].ctypes.data, 64)
    assert (addresses.partials, addresses.tickets) == (16, 32)
    assert abs(float(operands.b["first"].astype(np.float32).std()) - 64**-0.5) < 0.01
