"""MLPs by cuBLAS, and the element-wise kernel: every form, at odd sizes, strides and addresses."""

import itertools
import threading
from dataclasses import replace

import pytest

from wavesim_gpu.driver.element_types import element_type, from_float32, to_float32
from wavesim_gpu.kernels.elementwise.elementwise import Elementwise
from wavesim_gpu.layers.description import GATED, MlpCall, MlpShape
from wavesim_gpu.layers.library import LibraryMlp

pytestmark = pytest.mark.gpu

FORMS = [(word, None) for word in (None, "gelu", "gelu-exact", "relu", "silu")]
FORMS += list(itertools.product(("swiglu", "geglu", "geglu-exact"), ("separate", "packed")))
SIZES = [(1, 256, 384, 128), (7, 251, 333, 129), (333, 512, 1024, 257), (333, 129, 131, 64)]
ORDERS = [("row", "row"), ("column", "column"), ("column", "row")]
GUARD = 64  # elements behind each output
TOLERANCE = {"fp16": 2e-3, "bf16": 1e-2}  # cuBLAS may split K and add up what it has rounded


def activated(cupy, x, word):
    if word is None:
        return x
    if word == "relu":
        return cupy.maximum(x, 0)
    if word == "silu":
        return x / (1 + cupy.exp(-x))
    if word == "gelu":
        return 0.5 * x * (1 + cupy.tanh((2 / cupy.pi) ** 0.5 * (x + 0.044715 * x**3)))
    from cupyx.scipy.special import erf

    return 0.5 * x * (1 + erf(x / 2**0.5))


class Case:
    """Random operands of a shape; x, weights and biases begin `offset` elements behind an aligned address."""

    def __init__(self, cupy, shape, *, seed=0, gap=0, offset=0):
        self.cupy, self.shape, self.offset = cupy, shape, offset
        self.random = cupy.random.RandomState(seed)
        self.kept = []
        m, k, n1, n2 = shape.m, shape.k, shape.n1, shape.n2
        columns = shape.products if shape.gate == "packed" else n1
        self.x, x, x_stride = self.matrix(m, k, "row", gap, scale=1.0)
        self.w1, w1, w1_stride = self.matrix(k, columns, shape.w1_order, gap)
        self.w2, w2, w2_stride = self.matrix(n1, n2, shape.w2_order, gap)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.call = MlpCall(
            x, x_stride, w1, w1_stride, w2, w2_stride, 0, 0, self.stream.ptr, 0, is_captured=False, limit_ns=0
        )
        self.b1 = self.b2 = self.b_gate = self.w_gate = None
        if shape.has_b1:
            self.b1, self.call.b1, _ = self.matrix(1, columns, "row", 0)
        if shape.has_b2:
            self.b2, self.call.b2, _ = self.matrix(1, n2, "row", 0)
        if shape.gate == "packed":
            self.split(w1, w1_stride)
        elif shape.gate:
            self.w_gate, self.call.w_gate, _ = self.matrix(k, n1, shape.w1_order, gap)
            if shape.has_b1:
                self.b_gate, self.call.b_gate, _ = self.matrix(1, n1, "row", 0)

    def split(self, w1, w1_stride):
        n1 = self.shape.n1
        self.w_gate, self.w1 = self.w1[:, :n1], self.w1[:, n1:]
        apart = 2 * n1 * (w1_stride if self.shape.w1_order == "column" else 1)
        self.call.w_gate, self.call.w1 = w1, w1 + apart
        if self.shape.has_b1:
            self.b_gate, self.b1 = self.b1[:, :n1], self.b1[:, n1:]
            self.call.b_gate, self.call.b1 = self.call.b1, self.call.b1 + 2 * n1

    def matrix(self, rows, columns, order, gap, scale=None):
        """Its values as float32 (rows, columns), its address, and the stride that an `MlpCall` has."""
        height, width = (rows, columns) if order == "row" else (columns, rows)
        drawn = self.random.standard_normal((height, width + gap), dtype="float32")
        rounded = from_float32(drawn * self.cupy.float32(scale or rows**-0.5), self.shape.dtype)
        held = self.cupy.empty(rounded.size + self.offset, rounded.dtype)
        held[self.offset :] = rounded.ravel()
        self.kept.append(held)
        values = to_float32(rounded[:, :width], self.shape.dtype)
        address = int(held.data.ptr) + 2 * self.offset
        return values if order == "row" else values.T, address, width + gap

    def give_memory(self, way):
        """Poisoned out and scratch."""
        cupy, shape = self.cupy, self.shape
        self.out = cupy.full(shape.m * shape.n2 + GUARD, 0x7FFF, cupy.uint16)
        self.scratch = cupy.full(way.scratch_bytes + 2 * GUARD, 0xFF, cupy.uint8)
        self.way_bytes = way.scratch_bytes
        self.call.out, self.call.scratch = int(self.out.data.ptr), int(self.scratch.data.ptr)
        cupy.cuda.Device().synchronize()
        return self

    @property
    def result(self):
        self.stream.synchronize()
        assert (self.out[-GUARD:] == 0x7FFF).all(), "written behind the result"
        assert (self.scratch[self.way_bytes :] == 0xFF).all(), "written behind the scratch memory"
        held = self.out[:-GUARD].view(element_type(self.shape.dtype))
        return to_float32(held.reshape(self.shape.m, self.shape.n2), self.shape.dtype)

    @property
    def expected(self):
        cupy, shape = self.cupy, self.shape

        def added(product, bias):
            return product if bias is None else product + bias

        values = added(self.x @ self.w1, self.b1)
        if shape.gate:
            gates = added(self.x @ self.w_gate, self.b_gate)
            values = activated(cupy, gates, GATED[shape.activation]) * values
        else:
            values = activated(cupy, values, shape.activation)
        return added(values @ self.w2, self.b2)

    @property
    def is_right(self):
        expected = self.expected
        error = self.cupy.linalg.norm(self.result - expected) / self.cupy.linalg.norm(expected)
        return float(error) <= TOLERANCE[self.shape.dtype]


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("activation", "gate"), FORMS)
def test_every_form_is_right(cupy, activation, gate, sizes, dtype):
    for orders, has_bias, (gap, offset) in itertools.product(
        ORDERS, (False, True), ((0, 0), (8, 8), (3, 0), (0, 1))
    ):
        shape = MlpShape(*sizes, dtype, activation, gate, *orders, has_b1=has_bias, has_b2=has_bias)
        way = LibraryMlp(shape)
        case = Case(cupy, shape, gap=gap, offset=offset).give_memory(way)
        way.run(case.call)
        assert case.is_right, (orders, has_bias, gap, offset)


