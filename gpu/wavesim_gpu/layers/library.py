"""An MLP by cuBLAS: two products with what they fuse, and our element-wise kernel for what they do not.

Example: GPT-2's MLP is two launches, GELU and both biases in cuBLASLt's epilogues. Llama's is four: products
for gates and for values, SiLU(gate) * values in the gates' place, and the second product. Where gates and
values are halves of one matrix it is three. It takes every shape, on every GPU that has cuBLAS.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wavesim_gpu.cublas.cublas_library import library_version, workspace_bytes
from wavesim_gpu.cublas.cublaslt import Matrix, Product
from wavesim_gpu.cublas.product_pair import ProductPair
from wavesim_gpu.kernels.elementwise.elementwise import Elementwise
from wavesim_gpu.layers.description import GATED, MlpCall, MlpShape

ELEMENT_BYTES = 2
ROW_UNIT = 8  # elements in 16 bytes: rows of the intermediate begin at multiples of them
SCRATCH_UNIT = 256  # bytes: where the parts of the scratch memory begin


class LibraryMlp:
    """One MLP shape by cuBLAS on the current GPU, launched for any call of it, from any thread.

    `stored` is what `tuned` returned before; it counts while cuBLASLt is the same. Raises `DeviceError` where
    cuBLAS cannot be loaded.
    """

    label = "cublaslt"

    def __init__(self, shape: MlpShape, stored: Mapping[str, str] | None = None) -> None:
        self.shape = shape
        words = dict(stored or {})
        if words.get("version") != library_version():
            words = {}
        m, n1, order = shape.m, shape.n1, shape.w1_order
        self._second = Product(m, shape.n2, n1, shape.dtype, shape.w2_order, None, words.get("second"))
        activation = None if shape.gate else shape.activation
        self._first = Product(m, n1, shape.k, shape.dtype, order, activation, words.get("first"))
        # From row to row of the intermediate, and from its gates to its values where they lie apart.
        self._stride = _rounded(n1, ROW_UNIT)
        self._middle_bytes = _rounded(m * self._stride * ELEMENT_BYTES, SCRATCH_UNIT)
        middle_bytes = self._middle_bytes
        if shape.gate:
            assert shape.activation is not None
            self._both = Product(m, 2 * n1, shape.k, shape.dtype, order, None, words.get("both"))
            self._both_stride = _rounded(2 * n1, ROW_UNIT)
            self._pair = ProductPair(self._first, middle_bytes // ELEMENT_BYTES, words.get("pair", ""))
            self._gated, self._both_gated = (
                Elementwise(shape.dtype, GATED[shape.activation], m, n1, (stride, stride, stride))
                for stride in (self._stride, self._both_stride)
            )
            both_bytes = _rounded(m * self._both_stride * ELEMENT_BYTES, SCRATCH_UNIT)
            middle_bytes = max(2 * middle_bytes, both_bytes)
        self._workspace = middle_bytes
        self.scratch_bytes = middle_bytes + workspace_bytes()

    def run(self, call: MlpCall) -> None:
        """Launches it on the call's stream; capturable. `out` is (m, n2), row-major and dense."""
        x, middle, stream = (call.x, call.x_stride), call.scratch, call.stream
        workspace = middle + self._workspace
        stride = self._stride
        if not self.shape.gate:
            weights = call.w1, call.w1_stride
            self._first.launch(x, weights, (middle, stride), call.b1, workspace, stream)
        elif self._is_one_matrix(call):
            stride = self._both_stride
            weights = call.w_gate, call.w1_stride
            self._both.launch(x, weights, (middle, stride), call.b_gate, workspace, stream)
            values = middle + self.shape.n1 * ELEMENT_BYTES
            self._both_gated.run(middle, values, middle, 0, 0, stream)
        else:
            self._gate_apart(call, x, workspace)
        out = call.out, self.shape.n2
        self._second.launch((middle, stride), (call.w2, call.w2_stride), out, call.b2, workspace, stream)

    def tuned(self, call: MlpCall, stream: Any, others: Sequence[MlpCall] = ()) -> dict[str, str]:
        """Times cuBLAS's algorithms on a call, keeps the fastest and returns them, to be stored.

        `others` are like the call but for their weights, which are used in turns: so that none finds its own
        in the L2. `stream` is CuPy's, that of the call; nothing may be captured on it. The call's result is
        there afterwards. Takes about half a second.
        """
        self.run(call)
        calls = (call, *others)
        result = self._first_tuned(calls, stream)
        stride = self._both_stride if "both" in result else self._stride
        middle, out = (call.scratch, stride), (call.out, self.shape.n2)
        seconds, workspace = [(call.w2, call.w2_stride) for call in calls], call.scratch + self._workspace
        result["second"] = self._second.tune(middle, seconds, out, call.b2, workspace, stream)
        self.run(call)
        return {"version": library_version(), **result}

    def _first_tuned(self, calls: Sequence[MlpCall], stream: Any) -> dict[str, str]:
        """The algorithms of the first product, or of gates and values in whichever way is faster."""
        call, has_gate = calls[0], bool(self.shape.gate)
        x, workspace = (call.x, call.x_stride), call.scratch + self._workspace
        bias = call.b_gate if has_gate else call.b1
        weights = [(call.w_gate if has_gate else call.w1, call.w1_stride) for call in calls]
        if has_gate and all(self._is_one_matrix(call) for call in calls):
            middle = call.scratch, self._both_stride
            return {"both": self._both.tune(x, weights, middle, bias, workspace, stream)}
        middle = call.scratch, self._stride
        times = self._first.timed(x, weights, middle, bias, workspace, stream)
        self._first.choose(best := min(times, key=times.__getitem__))
        if not has_gate:
            return {"first": best}
        turns = []
        for other in calls:
            low, step = _low_and_step(other)
            place = self._pair.place(x, (low, other.w1_stride), step, middle)
            turns.append((place, (call.x, low, call.scratch, workspace)))
        return {"first": best, "pair": self._pair.tune(turns, 2 * times[best], stream)}

    def _gate_apart(self, call: MlpCall, x: Matrix, workspace: int) -> None:
        """Gates and values of two matrices, then the gate: by one launch where that was timed faster."""
        first, second, stream = call.scratch, call.scratch + self._middle_bytes, call.stream
        if self._pair.algorithm:
            low, step = _low_and_step(call)
            gates, values = (first, second) if low == call.w_gate else (second, first)
            weights, to = (low, call.w1_stride), (first, self._stride)
            if self._pair.launch(x, weights, step, to, workspace, stream):
                self._gated.run(gates, values, first, call.b_gate, call.b1, stream)
                return
        for weight, bias, out in ((call.w_gate, call.b_gate, first), (call.w1, call.b1, second)):
            self._first.launch(x, (weight, call.w1_stride), (out, self._stride), bias, workspace, stream)
        self._gated.run(first, second, first, 0, 0, stream)

    def _is_one_matrix(self, call: MlpCall) -> bool:
        """Whether gates and values are neighbours, weights and biases alike: then one product makes both."""
        half_bytes, stride = self.shape.n1 * ELEMENT_BYTES, call.w1_stride
        if self.shape.w1_order == "column":
            half_bytes *= stride
        elif stride < 2 * self.shape.n1:
            return False
        bias_bytes = self.shape.n1 * ELEMENT_BYTES if call.b_gate else 0
        return call.w1 - call.w_gate == half_bytes and call.b1 - call.b_gate == bias_bytes


def _low_and_step(call: MlpCall) -> tuple[int, int]:
    """The address of the lower one of both weights, and from it to the other in elements."""
    return min(call.w_gate, call.w1), abs(call.w1 - call.w_gate) // ELEMENT_BYTES


def _rounded(value: int, unit: int) -> int:
    """Up to a multiple of the unit."""
    return -(-value // unit) * unit
