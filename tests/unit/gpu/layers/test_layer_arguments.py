"""What `mlp` makes of its arguments: layouts, and one line for each way to get them wrong."""

from types import SimpleNamespace

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.driver import tensors
from wavesim_gpu.driver.tensors import Tensor, dense_strides, tensor_of
from wavesim_gpu.layers.arguments import layout_of

_next = iter(range(1 << 20, 1 << 40, 1 << 24))


def array(*shape, strides=None, dtype="fp16", device=0, address=None, library="torch"):
    place = next(_next) if address is None else address
    return Tensor(None, place, shape, dtype, device, library, strides or dense_strides(shape))


def given(**changes):
    """x (6, 64), w1 (64, 128), w2 (128, 32)."""
    found = {"x": array(6, 64), "w1": array(64, 128), "w2": array(128, 32)} | changes
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def column(rows, columns):
    return array(rows, columns, strides=(1, rows))


def test_a_plain_mlp():
    layout = layout_of(given(), "gelu")
    shape = layout.shape
    assert (shape.m, shape.k, shape.n1, shape.n2) == (6, 64, 128, 32)
    assert (shape.dtype, shape.activation, shape.gate) == ("fp16", "gelu", None)
    assert (shape.w1_order, shape.w2_order, shape.has_b1, shape.has_b2) == ("row", "row", False, False)
    assert (layout.x_stride, layout.w1_stride, layout.w2_stride) == (64, 128, 32)
    assert (layout.out_shape, layout.copies_x, layout.has_aligned_rows) == ((6, 32), False, True)


def test_weights_of_linear_layers_are_column_major():
    layout = layout_of(given(w1=column(64, 128), w2=column(128, 32), b1=array(128), b2=array(32)), "relu")
    assert (layout.shape.w1_order, layout.shape.w2_order) == ("column", "column")
    assert (layout.w1_stride, layout.w2_stride) == (64, 128)
    assert layout.shape.has_b1
    assert layout.shape.has_b2


@pytest.mark.parametrize("order", ["row", "column"])
def test_a_packed_weight_has_gates_first_and_values_at_an_offset(order):
    w1 = array(64, 256) if order == "row" else column(64, 256)
    layout = layout_of(given(w1=w1, b1=array(256)), "swiglu")
    assert (layout.shape.n1, layout.shape.gate, layout.shape.products) == (128, "packed", 256)
    assert layout.values_offset == (256 if order == "row" else 128 * 64 * 2)
    assert layout.values_bias_offset == 256
    assert layout.w1_stride == (256 if order == "row" else 64)


def test_a_separate_gate_with_biases():
    layout = layout_of(given(gate=array(64, 128), b1=array(128), b_gate=array(128)), "geglu-exact")
    assert (layout.shape.n1, layout.shape.gate, layout.values_offset) == (128, "separate", 0)


@pytest.mark.parametrize(
    ("shape", "strides", "stride", "copies"),
    [
        ((3, 64), (2**31 - 1, 1), 2**31 - 1, False),
        ((3, 64), (2**32 + 64, 1), 64, True),
        ((64,), (1,), 64, False),
        ((1, 64), (7, 1), 64, False),
        ((2, 3, 64), (192, 64, 1), 64, False),
        ((2, 3, 64), (300, 100, 1), 100, False),
        ((2, 1, 3, 64), (300, 5, 100, 1), 100, False),
        ((2, 3, 64), (400, 100, 1), 64, True),  # the middle of a longer sequence
        ((3, 2, 64), (64, 192, 1), 64, True),  # sides exchanged
        ((6, 64), (1, 6), 64, True),
        ((6, 64), (0, 1), 64, True),  # one row, expanded
        ((6, 64), (128, 2), 64, True),
    ],
)
def test_rows_of_x_have_a_stride_in_common_or_are_copied(shape, strides, stride, copies):
    layout = layout_of(given(x=array(*shape, strides=strides)), None)
    assert (layout.x_stride, layout.copies_x) == (stride, copies)
    assert layout.out_shape == (*shape[:-1], 32)
    assert layout.shape.m == int(np.prod(shape[:-1]))


def test_no_rows_are_an_empty_result():
    layout = layout_of(given(x=array(0, 64)), None)
    assert layout.is_empty
    assert layout.out_shape == (0, 32)


@pytest.mark.parametrize(
    "changes",
    [
        {"x": array(6, 64, strides=(65, 1))},
        {"w1": array(64, 128, strides=(129, 1))},
        {"w2": array(128, 33)},
        {"x": array(6, 63), "w1": column(63, 128)},
    ],
    ids=["x", "w1", "n2", "k"],
)
def test_rows_that_begin_at_odd_places_are_told(changes):
    assert not layout_of(given(**changes), None).has_aligned_rows


