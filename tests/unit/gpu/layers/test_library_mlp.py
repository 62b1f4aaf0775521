"""Every form of an MLP by cuBLAS, on a cuBLAS that reads host memory as documented."""

import dataclasses
import itertools
import threading

import numpy as np
import pytest
from pretended_cublas import ACTIVATED, WORKSPACE, PretendedStream, pretend, stored

from wavesim_gpu.cublas import cublaslt
from wavesim_gpu.driver.element_types import TOLERANCE, to_float32
from wavesim_gpu.layers import library
from wavesim_gpu.layers.description import GATED, MlpCall, MlpShape
from wavesim_gpu.layers.library import LibraryMlp

FORMS = [(word, None) for word in (None, "gelu", "gelu-exact", "relu", "silu")]
FORMS += list(itertools.product(("swiglu", "geglu", "geglu-exact"), ("separate", "packed")))
SIZES = [(1, 16, 24, 8), (7, 13, 11, 5), (5, 8, 3, 1), (3, 1, 40, 24)]


class Case:
    """Random operands of a shape in host memory, x and weights with gaps between their rows, out poisoned."""

    def __init__(self, shape, *, gap=0, seed=0):
        self.shape, self.rng = shape, np.random.default_rng(seed)
        m, k, n1, n2 = shape.m, shape.k, shape.n1, shape.n2
        self.x, x, x_stride = self.matrix(m, k, "row", gap)
        is_packed = shape.gate == "packed"
        self.w1, w1, w1_stride = self.matrix(k, shape.products if is_packed else n1, shape.w1_order, gap)
        self.w2, w2, w2_stride = self.matrix(n1, n2, shape.w2_order, gap)
        self.call = MlpCall(x, x_stride, w1, w1_stride, w2, w2_stride, 0, 0, 77, 0, False, 0)
        self.b1 = self.b2 = self.b_gate = self.w_gate = None
        if shape.has_b1:
            self.b1, self.call.b1, _ = self.matrix(1, shape.products if is_packed else n1, "row", 0)
        if shape.has_b2:
            self.b2, self.call.b2, _ = self.matrix(1, n2, "row", 0)
        if is_packed:
            self.w_gate, self.w1 = self.w1[:, :n1], self.w1[:, n1:]
            apart = 2 * n1 * (w1_stride if shape.w1_order == "column" else 1)
            self.call.w_gate, self.call.w1 = w1, w1 + apart
            if shape.has_b1:
                self.b_gate, self.b1 = self.b1[:, :n1], self.b1[:, n1:]
                self.call.b_gate, self.call.b1 = self.call.b1, self.call.b1 + 2 * n1
        elif shape.gate:
            self.w_gate, self.call.w_gate, _ = self.matrix(k, n1, shape.w1_order, gap)
            if shape.has_b1:
                self.b_gate, self.call.b_gate, _ = self.matrix(1, n1, "row", 0)
        self.memory = []

    def matrix(self, rows, columns, order, gap):
        """Its values as float32 (rows, columns), its address, and the stride that an `MlpCall` has."""
        height, width = (rows, columns) if order == "row" else (columns, rows)
        held = stored(self.rng.standard_normal((height, width + gap)) / np.sqrt(rows), self.shape.dtype)
        self.__dict__.setdefault("kept", []).append(held)
        values = to_float32(held[:, :width].copy(), self.shape.dtype)
        return values if order == "row" else values.T, held.ctypes.data, width + gap

    def give_memory(self, way):
        """Poisoned out and scratch, guarded by ones behind them."""
        shape = self.shape
        self.out = np.full(shape.m * shape.n2 + 8, 0x7FFF, np.uint16)
        self.out[-8:] = 1
        raw = np.full(way.scratch_bytes + 512, 0xFF, np.uint8)
        self.call.out, start = self.out.ctypes.data, -raw.ctypes.data % 256
        self.call.scratch = raw.ctypes.data + start
        self.behind = raw[start + way.scratch_bytes :]
        self.memory.append(raw)
        return self

    @property
    def result(self):
        assert (self.out[-8:] == 1).all()
        assert (self.behind == 0xFF).all()
        held = self.out[:-8].view(np.float16) if self.shape.dtype == "fp16" else self.out[:-8]
        return to_float32(held.reshape(self.shape.m, self.shape.n2), self.shape.dtype)

    @property
    def expected(self):
        def added(product, bias):
            return product if bias is None else product + bias

        values = added(self.x @ self.w1, self.b1)
        if self.shape.gate:
            gates = added(self.x @ self.w_gate, self.b_gate)
            values = ACTIVATED[GATED[self.shape.activation]](gates) * values
        else:
            values = ACTIVATED[self.shape.activation](values)
        return added(values @ self.w2, self.b2)

    @property
    def error(self):
        return np.linalg.norm(self.result - self.expected) / np.linalg.norm(self.expected)


