"""The host's side of WaveRNN's kernels: packed weights, launches, records, and the check of results."""

import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.labs.wavernn import LAYERS, OWN_CUT, WAYS, cycles_of
from wavesim_gpu.persistent import wavernn
from wavesim_gpu.persistent.reference import is_right, worst_errors
from wavesim_gpu.persistent.weights import (
    BATCH,
    BATCHES,
    SHAPES,
    WARPS,
    first_state,
    made_up_weights,
    packed_block,
)

TEXT = wavernn.SOURCE.read_text()
weights_of = cache(made_up_weights)


def multiplied(packed, tiles, inputs):
    """What `mma.sync` makes of packed weights: lanes of quarter q hold words of K of their row, and of B."""
    kind = inputs.dtype
    words = packed.reshape(WARPS, -1, 2, tiles, 8, 4, 2, 2, 4)  # ..., row, quarter, word, below, bytes
    read = np.ascontiguousarray(inputs).view(np.uint8).reshape(BATCH, WARPS, -1, 4, 2, 2, 4)
    a = words.view(kind).astype(np.float64)
    b = read.view(kind).astype(np.float64)
    # Sums over warps, chunks, halves, quarters and words: tile, below, row, sequence.
    return np.einsum("wchtrqixk,nwcqhik->txrn", a, b).reshape(tiles * 16, BATCH)


@pytest.mark.parametrize("dtype", ["fp16", "int8"])
@pytest.mark.parametrize(("rows", "k"), [(48, 896), (64, 448)])
def test_packed_weights_as_the_tensor_cores_take_them_give_the_product(dtype, rows, k):
    matrix = weights_of(dtype).matrices["r" if k == 896 else "o1"][:rows]
    inputs = first_state(dtype, 4)[0][:, :k]
    expected = matrix.astype(np.float64) @ inputs.astype(np.float64).T
    assert np.array_equal(multiplied(packed_block(matrix), rows // 16, inputs), expected)


@pytest.mark.parametrize("dtype", ["fp16", "int8"])
def test_all_blocks_are_packed_one_after_the_other(dtype):
    weights = weights_of(dtype)
    size = np.dtype(weights.matrices["r"].dtype).itemsize
    packed = weights.packed()
    assert packed.size == sum(rows * k for rows, k in SHAPES.values()) * size
    # The fourth block of R has the gates of units 48 to 63.
    r = weights.matrices["r"].reshape(3, 896, 896)[:, 48:64].reshape(48, 896)
    each = 48 * 896 * size
    assert np.array_equal(packed[3 * each : 4 * each], packed_block(r))
    assert np.array_equal(packed[-64 * 448 * size :], packed_block(weights.matrices["o4"][-64:]))


@pytest.mark.parametrize("way", [way for way in WAYS if way != "library"])
def test_launches_are_the_cycles_that_the_simulator_has(way):
    cycles, launches = cycles_of(way, 3), wavernn.ways_of(3)[way]
    assert sum(one.end - one.first for one in launches) == len(cycles)
    assert launches[0].is_persistent == (len(launches) == 1)
    assert launches[-1].is_pipelined == (way in ("pipeline", "both"))
    if way == "batch":
        assert [one.blocks for one in launches[:5]] == [OWN_CUT.blocks(layer) for layer in LAYERS]
        assert all(one.groups == BATCHES for one in launches)


def test_the_kernel_has_the_blocks_the_host_counts_and_records_of_its_sizes():
    before = re.search(r"blocks_before\[stages \+ 1\] = \{([\d, ]+)\}", TEXT)[1]
    assert tuple(map(int, before.split(","))) == wavernn.BLOCKS_BEFORE
    assert wavernn.BLOCKS_BEFORE[-1] == OWN_CUT.all_blocks
    sizes = {"Model": wavernn.MODEL, "Cycles": wavernn.CYCLES, "Progress": wavernn.PROGRESS}
    texts = TEXT + (wavernn.SOURCE.parent / "waiting.cuh").read_text()
    for name, record in sizes.items():
        assert int(re.search(rf"sizeof\({name}\) == (\d+)", texts)[1]) == record.itemsize


@cache
def right_outputs(dtype, steps=1):
    """Weights, and what a kernel without a fault would have written."""
    weights = weights_of(dtype)
    state = [first_state(weights.dtype)]
    kind, one = state[0].dtype, 127.0 if weights.dtype == "int8" else 1.0
    kept = (lambda v: np.clip(np.rint(v), -127, 127).astype(kind)) if one > 1 else (lambda v: v.astype(kind))
    m = {name: matrix.astype(np.float64) for name, matrix in weights.matrices.items()}
    found = {name: [] for name in ("inner0", "inner1", "logits0", "logits1")}
    for _ in range(steps):
        h = state[-1].astype(np.float64)
        u, r, e = np.split(h @ m["r"].T * weights.gate_scale, 3, axis=-1)
        u, r = 1 / (1 + np.exp(-u)), 1 / (1 + np.exp(-r))
        state.append(kept((u * h / one + (1 - u) * np.tanh(r * e)) * one))
        for side, (first, second) in enumerate((("o1", "o2"), ("o3", "o4"))):
            half = state[-1].astype(np.float64)[..., side * 448 : (side + 1) * 448]
            inner = kept(np.maximum(half @ m[first].T * weights.inner_scale, 0))
            found[f"inner{side}"].append(inner)
            found[f"logits{side}"].append(inner.astype(np.float64) @ m[second].T)
    return weights, {"state": np.stack(state), **{name: np.stack(values) for name, values in found.items()}}


@pytest.mark.parametrize("dtype", ["fp16", "int8"])
def test_what_was_computed_right_is_right(dtype):
    assert is_right(right_outputs(dtype)[0], worst_errors(np, *right_outputs(dtype)))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("int8", name) for name in ("state", "inner0", "inner1", "logits0", "logits1")] + [("fp16", "state")],
)
def test_one_wrong_value_anywhere_is_found(dtype, name):
    weights, outputs = right_outputs(dtype)
    broken = dict(outputs, **{name: outputs[name].copy()})
    broken[name][-1, 2, 5, 7] += np.array(4, broken[name].dtype)
    assert not is_right(weights, worst_errors(np, weights, broken))


def test_what_was_never_written_is_no_number_and_no_result():
    weights, outputs = right_outputs("fp16")
    outputs = outputs | {"inner1": outputs["inner1"].copy()}
    outputs["inner1"][0, 0, 0, 0] = np.nan
    assert worst_errors(np, weights, outputs)["inner1"] == float("inf")


def test_types_and_steps_that_cannot_be_are_refused_before_a_gpu_is_asked_for():
    with pytest.raises(DescriptionError, match="'fp16' or 'int8'"):
        wavernn.Wavernn("fp8")
    with pytest.raises(DescriptionError, match="steps is 0"):
        wavernn.Wavernn("fp16", 0)


def test_a_wait_that_was_given_up_is_said_in_words():
    stream = SimpleNamespace(synchronize=lambda: None)
    gave_up = SimpleNamespace(stream=stream, _progress=[0, 1], set_progress=lambda arrived: None)
    with pytest.raises(DeadlockError, match="WaveRNN's both: a block waited longer than 1 s"):
        wavernn.Wavernn.check(gave_up, "both")
