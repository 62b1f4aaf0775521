"""A layer's GEMM by cuBLASLt, prepared once: a call launches it and looks nothing up.

Example: `LayerProduct(shape, workspace, w, bias).launch(x, out, stream)` is out = x w^T + bias, by addresses.
PyTorch's own call took the host of two H200s 15 to 25 us, which at few rows is longer than the GPU's part.
"""

from torch import Tensor

from wavesim_gpu.cublas.cublaslt import VECTOR_BYTES, Place, Product
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.peers.choice import LinearShape


class LayerProduct:
    """The product of one rank's layer. `workspace` is the address of `workspace_bytes()` that its calls may
    use; `algorithm` one that was timed for the shape, "" for cuBLASLt's first. Raises `DeviceError`.
    """

    def __init__(
        self, shape: LinearShape, workspace: int, w: Tensor, bias: Tensor | None, algorithm: str = ""
    ) -> None:
        self._shape, self._workspace, self._w = shape, workspace, w.data_ptr()
        self._bias = 0 if bias is None else bias.data_ptr()
        self._product = Product(shape.m, shape.n, shape.k, shape.dtype, "column", None, algorithm or None)
        self._place = Place(shape.k, shape.k, shape.n, self._bias, VECTOR_BYTES)
        self._run = self._product.run_at(self._place)

    def launch(self, x: int, out: int, stream: int) -> None:
        """Starts it on a stream; both addresses are multiples of 16, rows without gaps."""
        self._run(x, self._w, out, self._workspace, stream)

    def fastest(self, x: int, out: int, stream: int) -> str:
        """The algorithm that took least time here. Waits for the GPU."""
        at = x, self._w, out, self._workspace
        times = self._product.timed_at([(self._place, at)], require_cupy().cuda.ExternalStream(stream))
        return min(times, key=times.__getitem__)


def takes_product(w: Tensor, bias: Tensor | None) -> bool:
    """Whether weights lie as cuBLASLt's vectors need them: dense, from a multiple of 16."""
    return all(
        tensor.is_contiguous() and tensor.data_ptr() % VECTOR_BYTES == 0
        for tensor in (w, bias)
        if tensor is not None
    )
