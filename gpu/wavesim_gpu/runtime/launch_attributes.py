"""Launches with attributes that CuPy's own launch has no words for: clusters and programmatic dependence.

Example: a Hopper kernel in clusters of two blocks is one `cuLaunchKernelEx` with the attribute cluster
dimension (2, 1, 1); the parameters are the same NumPy records as for any launch.
"""

import ctypes
from typing import Any

import numpy as np

from wavesim.errors import DeviceError
from wavesim_gpu.kernels.backend import KernelLaunch


def launch_extended(function: Any, shape: KernelLaunch, arguments: tuple[Any, ...], stream: Any) -> None:
    """One launch on a stream. `function` is CuPy's; `arguments` are NumPy scalars and records.

    Raises `DeviceError` with the driver's word for what is wrong.
    """
    from cuda.bindings import driver  # noqa: PLC0415  # only where there is a GPU

    buffers = [np.frombuffer(argument.tobytes(), np.uint8).copy() for argument in arguments]
    pointers = (ctypes.c_void_p * len(buffers))(*(buffer.ctypes.data for buffer in buffers))
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.threads, 1, 1
    config.sharedMemBytes = shape.dynamic_shared_bytes
    config.hStream = driver.CUstream(int(stream.ptr))
    config.attrs = _attributes(driver, shape)
    config.numAttrs = len(config.attrs)
    (status,) = driver.cuLaunchKernelEx(
        config, driver.CUfunction(int(function.ptr)), ctypes.addressof(pointers), 0
    )
    if int(status) != 0:
        raise DeviceError(f"launch of {shape.expression} failed: {status.name}")


def _attributes(driver: Any, shape: KernelLaunch) -> list[Any]:
    kinds = driver.CUlaunchAttributeID
    found = []
    if shape.cluster > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x = shape.cluster
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
        found.append(attribute)
    if shape.is_dependent:
        attribute = driver.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        found.append(attribute)
    return found
