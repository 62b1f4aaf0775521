"""How a kernel is launched: its grid and attributes, and one launch of a program on one of its streams.

Example: the second GEMM of a pair, 96 blocks of 384 threads in clusters of two, is one `cuLaunchKernelEx`
with the attribute cluster dimension (2, 1, 1). CuPy's own launch has no words for clusters, programmatic
dependence and cooperation.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wavesim.errors import DeviceError
from wavesim_gpu.driver.driver_api import LaunchAttribute, LaunchConfig, require_driver, status_name
from wavesim_gpu.driver.functions import Function

# CUlaunchAttributeID
COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6


@dataclass(frozen=True)
class KernelLaunch:
    """How one stage is launched.

    `expression` is the template instance or the name, `blocks` the one-dimensional grid: one per tile and
    split, or fewer for a persistent kernel. `cluster` blocks form a cluster; `is_dependent` starts the kernel
    before the one ahead of it in its stream has ended (programmatic dependent launch). `is_cooperative`: the
    driver refuses it unless all blocks can be resident at once. `source` is the file of a user's own kernel,
    None for the backend's.
    """

    expression: str
    threads: int
    dynamic_shared_bytes: int
    blocks: int
    cluster: int = 1
    is_dependent: bool = False
    is_cooperative: bool = False
    source: Path | None = None


def launch_config(shape: KernelLaunch, stream: int) -> LaunchConfig:
    """How a kernel is launched on the stream at that address, as the driver takes it."""
    attributes = _attributes(shape)
    return LaunchConfig(
        (shape.blocks, 1, 1),
        (shape.threads, 1, 1),
        shape.dynamic_shared_bytes,
        stream,
        (LaunchAttribute * len(attributes))(*attributes),
        len(attributes),
    )


def launch_extended(function: Any, shape: KernelLaunch, arguments: tuple[Any, ...], stream: Any) -> None:
    """One launch on a stream. `function` is CuPy's; `arguments` are NumPy scalars and records.

    Raises `DeviceError` with the driver's word for what is wrong.
    """
    texts = [argument.tobytes() for argument in arguments]
    buffers = [
        (ctypes.c_uint64 * -(-len(text) // 8)).from_buffer_copy(text.ljust(8 * -(-len(text) // 8)))
        for text in texts
    ]
    pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    config = launch_config(shape, int(stream.ptr))
    status = require_driver().cuLaunchKernelEx(
        ctypes.byref(config), ctypes.c_void_p(int(function.ptr)), pointers, None
    )
    if status != 0:
        raise launch_error(shape, status)


def most_clusters(function: Any, shape: KernelLaunch) -> int:
    """How many of the launch's clusters the GPU can hold at once; 0 where it takes none of that size."""
    clusters = ctypes.c_int()
    config = launch_config(shape, 0)
    status = require_driver().cuOccupancyMaxActiveClusters(
        ctypes.byref(clusters), ctypes.c_void_p(int(function.ptr)), ctypes.byref(config)
    )
    return clusters.value if status == 0 else 0


def launch_error(shape: KernelLaunch, status: int) -> DeviceError:
    """What the driver said against a launch."""
    return DeviceError(f"launch of {shape.expression} failed: {status_name(status)}")


def _attributes(shape: KernelLaunch) -> list[LaunchAttribute]:
    attributes = []
    if shape.cluster > 1:
        attributes.append(LaunchAttribute(CLUSTER_DIMENSION))
        attributes[-1].value.cluster = shape.cluster, 1, 1
    if shape.is_dependent:
        attributes.append(LaunchAttribute(PROGRAMMATIC_STREAM_SERIALIZATION))
        attributes[-1].value.flag = 1
    if shape.is_cooperative:
        attributes.append(LaunchAttribute(COOPERATIVE))
        attributes[-1].value.flag = 1
    return attributes


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
