"""A stream of a green context: a part of the GPU's SMs, as a process or a library may be given it.

Example: `green_stream(16)` gives a stream whose kernels run on 16 SMs, and how many they really are.
"""

from typing import Any

from wavesim.errors import DeviceError
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.tensors import stream_at

_kept: list[Any] = []  # green contexts live as long as the process


def green_stream(sm_count: int) -> tuple[Any, int]:
    """A stream on at least so many SMs, and their number. Raises `DeviceError` with the driver's word."""
    from cuda.bindings import driver  # only where there is a GPU

    cupy = require_cupy()
    cupy.cuda.Device().synchronize()  # makes the device's context
    device = _said(driver.cuDeviceGet(cupy.cuda.Device().id))
    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = _said(driver.cuDeviceGetDevResource(device, kind))
    groups, _, _ = _said(driver.cuDevSmResourceSplitByCount(1, whole, 0, sm_count))
    description = _said(driver.cuDevResourceGenerateDesc(groups, 1))
    flags = int(driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)
    context = _said(driver.cuGreenCtxCreate(description, device, flags))
    stream = _said(
        driver.cuGreenCtxStreamCreate(context, int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING), 0)
    )
    _kept.append(context)
    return stream_at(int(stream)), int(groups[0].sm.smCount)


def _said(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise DeviceError(f"no green context: {status.name}. It needs a driver of CUDA 12.4 or later")
    return values[0] if len(values) == 1 else values