@pytest.mark.parametrize(
    ("changes", "activation", "message"),
    [
        ({}, "tanh", "activation is 'tanh'; known are None, 'gelu'"),
        ({}, 3, "activation is 3; known are"),
        ({}, ["gelu"], "activation is .*; known are"),
        ({"gate": array(64, 128)}, "gelu", "gate is given with activation 'gelu'; it needs a gated one"),
        ({"gate": array(64, 128)}, None, "gate is given with activation None"),
        ({"gate": array(64, 64)}, "swiglu", r"gate has shape \(64, 64\); it must be \(64, 128\)"),
        ({"gate": column(64, 128)}, "swiglu", r"gate has strides \(1, 64\); they must be \(128, 1\)"),
        ({"w1": array(64, 127), "w2": array(63, 32)}, "swiglu", "w1 has 127 columns; .* an even number"),
        ({"w1": array(128, 64)}, None, r"w1 has 128 rows; it must have 64, the last side of x.*w1.t\(\)"),
        ({"w2": array(32, 128)}, None, "w2 has 32 rows; it must have 128, the columns of w1"),
        ({"w1": array(64)}, None, r"w1 has shape \(64,\); it must be a matrix"),
        ({"w1": array(64, 0), "w2": array(0, 32)}, None, r"w1 has shape \(64, 0\); it must be a matrix"),
        ({"w2": array(128, 0)}, None, r"w2 has shape \(128, 0\)"),
        ({"x": array()}, None, "x has no sides"),
        ({"x": array(6, 64, dtype="bf16")}, None, "w1 is of fp16, x of bf16; they must be the same"),
        ({"w2": array(128, 32, device=1)}, None, "w2 is on GPU 1 and x on GPU 0"),
        ({"w2": array(128, 32, library="cupy")}, None, "w2 is not of x's library"),
        ({"w1": array(64, 128, strides=(256, 2))}, None, r"w1 has strides \(256, 2\); .* pass a copy"),
        ({"w1": array(64, 128, strides=(0, 1))}, None, r"w1 has strides \(0, 1\)"),
        ({"w1": array(64, 128, strides=(100, 1))}, None, r"w1 has strides \(100, 1\)"),
        (
            {"w1": array(64, 128, strides=(2**32 + 128, 1))},
            None,
            "strides of at most 2,147,483,647: pass a copy",
        ),
        ({"w2": array(128, 32, strides=(1, 2**31))}, None, "w2 has strides"),
        ({"b1": array(64)}, None, r"b1 has shape \(64,\) .* must be \(128,\)"),
        ({"b2": array(32, 1)}, None, r"b2 has shape \(32, 1\)"),
        ({"b2": array(32, strides=(2,))}, None, r"b2 has shape .*strides \(2,\)"),
        ({"b_gate": array(128)}, None, "b_gate is given without a gate of its own; it needs a gate"),
        ({"b_gate": array(128), "w2": array(64, 32)}, "swiglu", "b_gate .*; b1 holds both, gates first"),
        ({"gate": array(64, 128), "b1": array(128)}, "swiglu", "b_gate is missing; give both"),
        ({"gate": array(64, 128), "b_gate": array(128)}, "swiglu", "b1 is missing; give both"),
        ({"out": array(6, 33)}, None, r"out has shape \(6, 33\) .* must be \(6, 32\)"),
        ({"out": array(6, 32, strides=(64, 1))}, None, r"out has .*strides \(64, 1\)"),
        ({"out": array(6, 32, dtype="bf16")}, None, "out is of bf16, x of fp16"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(changes, activation, message):
    with pytest.raises(DescriptionError, match=message) as caught:
        layout_of(given(**changes), activation)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["x", "w1", "w2", "b1", "b2"])
def test_out_that_overlaps_what_is_read_is_refused_and_a_neighbour_is_not(name):
    arrays = given(b1=array(128), b2=array(32))
    read = arrays[name]
    for address in (read.address, read.end - 2, read.address - 2 * 6 * 32 + 2):
        with pytest.raises(DescriptionError, match=f"out overlaps {name} in memory"):
            layout_of(arrays | {"out": array(6, 32, address=address)}, None)
    for address in (read.end, read.address - 2 * 6 * 32):
        layout_of(arrays | {"out": array(6, 32, address=address)}, None)


class FakeTorchTensor:
    """As much of PyTorch's tensor as is looked at."""

    def __init__(self, **changes):
        self.device, self.dtype, self.layout = SimpleNamespace(type="cuda", index=1), "torch.bfloat16", None
        self.shape, self.layout = (4, 8), "torch.strided"
        self.__dict__.update(changes)

    def stride(self):
        return (8, 1)

    def data_ptr(self):
        return 4096


Plain = type("Tensor", (FakeTorchTensor,), {"__module__": "torch"})
Quantised = type("AffineQuantizedTensor", (Plain,), {"__module__": "torchao.dtypes"})


def test_a_torch_tensor_is_its_address_strides_type_and_device():
    assert tensor_of("x", Plain()).device == 1
    assert tensor_of("x", Plain()).strides == (8, 1)
    assert tensor_of("x", Plain()).dtype == "bf16"


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (Plain(device=SimpleNamespace(type="cpu", index=None)), r"x is on .*cpu.*; .*x.cuda\(\)"),
        (Plain(dtype="torch.float32"), "x is of float32; .* cast it, or call under autocast"),
        (Plain(dtype="torch.int8"), "x is of int8; .* dequantise it first"),
        (Plain(dtype="torch.qint8"), "x is of qint8; .* dequantise it first"),
        (Plain(dtype="torch.float8_e4m3fn"), "x is of float8_e4m3fn; .* dequantise it first"),
        (Plain(layout="torch.sparse_coo"), r"x has layout torch.sparse_coo; .*x.to_dense\(\)"),
        (Quantised(), "x is a torchao.dtypes.AffineQuantizedTensor, which .* dequantise"),
    ],
)
def test_a_torch_tensor_that_cannot_be_read_is_refused_with_the_fix(tensor, message):
    with pytest.raises(DescriptionError, match=message):
        tensor_of("x", tensor)


def test_a_nothing_is_no_array(monkeypatch):
    monkeypatch.setattr(tensors, "require_cupy", lambda: None)
    with pytest.raises(DescriptionError, match="w1 is a NoneType; give an array on a GPU"):
        tensor_of("w1", None)