@pytest.fixture
def pretended(monkeypatch):
    found = pretend(monkeypatch)
    monkeypatch.setattr(library, "workspace_bytes", lambda: WORKSPACE)
    return found


def tolerance(dtype):
    return 3 * TOLERANCE[dtype]  # few terms average less


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize(
    "orders", [("row", "row"), ("column", "row"), ("row", "column"), ("column", "column")]
)
@pytest.mark.parametrize(("activation", "gate"), FORMS)
def test_every_form_is_right(pretended, activation, gate, orders, dtype):
    for sizes, has_bias, gap in itertools.product(SIZES, (False, True), (0, 8, 3)):
        shape = MlpShape(*sizes, dtype, activation, gate, *orders, has_b1=has_bias, has_b2=has_bias)
        way = LibraryMlp(shape)
        case = Case(shape, gap=gap).give_memory(way)
        way.run(case.call)
        assert case.error < tolerance(dtype), (shape, gap)


def test_gelu_and_biases_are_fused_and_nothing_else_is_launched(pretended):
    cublas, launcher = pretended
    shape = MlpShape(16, 32, 64, 24, "bf16", "gelu", has_b1=True, has_b2=True)
    way = LibraryMlp(shape)
    case = Case(shape).give_memory(way)
    way.run(case.call)
    assert [product[-1] for product in cublas.products] == [("gelu", True), (None, True)]
    assert launcher.launches == []
    assert cublas.streams == [77, 77]


def test_what_cublas_does_not_fuse_is_launched_behind_it(monkeypatch):
    cublas, launcher = pretend(monkeypatch, epilogues=[(None, False)])
    monkeypatch.setattr(library, "workspace_bytes", lambda: WORKSPACE)
    shape = MlpShape(16, 32, 64, 24, "bf16", "gelu", has_b1=True, has_b2=True)
    way = LibraryMlp(shape)
    case = Case(shape).give_memory(way)
    way.run(case.call)
    assert case.error < tolerance("bf16")
    assert [product[-1] for product in cublas.products] == [(None, False)] * 2
    assert len(launcher.launches) == 2


def test_where_cublaslt_offers_nothing_cublas_multiplies(monkeypatch):
    cublas, _ = pretend(monkeypatch, offers=0)
    monkeypatch.setattr(library, "workspace_bytes", lambda: WORKSPACE)
    shape = MlpShape(7, 13, 11, 5, "fp16", "silu", w1_order="column", has_b1=True)
    way = LibraryMlp(shape)
    case = Case(shape).give_memory(way)
    way.run(case.call)
    assert case.error < tolerance("fp16")
    assert [product[0] for product in cublas.products] == ["gemm-ex"] * 2
    assert cublas.streams == [77, 77]


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_gates_and_values_that_are_neighbours_are_one_product(pretended, order, has_bias):
    cublas, launcher = pretended
    shape = MlpShape(16, 32, 64, 24, "bf16", "swiglu", "packed", w1_order=order, has_b1=has_bias)
    way = LibraryMlp(shape)
    case = Case(shape).give_memory(way)
    way.run(case.call)
    assert [product[1] for product in cublas.products] == [128, 24]
    assert len(launcher.launches) == 1
    separate = LibraryMlp(dataclasses.replace(shape, gate="separate"))
    case.give_memory(separate)
    separate.run(case.call)
    assert [product[1] for product in cublas.products[2:]] == [128, 24]
    assert case.error < tolerance("bf16")


def test_only_one_of_two_biases_is_right_too(pretended):
    for gate, absent in itertools.product(("packed", "separate"), ("b1", "b_gate")):
        shape = MlpShape(5, 8, 24, 16, "bf16", "geglu", gate, has_b1=True)
        way = LibraryMlp(shape)
        case = Case(shape).give_memory(way)
        setattr(case, absent, None)
        setattr(case.call, absent, 0)
        way.run(case.call)
        assert case.error < tolerance("bf16"), (gate, absent)


def test_long_rows_without_padding_are_one_row_to_the_element_wise_kernel(pretended):
    _, launcher = pretended
    shape = MlpShape(16, 32, 64, 24, "bf16", "swiglu", "separate")
    way = LibraryMlp(shape)
    case = Case(shape).give_memory(way)
    way.run(case.call)
    assert launcher.launches == [("elementwise_bf16", 1, 1)]
    assert launcher.streams == [77]


def test_stored_algorithms_count_while_the_library_is_the_same(pretended):
    cublas, _ = pretended
    shape = MlpShape(16, 32, 64, 24, "bf16", "relu")
    words = {"first": "02" + "00" * 63, "second": "gemm-ex"}
    for version, expected in (("130101", ["lt 2", "gemm-ex"]), ("130200", ["lt 1", "lt 1"])):
        cublas.products.clear()
        way = LibraryMlp(shape, words | {"version": version})
        case = Case(shape).give_memory(way)
        way.run(case.call)
        assert [product[0] for product in cublas.products] == expected
        assert case.error < tolerance("bf16")


