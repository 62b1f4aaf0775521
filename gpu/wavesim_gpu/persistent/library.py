"""cuBLASLt's five products of a step for 40 sequences, fp16 or int8, each by the fastest of what it offers.

Example: `LibraryStep("int8", weights, stream).enqueue()` puts five products on the stream, sums in int32. The
heuristic's algorithms are timed for each product, as its first choice is not always the fastest.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from wavesim.errors import DeviceError
from wavesim_gpu.cublas.cublas_library import Descriptor, Found, check, library, lt_handle, workspace_bytes
from wavesim_gpu.cublas.cublaslt import (
    DESC_TRANS_A,
    PREFERENCE_WORKSPACE,
    TRANSPOSED,
    TRIAL_REPEATS,
    TRIAL_ROUNDS,
    TRIED,
    Product,
)
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.persistent.weights import BATCH, BATCHES, LAYERS, SHAPES, Weights, first_state
from wavesim_gpu.run.timing import Contender, interleaved_ns

ROWS = BATCH * BATCHES
INT8, INT32, COMPUTE_INT32 = 3, 10, 72  # library_types.h and cublas_api.h
Algorithm = Any
Launch = Callable[[], None]


class Int8Product:
    """C (m, n) in int32 = A (m, k) x B^T, both int8 and row-major, B stored (n, k)."""

    def __init__(self, m: int, n: int, k: int) -> None:
        self.text = f"({m}, {k}) x ({k}, {n}) int8"
        self._desc = Descriptor("MatmulDesc", COMPUTE_INT32, INT32)
        self._desc.set(DESC_TRANS_A, ctypes.c_int(TRANSPOSED))
        # As cuBLASLt counts, columns first: its A is our B, its C has our columns for rows.
        sizes = ((INT8, k, n, k), (INT8, k, m, k), (INT32, n, m, n))
        self._layouts = [Descriptor("MatrixLayout", *size) for size in sizes]
        self._factors = ctypes.c_int32(1), ctypes.c_int32(0)
        self._handle = lt_handle(require_cupy().cuda.Device().id)

    def algorithms(self) -> list[Algorithm]:
        """The heuristic's, the most promising first. Raises `DeviceError` where it has none."""
        preference = Descriptor("MatmulPreference")
        preference.set(PREFERENCE_WORKSPACE, ctypes.c_uint64(workspace_bytes()))
        results, count = (Found * TRIED)(), ctypes.c_int(0)
        first, second, out = (layout.address for layout in self._layouts)
        library().cublasLtMatmulAlgoGetHeuristic(
            self._handle,
            self._desc.address,
            first,
            second,
            out,
            out,
            preference.address,
            TRIED,
            ctypes.addressof(results),
            ctypes.addressof(count),
        )
        result = [(ctypes.c_uint8 * 64)(*entry.algo) for entry in results[: count.value] if entry.state == 0]
        if not result:
            raise DeviceError(f"cuBLASLt offers nothing for {self.text}")
        return result

    def launch(self, algorithm: Algorithm, a: int, b: int, c: int, workspace: int, stream: int) -> None:
        """One product on a stream, of matrices at these addresses. Raises `DeviceError`."""
        first, second, out = (layout.address for layout in self._layouts)
        alpha, beta = map(ctypes.addressof, self._factors)
        status = library().cublasLtMatmul(
            self._handle, self._desc.address, alpha, b, first, a, second, beta, c, out, c, out,
            ctypes.addressof(algorithm), workspace, workspace_bytes(), stream,
        )  # fmt: skip
        if status:
            check(status, self.text)


class LibraryStep:
    """The five products of a step on one stream, with operands of their own; `launches` are by layer."""

    def __init__(self, dtype: str, weights: Weights, stream: Any) -> None:
        self.cupy, self.dtype, self.stream = require_cupy(), dtype, stream
        self._workspace = self.cupy.empty(workspace_bytes(), np.uint8)
        state = self.cupy.asarray(first_state(dtype).reshape(ROWS, -1))
        self._a = {name: self.cupy.ascontiguousarray(state[:, : SHAPES[name][1]]) for name in LAYERS}
        self._b = {name: self.cupy.asarray(weights.matrices[name]) for name in LAYERS}
        kind = np.int32 if dtype == "int8" else np.float16
        self._c = {name: self.cupy.zeros((ROWS, SHAPES[name][0]), kind) for name in LAYERS}
        self.cupy.cuda.Device().synchronize()
        self.launches: dict[str, Launch] = {name: self._tuned(name) for name in LAYERS}

    def enqueue(self, steps: int = 1) -> None:
        """All products of so many steps on the stream."""
        for _ in range(steps):
            for launch in self.launches.values():
                launch()

    def worst_error(self) -> float:
        """Of all products' outputs against float64, as a share of the largest; of int8's in whole numbers."""
        self.enqueue()
        self.stream.synchronize()
        error = []
        for name in LAYERS:
            exact = self._a[name].astype(np.float64) @ self._b[name].astype(np.float64).T
            worst = float(abs(exact - self._c[name]).max())
            error.append(worst if self.dtype == "int8" else worst / float(abs(exact).max()))
        return max(error)

    def _tuned(self, name: str) -> Launch:
        """The launch of a layer's product by the fastest algorithm of those offered."""
        addresses = [entry[name].data.ptr for entry in (self._a, self._b, self._c)]
        rows, k = SHAPES[name]
        workspace, stream = self._workspace.data.ptr, self.stream
        if self.dtype == "fp16":
            product = Product(ROWS, rows, k, "fp16", "column")
            a, b, c = zip(addresses, (k, k, rows), strict=True)
            product.tune(a, [b], c, 0, workspace, stream)
            return partial(product.launch, a, b, c, 0, workspace, int(stream.ptr))
        int8 = Int8Product(ROWS, rows, k)
        candidates = [
            partial(int8.launch, algorithm, *(*addresses, workspace, int(stream.ptr)))
            for algorithm in int8.algorithms()
        ]
        graphs = [captured(partial(_repeated, launch, TRIAL_REPEATS), stream) for launch in candidates]
        contenders = [Contender(partial(graph.launch, stream), stream, TRIAL_REPEATS) for graph in graphs]
        times = [median(rounds) for rounds in interleaved_ns(contenders, TRIAL_ROUNDS)]
        return candidates[times.index(min(times))]


def captured(enqueue: Launch, stream: Any) -> Any:
    """A CUDA graph of what a function puts on the stream, which runs once before: it loads the kernels."""
    enqueue()
    stream.synchronize()
    with stream:
        stream.begin_capture()
        try:
            enqueue()
        finally:
            graph = stream.end_capture()
    return graph


def _repeated(launch: Launch, count: int) -> None:
    for _ in range(count):
        launch()