@pytest.mark.parametrize("algorithm", ["gemm-ex"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_algorithm_that_cublas_chooses_is_right_too(cupy, sizes, algorithm):
    from wavesim_gpu.cublas.cublas_library import library_version

    stored = {"version": library_version(), "first": algorithm, "both": algorithm, "second": algorithm}
    for activation, gate in (("gelu", None), ("swiglu", "separate"), ("swiglu", "packed")):
        for order in ("row", "column"):
            shape = MlpShape(*sizes, "bf16", activation, gate, order, order, has_b1=True, has_b2=True)
            way = LibraryMlp(shape, stored)
            case = Case(cupy, shape).give_memory(way)
            way.run(case.call)
            assert case.is_right, shape


@pytest.mark.parametrize(
    ("activation", "gate"), [("gelu", None), ("swiglu", "separate"), ("geglu", "packed")]
)
def test_every_algorithm_that_is_offered_is_right(cupy, activation, gate):
    shape = MlpShape(333, 512, 1024, 256, "bf16", activation, gate, "column", "column", has_b1=True)
    way = LibraryMlp(shape)
    case = Case(cupy, shape).give_memory(way)
    other = Case(cupy, shape, seed=1)
    stored = way.tuned(
        case.call, case.stream, [replace(case.call, w1=other.call.w1, w_gate=other.call.w_gate)]
    )
    assert case.is_right
    case.give_memory(way)
    LibraryMlp(shape, stored).run(case.call)
    assert case.is_right
    for word in way._second.algorithms(place_of(way, case)):
        case.give_memory(way)
        LibraryMlp(shape, stored | {"second": word}).run(case.call)
        assert case.is_right, word


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("m", [1, 16, 333])
def test_gates_and_values_in_one_launch_are_right(cupy, m, order):
    from wavesim_gpu.cublas.cublas_library import library_version

    shape = MlpShape(m, 512, 1024, 256, "bf16", "swiglu", "separate", order, order, has_b1=True)
    way = LibraryMlp(shape)
    for seed in range(4):  # gates before and behind the values, at several distances
        case = Case(cupy, shape, seed=seed).give_memory(way)
        low = min(case.call.w_gate, case.call.w1)
        step = abs(case.call.w1 - case.call.w_gate) // 2
        matrices = (
            (case.call.x, case.call.x_stride),
            (low, case.call.w1_stride),
            step,
            (case.call.scratch, 1024),
        )
        words = way._first.algorithms(way._pair.place(*matrices))
        for word in words:
            paired = LibraryMlp(shape, {"version": library_version(), "pair": word})
            case.give_memory(paired)
            paired.run(case.call)
            assert case.is_right, word


def place_of(way, case):
    """The second product's."""
    from wavesim_gpu.cublas.cublaslt import Place

    stride = way._both_stride if case.shape.gate == "packed" else way._stride
    return Place(stride, case.call.w2_stride, case.shape.n2, 0, 256)


@pytest.mark.parametrize(("activation", "gate"), [("gelu", None), ("swiglu", "separate")])
@pytest.mark.parametrize("is_first", [True, False], ids=["the-first-call", "a-later-call"])
def test_a_captured_call_is_right_on_new_values(cupy, activation, gate, is_first):
    # A size of its own, so that its kernels have not been loaded by another test where it is the first.
    shape = MlpShape(80 + is_first, 512, 768, 256, "fp16", activation, gate, has_b1=True)
    way = LibraryMlp(shape)
    case = Case(cupy, shape).give_memory(way)
    if not is_first:
        way.run(case.call)
        case.stream.synchronize()
    with case.stream:
        case.stream.begin_capture()
        way.run(case.call)
        graph = case.stream.end_capture()
    for _ in range(2):
        case.out.fill(0x7FFF)
        cupy.cuda.Device().synchronize()
        graph.launch(case.stream)
        assert case.is_right


def test_threads_on_streams_of_their_own_do_not_meet(cupy):
    shapes = [
        MlpShape(65, 256, 512, 128, "bf16", "swiglu", "separate"),
        MlpShape(3, 256, 512, 128, "bf16", "silu"),
    ]
    ways = [LibraryMlp(shape) for shape in shapes]
    verdicts, device = [], cupy.cuda.Device()

    def work(seed):
        with device:
            for turn in range(20):
                way = ways[turn % 2]
                case = Case(cupy, shapes[turn % 2], seed=seed).give_memory(way)
                for _ in range(5):
                    way.run(case.call)
                verdicts.append(case.is_right)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [True] * 40


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu-exact", "silu"])
@pytest.mark.parametrize("to", ["beside", "value", "gate"])
def test_the_element_wise_kernel_is_right_in_place_and_beside(cupy, to, activation, dtype):
    shapes = ((1, 1), (5, 8), (37, 132), (70_001, 9), (3, 5000))  # more rows than a grid has too
    for size, gap, offset, has_bias in itertools.product(shapes, (0, 4, 8), (0, 1), (False, True)):
        error = error_of_launch(cupy, size, gap, offset, to, activation, dtype, has_bias)
        assert error < TOLERANCE[dtype] / 3, (size, gap, offset, has_bias)


def error_of_launch(cupy, size, gap, offset, to, activation, dtype, has_bias):
    """Of one launch on random matrices (rows, columns) with `gap` elements between rows."""
    (rows, columns), random = size, cupy.random.RandomState(3)
    stride, is_gated = columns + gap, to != "value"

    def drawn(count, scale):
        return from_float32(random.standard_normal(count, dtype="float32") * cupy.float32(scale), dtype)

    def matrix(array):
        return array[offset:].reshape(rows, stride)

    held = {name: drawn(rows * stride + offset, 4) for name in ("gate", "value")}
    held["beside"] = cupy.full(rows * stride + offset, 0x7FFF, "uint16").view(element_type(dtype))
    biases = [drawn(columns, 1) for _ in range(2)]
    gate, value = (to_float32(matrix(held[name])[:, :columns], dtype) for name in ("gate", "value"))
    between = matrix(held[to])[:, columns:].copy()
    b_gate, b_value = (to_float32(one, dtype) if has_bias else 0 for one in biases)
    if is_gated:
        expected = activated(cupy, gate + b_gate, activation) * (value + b_value)
    else:
        expected = activated(cupy, value + b_value, activation)
    gate_at, value_at, out_at = (int(held[name].data.ptr) + 2 * offset for name in ("gate", "value", to))
    at = [int(one.data.ptr) if has_bias else 0 for one in biases]
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    kernel = Elementwise(dtype, activation, rows, columns, (stride, stride, stride))
    kernel.run(gate_at * is_gated, value_at, out_at, at[0] * is_gated, at[1], int(stream.ptr))
    stream.synchronize()
    assert (matrix(held[to])[:, columns:].view("uint16") == between.view("uint16")).all()
    made = to_float32(matrix(held[to])[:, :columns], dtype)
    return float(cupy.linalg.norm(made - expected) / (cupy.linalg.norm(expected) + 1e-9))
