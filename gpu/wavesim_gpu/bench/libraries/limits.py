"""What the GPU can sustain, measured beside what it does: matmul rate, copy bandwidth.

Example: an 8192-cubed product by cuBLASLt at 790 TFLOP/s and a 4 GB copy at 4.3 TB/s; every other time can
then be shown as its distance to the nearer of the two limits.
"""

from typing import Any

from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.run.timing import Contender

CUBE = 8192
COPIED_BYTES = 1 << 30
COPY_BYTES = 2 << 30  # forty times the L2


def matmul_flops(side: int = CUBE) -> int:
    """Multiplications and additions of the cube."""
    return 2 * side**3


def cube_pipeline(dtype: str = "fp16", side: int = CUBE) -> Pipeline:
    """One product of side x side x side."""
    return Pipeline("cube", [Stage("gemm", Gemm("gemm", side, side, side, 128, 256, dtype=dtype))])


class CopyPass:
    """A device-to-device copy, as the driver does it."""

    def __init__(self, size: int = COPY_BYTES) -> None:
        cupy = require_cupy()
        self.size = size
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._from, self._to = cupy.zeros(size, "uint8"), cupy.empty(size, "uint8")
        self.spoil()

    def launch(self) -> None:
        """Starts it."""
        require_cupy().cuda.runtime.memcpyAsync(
            self._to.data.ptr, self._from.data.ptr, self.size, 3, self.stream.ptr
        )

    def spoil(self) -> None:
        """Overwrites what the copy must write."""
        self._to.fill(0xFF)
        require_cupy().cuda.Device().synchronize()

    def is_copied(self) -> bool:
        """Whether the output is the input, after all copies launched."""
        self.stream.synchronize()
        return bool((self._to == self._from).all())


def copying() -> Contender:
    """A device-to-device copy of `COPIED_BYTES`."""
    cupy: Any = require_cupy()
    source, target = (cupy.zeros(COPIED_BYTES, "uint8") for _ in range(2))
    stream = cupy.cuda.Stream(non_blocking=True)

    def launch() -> None:
        cupy.cuda.runtime.memcpyAsync(
            target.data.ptr, source.data.ptr, COPIED_BYTES, cupy.cuda.runtime.memcpyDeviceToDevice, stream.ptr
        )

    return Contender(launch, stream)
