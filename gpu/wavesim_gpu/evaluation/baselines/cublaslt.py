"""cuBLASLt's products with its own fused epilogues, captured in a CUDA graph: the yardstick.

Example: `Product(a, b, c, "gelu")` asks cuBLASLt for its best algorithms, times the first few and keeps the
fastest; `LtChain(operands)` is GPT-3's MLP as two of them, one after the other. cuBLASLt counts columns
first: a row-major C = A B is its C^T = B^T A^T, with no transposition anywhere.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from wavesim.errors import DeviceError
from wavesim.model.stage import Stage
from wavesim_gpu.evaluation.baselines.swiglu import launch_swiglu
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.operands import Operands

# cublasLt.h and library_types.h of CUDA 13.
COMPUTE_FP32, FP32, FP16, BF16 = 68, 0, 2, 14
DESC_EPILOGUE, PREFERENCE_WORKSPACE = 7, 1
EPILOGUES = {None: 1, "relu": 2, "gelu": 32}
TYPES = {"fp16": FP16, "bf16": BF16}
WORKSPACE_BYTES = 32 << 20  # what PyTorch gives it on Hopper
TRIED = 8  # algorithms timed for each product; the heuristic's own order is by estimated time
TRIAL_ROUNDS = 5


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algo", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Product:
    """C (m, n) = activation(A (m, k) x B (k, n)), CuPy arrays, row-major, fp16 or bf16 as uint16.

    Without SwiGLU, which cuBLASLt does not fuse. Raises `DeviceError` where it has no algorithm.
    """

    def __init__(self, a: Any, b: Any, c: Any, dtype: str, activation: str | None) -> None:
        self._cupy = require_cupy()
        self._arrays = (a, b, c)
        self._lt = _library()
        kind = TYPES[dtype]
        (m, k), n = a.shape, b.shape[1]
        self._desc = _made(self._lt.cublasLtMatmulDescCreate, COMPUTE_FP32, FP32)
        epilogue = ctypes.c_int(EPILOGUES[activation])
        _check(
            self._lt.cublasLtMatmulDescSetAttribute(
                self._desc, DESC_EPILOGUE, ctypes.byref(epilogue), ctypes.sizeof(epilogue)
            )
        )
        self._layouts = [
            _made(
                self._lt.cublasLtMatrixLayoutCreate,
                kind,
                ctypes.c_uint64(rows),
                ctypes.c_uint64(cols),
                ctypes.c_int64(rows),
            )
            for rows, cols in ((n, k), (k, m), (n, m))
        ]
        self._workspace = self._cupy.empty(WORKSPACE_BYTES, "uint8")
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)
        self.algorithms = self._found((m, n, k))
        self._chosen = self.algorithms[0]

    def launch(self, stream: Any) -> None:
        """Starts it on a CuPy stream; capturable."""
        a, b, c = self._arrays
        first, second, out = self._layouts
        _check(
            self._lt.cublasLtMatmul(
                _handle(), self._desc, ctypes.byref(self._one), _pointer(b), first, _pointer(a), second,
                ctypes.byref(self._zero), _pointer(c), out, _pointer(c), out,
                ctypes.byref(self._chosen.algo), _pointer(self._workspace),
                ctypes.c_size_t(WORKSPACE_BYTES), ctypes.c_void_p(stream.ptr),
            )
        )  # fmt: skip

    def choose_fastest(self, stream: Any) -> None:
        """Times the algorithms in turns and keeps the one with the lowest median."""
        events = self._cupy.cuda.Event
        times: list[list[float]] = [[] for _ in self.algorithms]
        for turn in range(TRIAL_ROUNDS + 1):
            for own, algorithm in zip(times, self.algorithms, strict=True):
                self._chosen = algorithm
                start, end = events(), events()
                start.record(stream)
                self.launch(stream)
                end.record(stream)
                end.synchronize()
                if turn:  # the first one loads the kernel
                    own.append(self._cupy.cuda.get_elapsed_time(start, end))
        medians = [sorted(own)[len(own) // 2] for own in times]
        self._chosen = self.algorithms[medians.index(min(medians))]

    def _found(self, shape: tuple[int, int, int]) -> Sequence[_Algorithm]:
        preference = _made(self._lt.cublasLtMatmulPreferenceCreate)
        limit = ctypes.c_size_t(WORKSPACE_BYTES)
        _check(
            self._lt.cublasLtMatmulPreferenceSetAttribute(
                preference, PREFERENCE_WORKSPACE, ctypes.byref(limit), ctypes.sizeof(limit)
            )
        )
        results, count = (_Algorithm * TRIED)(), ctypes.c_int(0)
        first, second, out = self._layouts
        self._lt.cublasLtMatmulAlgoGetHeuristic(
            _handle(), self._desc, first, second, out, out, preference, TRIED, results, ctypes.byref(count)
        )
        self._lt.cublasLtMatmulPreferenceDestroy(preference)
        usable = [result for result in results[: count.value] if result.state == 0]
        if not usable:
            raise DeviceError(f"cuBLASLt has no algorithm for (m, n, k) = {shape} on this GPU")
        return usable


class LtChain:
    """A pipeline of GEMMs by cuBLASLt, with outputs of its own, as a CUDA graph of `repeats` runs."""

    def __init__(self, operands: Operands, repeats: int = 1) -> None:
        cupy = require_cupy()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.outputs = {name: cupy.empty_like(array) for name, array in operands.c.items()}
        self._steps = [self._step(operands, stage) for stage in operands.pipeline.stages]
        self._graph = self._captured(repeats)

    def launch(self) -> None:
        """Replays the graph."""
        self._graph.launch(self.stream)

    def _step(self, operands: Operands, stage: Stage) -> Callable[[Any], None]:
        """One stage as a launch on a stream; SwiGLU, which cuBLASLt does not fuse, follows as a kernel."""
        cupy, gemm = require_cupy(), stage.gemm
        dependency = operands.pipeline.dependency_of(stage.name)
        a = operands.a[stage.name] if dependency is None else self.outputs[dependency.producers[0]]
        out = self.outputs[stage.name]
        is_swiglu = gemm.activation == "swiglu"
        product_out = cupy.empty((gemm.m, gemm.n), out.dtype) if is_swiglu else out
        cupy.cuda.Device().synchronize()
        product = Product(
            a, operands.b[stage.name], product_out, gemm.dtype, None if is_swiglu else gemm.activation
        )
        product.choose_fastest(self.stream)
        if not is_swiglu:
            return product.launch

        def launch_both(stream: Any) -> None:
            product.launch(stream)
            launch_swiglu(product_out, out, gemm.dtype, stream)

        launch_both(self.stream)  # loads the kernel, which a capture could not
        return launch_both

    def _captured(self, repeats: int) -> Any:
        self.stream.synchronize()
        with self.stream:
            self.stream.begin_capture()
            for step in self._steps * repeats:
                step(self.stream)
            return self.stream.end_capture()


def _pointer(array: Any) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.data.ptr)


@cache
def _library() -> Any:
    try:
        from cuda import pathfinder  # noqa: PLC0415  # an optional package, named in the error

        path = pathfinder.load_nvidia_dynamic_lib("cublasLt").abs_path
        return ctypes.CDLL(path)
    except Exception as error:
        raise DeviceError(
            f"cuBLASLt cannot be loaded ({error}); it comes with CuPy's cuda13x packages"
        ) from error


@cache
def _handle() -> ctypes.c_void_p:
    return _made(_library().cublasLtCreate)


def _made(create: Any, *arguments: Any) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    _check(create(ctypes.byref(made), *arguments))
    return made


def _check(status: int) -> None:
    if status:
        raise DeviceError(f"cuBLASLt refused with status {status}")
