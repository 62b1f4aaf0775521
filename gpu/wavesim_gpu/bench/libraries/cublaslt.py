"""cuBLASLt's products with its own fused epilogues, captured in a CUDA graph: the yardstick.

Example: `LtChain(operands)` is GPT-3's MLP as two products, one after the other, each by the fastest of the
algorithms that cuBLASLt offers for it. SwiGLU, which it does not fuse, is our element-wise kernel behind the
product; for it the columns are set apart as torch users have them: all gates, then all values.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from wavesim.model.stage import Stage
from wavesim_gpu.bench.libraries import GemmOutputs
from wavesim_gpu.cublas.cublas_library import workspace_bytes
from wavesim_gpu.cublas.cublaslt import Matrix, Product
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.kernels.elementwise.elementwise import Elementwise
from wavesim_gpu.run.operands import Operands


class LtChain(GemmOutputs):
    """A pipeline of GEMMs by cuBLASLt, with outputs of its own, as a CUDA graph of `repeats` runs."""

    def __init__(self, operands: Operands, repeats: int = 1) -> None:
        cupy = require_cupy()
        self.operands = operands
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.outputs = {name: cupy.empty_like(array) for name, array in operands.c.items()}
        self._workspace = cupy.empty(workspace_bytes(), "uint8")
        self._kept: list[Any] = []
        self._steps = [self._step(operands, stage) for stage in operands.pipeline.stages]
        self._graph = self._captured(repeats)

    def launch(self) -> None:
        """Replays the graph."""
        self._graph.launch(self.stream)

    def _step(self, operands: Operands, stage: Stage) -> Callable[[], None]:
        """One stage as launches on the chain's stream."""
        cupy, gemm = require_cupy(), stage.gemm
        dependency = operands.pipeline.dependency_of(stage.name)
        a = operands.a[stage.name] if dependency is None else self.outputs[dependency.producers[0]]
        b, out = operands.b[stage.name], self.outputs[stage.name]
        is_swiglu = gemm.activation == "swiglu"
        product_out = out
        if is_swiglu:
            b = cupy.concatenate([b[:, ::2], b[:, 1::2]], axis=1)
            product_out = cupy.empty((gemm.m, gemm.n), out.dtype)
        self._kept += [b, product_out]
        cupy.cuda.Device().synchronize()
        activation = None if is_swiglu else gemm.activation
        product = Product(gemm.m, gemm.n, gemm.k, gemm.dtype, activation=activation)
        first, weights, to = _matrix(a), _matrix(b), _matrix(product_out)
        workspace = int(self._workspace.data.ptr)
        product.tune(first, [weights], to, 0, workspace, self.stream)
        multiply = partial(product.launch, first, weights, to, 0, workspace, int(self.stream.ptr))
        return _gated(multiply, product_out, out, gemm.dtype, self.stream) if is_swiglu else multiply

    def _captured(self, repeats: int) -> Any:
        for step in self._steps:  # the first run loads the kernels, which a capture could not
            step()
        self.stream.synchronize()
        with self.stream:
            self.stream.begin_capture()
            for step in self._steps * repeats:
                step()
            return self.stream.end_capture()


def _matrix(array: Any) -> Matrix:
    return int(array.data.ptr), array.shape[1]


def _gated(multiply: Callable[[], None], pairs: Any, out: Any, dtype: str, stream: Any) -> Callable[[], None]:
    """The product of gates and values, (rows, 2 columns), then Swish(gate) * value."""
    rows, columns = out.shape
    kernel = Elementwise(dtype, "silu", rows, columns, (2 * columns, 2 * columns, columns))
    gates, to = int(pairs.data.ptr), int(out.data.ptr)

    def both() -> None:
        multiply()
        kernel.run(gates, gates + columns * pairs.itemsize, to, 0, 0, int(stream.ptr))

    return both
