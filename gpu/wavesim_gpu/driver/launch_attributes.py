"""Launches with attributes that CuPy's own launch has no words for: clusters, programmatic dependence,
cooperation.

Example: a Hopper kernel in clusters of two blocks is one `cuLaunchKernelEx` with the attribute cluster
dimension (2, 1, 1); `launch_config(shape, stream)` says so, and can be used for any number of launches.
"""

import ctypes
from typing import Any

from wavesim.errors import DeviceError
from wavesim_gpu.driver.driver_api import LaunchAttribute, LaunchConfig, require_driver, status_name
from wavesim_gpu.kernels.stage_backend import KernelLaunch

# CUlaunchAttributeID
COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6


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
    found = ctypes.c_int()
    config = launch_config(shape, 0)
    status = require_driver().cuOccupancyMaxActiveClusters(
        ctypes.byref(found), ctypes.c_void_p(int(function.ptr)), ctypes.byref(config)
    )
    return found.value if status == 0 else 0


def launch_error(shape: KernelLaunch, status: int) -> DeviceError:
    """What the driver said against a launch."""
    return DeviceError(f"launch of {shape.expression} failed: {status_name(status)}")


def _attributes(shape: KernelLaunch) -> list[LaunchAttribute]:
    found = []
    if shape.cluster > 1:
        found.append(LaunchAttribute(CLUSTER_DIMENSION))
        found[-1].value.cluster = shape.cluster, 1, 1
    if shape.is_dependent:
        found.append(LaunchAttribute(PROGRAMMATIC_STREAM_SERIALIZATION))
        found[-1].value.flag = 1
    if shape.is_cooperative:
        found.append(LaunchAttribute(COOPERATIVE))
        found[-1].value.flag = 1
    return found