@pytest.mark.parametrize("word", ["", "gemm", "zz" * 64, "09" + "00" * 63, "02" * 65])
def test_a_stored_algorithm_that_is_none_is_not_used(pretended, word):
    cublas, _ = pretended
    shape = MlpShape(16, 32, 64, 24, "bf16", "relu")
    way = LibraryMlp(shape, {"version": "130101", "first": word})
    case = Case(shape).give_memory(way)
    way.run(case.call)
    assert cublas.products[0][0] == "lt 1"


def test_threads_do_not_meet(pretended):
    shapes = [MlpShape(9, 16, 24, 8, "bf16", "swiglu", "separate"), MlpShape(9, 16, 24, 8, "fp16", "silu")]
    ways = [LibraryMlp(shape) for shape in shapes]
    errors = []

    def work(seed):
        for turn in range(10):
            shape, way = shapes[turn % 2], ways[turn % 2]
            case = Case(shape, seed=seed).give_memory(way)
            way.run(case.call)
            errors.append((case.error, tolerance(shape.dtype)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 40
    assert all(error < bound for error, bound in errors)


PAIRED = {"version": "130101", "pair": "02" + "00" * 63}


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("is_gate_first", [True, False])
@pytest.mark.parametrize("has_bias", [False, True])
def test_gates_and_values_that_lie_apart_are_one_launch_where_that_was_faster(
    pretended, order, is_gate_first, has_bias
):
    cublas, launcher = pretended
    shape = MlpShape(7, 32, 24, 16, "bf16", "swiglu", "separate", w1_order=order, has_b1=has_bias)
    way = LibraryMlp(shape, PAIRED)
    case = Case(shape, gap=8)
    if (case.call.w_gate < case.call.w1) != is_gate_first:
        case.w_gate, case.w1 = case.w1, case.w_gate
        case.call.w_gate, case.call.w1 = case.call.w1, case.call.w_gate
    case.give_memory(way)
    for _ in range(2):
        way.run(case.call)
        assert case.error < tolerance("bf16")
    assert [product[0] for product in cublas.products] == ["lt 2", "lt 1"] * 2
    assert len(launcher.launches) == 2


@pytest.mark.parametrize("word", ["", "09" + "00" * 63, "gemm-ex"])
def test_without_an_algorithm_for_one_launch_there_are_two(pretended, word):
    cublas, _ = pretended
    shape = MlpShape(7, 32, 24, 16, "bf16", "swiglu", "separate", has_b1=True)
    way = LibraryMlp(shape, PAIRED | {"pair": word})
    case = Case(shape).give_memory(way)
    way.run(case.call)
    assert case.error < tolerance("bf16")
    assert [product[0] for product in cublas.products] == ["lt 1"] * 3


def test_addresses_that_the_one_launch_was_not_timed_on_get_two(pretended):
    cublas, _ = pretended
    shape = MlpShape(7, 32, 24, 16, "bf16", "swiglu", "separate", w1_order="column")
    way = LibraryMlp(shape, PAIRED)
    case = Case(shape).give_memory(way)
    moved = np.zeros(case.kept[0].size + 1, case.kept[0].dtype)
    moved[1:] = case.kept[0].ravel()
    case.call.x = moved.ctypes.data + 2
    for _ in range(2):
        way.run(case.call)
        assert case.error < tolerance("bf16")
    assert [product[0] for product in cublas.products] == ["lt 1"] * 6


@pytest.mark.parametrize("pair_us", [7.9, 8.0])
def test_tuning_takes_one_launch_if_it_is_faster_than_two(pretended, monkeypatch, pair_us):
    times = iter([[4, 5, 6, 7], [9, pair_us, 9], [3, 2, 1, 4]])

    def interleaved(contenders, rounds):
        found = next(times)
        assert len(contenders) == len(found)
        return [[1000 * time] * rounds for time in found]

    stream = PretendedStream()
    monkeypatch.setattr(cublaslt, "require_cupy", lambda: stream.cupy)
    monkeypatch.setattr(cublaslt, "interleaved_ns", interleaved)
    shape = MlpShape(7, 32, 24, 16, "bf16", "swiglu", "separate")
    way = LibraryMlp(shape)
    case = Case(shape).give_memory(way)
    other = Case(shape, seed=1)
    others = [dataclasses.replace(case.call, w1=other.call.w1, w_gate=other.call.w_gate)]
    found = way.tuned(case.call, stream, others)
    words = {number: f"{number:02}" + "00" * 63 for number in (1, 2, 3)}
    pair = words[2] if pair_us < 7.96 else ""
    assert found == {"version": "130101", "first": words[1], "pair": pair, "second": words[3]}
    assert case.error < tolerance("bf16")
