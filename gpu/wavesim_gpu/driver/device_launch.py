"""One kernel launch of a program.

Example: the second GEMM of a pair, 96 blocks of 384 threads, on the program's second stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wavesim_gpu.driver.functions import Function
from wavesim_gpu.driver.launch_attributes import launch_extended
from wavesim_gpu.kernels.stage_backend import KernelLaunch


@dataclass(frozen=True)
class DeviceLaunch:
    """One kernel launch: what, how large, with which parameters, on which stream of the program's.

    `stages` are those that it computes; of a wait-kernel, which has `awaits_start_of`, the one behind it.
    """

    function: Function
    shape: KernelLaunch
    arguments: tuple[Any, ...]
    stream: int
    stages: tuple[str, ...] = ()
    awaits_start_of: tuple[str, ...] = ()

    def enqueue(self, streams: Sequence[Any]) -> None:
        """Launches it."""
        shape, stream = self.shape, streams[self.stream]
        if shape.cluster > 1 or shape.is_dependent:
            launch_extended(self.function.function, shape, self.arguments, stream)
            return
        self.function.function(
            (shape.blocks, 1, 1),
            (shape.threads, 1, 1),
            self.arguments,
            shape.dynamic_shared_bytes,
            stream,
        )
