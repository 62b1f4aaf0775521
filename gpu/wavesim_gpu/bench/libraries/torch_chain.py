"""The pipeline as PyTorch runs it: its own matmul and activation kernels, in a torch CUDA graph.

Example: `gelu(x @ w1) @ w2` captured once and replayed. Outputs and temporaries are torch's own; inputs and
weights are the very arrays that our kernels read, except that SwiGLU's columns are set apart as torch users
have them: all gates, then all values.
"""

from typing import Any

from wavesim.errors import DeviceError
from wavesim_gpu.bench.libraries import GemmOutputs
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.run.operands import Operands

WARM_UPS = 3  # what torch asks for before a capture


class TorchChain(GemmOutputs):
    """A pipeline of GEMMs by PyTorch, as a CUDA graph of `repeats` runs.

    Raises `DeviceError` where torch is missing or has no CUDA.
    """

    def __init__(self, operands: Operands, repeats: int = 1) -> None:
        self._torch = require_torch()
        cupy = require_cupy()
        self._side = self._torch.cuda.Stream()
        self.stream = cupy.cuda.ExternalStream(self._side.cuda_stream)
        self.operands = operands
        self._inputs = {name: self._tensor(name, array) for name, array in operands.a.items()}
        self._weights = {name: self._weight(name, array) for name, array in operands.b.items()}
        with self._torch.cuda.stream(self._side):
            for _ in range(WARM_UPS):
                self._run()
        self._torch.cuda.synchronize()
        self._graph = self._torch.cuda.CUDAGraph()
        with self._torch.cuda.graph(self._graph, stream=self._side):
            for _ in range(repeats):
                results = self._run()
        self.outputs = {name: cupy.from_dlpack(self._raw(tensor)) for name, tensor in results.items()}

    def launch(self) -> None:
        """Replays the graph."""
        with self._torch.cuda.stream(self._side):
            self._graph.replay()

    def _run(self) -> dict[str, Any]:
        functional = self._torch.nn.functional
        results: dict[str, Any] = {}
        for stage in self.operands.pipeline.stages:
            dependency = self.operands.pipeline.dependency_of(stage.name)
            a = self._inputs[stage.name] if dependency is None else results[dependency.producers[0]]
            product = a @ self._weights[stage.name]
            if stage.gemm.activation == "gelu":
                product = functional.gelu(product, approximate="tanh")
            elif stage.gemm.activation == "swiglu":
                gates, values = product.chunk(2, dim=1)
                product = functional.silu(gates) * values
            results[stage.name] = product
        return results

    def _tensor(self, name: str, array: Any) -> Any:
        tensor = self._torch.from_dlpack(array)
        is_bf16 = self.operands.pipeline.stage(name).gemm.dtype == "bf16"
        return tensor.view(self._torch.bfloat16) if is_bf16 else tensor

    def _weight(self, name: str, array: Any) -> Any:
        tensor = self._tensor(name, array)
        if self.operands.pipeline.stage(name).gemm.activation != "swiglu":
            return tensor
        return self._torch.cat([tensor[:, ::2], tensor[:, 1::2]], dim=1)

    def _raw(self, tensor: Any) -> Any:
        return tensor.view(self._torch.uint16) if tensor.dtype == self._torch.bfloat16 else tensor


def require_torch() -> Any:
    """PyTorch with a GPU. Raises `DeviceError` where it is missing or has no CUDA."""
    try:
        import torch  # noqa: PLC0415  # an optional package, named in the error
    except ImportError as error:
        raise DeviceError(
            f"PyTorch is not installed ({error}); pip install torch, or leave it out"
        ) from error
    if not torch.cuda.is_available():
        raise DeviceError("PyTorch has no CUDA device; install a CUDA build of torch, or leave it out")
    return torch
