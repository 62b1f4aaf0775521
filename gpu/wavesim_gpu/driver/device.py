"""The GPU at hand as a `Device`, and a clear error where there is none.

Example: `query()` on an H200 gives what `wavesim.model.device.load("h200")` gives, but as the driver
reports it.
"""

from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from wavesim.errors import DeviceError
from wavesim.model.device import Device, from_attributes

INSTALL = "in a checkout: .venv/bin/pip install -e '.[gpu]' (or: pip install cupy-cuda13x)"
OLDEST = (8, 0)
# Numbers of cudaDeviceAttr; CUDA 13 dropped them from the properties but not from the attributes.
CLOCK_KHZ, MEMORY_CLOCK_KHZ, MEMORY_BUS_BITS = 13, 36, 37


def require_cupy() -> ModuleType:
    """CuPy with a usable GPU behind it.

    Raises `DeviceError`: CuPy missing (names the install line), no GPU, or one older than sm_80.
    """
    try:
        import cupy  # noqa: PLC0415  # an optional package, named in the error
    except ImportError as error:
        raise DeviceError(f"CuPy is not installed ({error}); {INSTALL}") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise DeviceError(
            f"no usable NVIDIA GPU: {error}. Run on a machine with a GPU and its driver"
        ) from error
    if count == 0:
        raise DeviceError("no NVIDIA GPU: the driver reports 0 devices. Run on a machine with a GPU")
    capability = compute_capability(cupy)
    if capability < OLDEST:
        raise DeviceError(
            f"the GPU has compute capability {capability[0]}.{capability[1]}; the kernels need "
            f"{OLDEST[0]}.{OLDEST[1]} or later (asynchronous copies, mma.sync m16n8k16)"
        )
    return cupy


def compute_capability(cupy: Any) -> tuple[int, int]:
    """(major, minor) of the current GPU."""
    text = cupy.cuda.Device().compute_capability
    return int(text[:-1]), int(text[-1])


def architecture(cupy: Any) -> str:
    """The compiler target of the current GPU, such as "sm_90a"."""
    major, minor = compute_capability(cupy)
    return f"sm_{major}{minor}" + ("a" if major == 9 else "")


def query() -> Device:
    """The current GPU, with the SMs that the current context may use. Raises `DeviceError`."""
    whole = _query(require_cupy().cuda.Device().id)
    return replace(whole, sm_count=min([whole.sm_count, *context_sm_counts()]))


def whole_sm_count() -> int:
    """SMs of the current GPU, or of the slice of one that it is to CUDA, whatever the context may use."""
    return _query(require_cupy().cuda.Device().id).sm_count


def context_sm_counts() -> list[int]:
    """SMs of the current context, as far as the driver says: fewer than the GPU's in a green context, under
    an MPS limit and in a slice of a GPU. Asked anew each time: another context may be current by now.
    """
    try:
        from cuda.bindings import driver  # noqa: PLC0415  # only where there is a GPU

        _, context = driver.cuCtxGetCurrent()
        kinds = driver.CUdevResourceType, driver.CUexecAffinityType
        partition = driver.cuCtxGetDevResource(context, kinds[0].CU_DEV_RESOURCE_TYPE_SM)
        affinity = driver.cuCtxGetExecAffinity(kinds[1].CU_EXEC_AFFINITY_TYPE_SM_COUNT)
    except (ImportError, RuntimeError, AttributeError):  # an old driver has not all of these
        return []
    counts = [int(partition[1].sm.smCount)] if int(partition[0]) == 0 else []
    counts += [int(affinity[1].param.smCount.val)] if int(affinity[0]) == 0 else []
    return [count for count in counts if count > 0]


@cache
def _query(index: int) -> Device:
    cupy = require_cupy()
    properties = cupy.cuda.runtime.getDeviceProperties(index)
    attribute = cupy.cuda.runtime.deviceGetAttribute
    reported = {
        "sm_count": properties["multiProcessorCount"],
        "max_threads_per_sm": properties["maxThreadsPerMultiProcessor"],
        "max_threads_per_block": properties["maxThreadsPerBlock"],
        "registers_per_sm": properties["regsPerMultiprocessor"],
        "shared_bytes_per_sm": properties["sharedMemPerMultiprocessor"],
        "shared_bytes_per_block": properties["sharedMemPerBlockOptin"],
        "l2_bytes": properties["l2CacheSize"],
        "clock_hz": attribute(CLOCK_KHZ, index) * 1000,
        "dram_bytes_per_s": 2
        * attribute(MEMORY_CLOCK_KHZ, index)
        * 1000
        * attribute(MEMORY_BUS_BITS, index)
        / 8,
    }
    optional = {
        "maxBlocksPerMultiProcessor": "max_blocks_per_sm",
        "reservedSharedMemPerBlock": "reserved_shared_bytes_per_block",
    }
    reported |= {field: properties[name] for name, field in optional.items() if name in properties}
    limit_w = _usual_power_limit_w(cupy)
    if limit_w:
        reported["power_w"] = limit_w
    name = properties["name"]
    name = name.decode() if isinstance(name, bytes) else name
    return from_attributes(name, compute_capability(cupy), reported)


def _usual_power_limit_w(cupy: Any) -> float:
    """The power limit that the GPU comes with, 0 where NVML does not tell."""
    try:
        import pynvml  # noqa: PLC0415  # optional

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id.encode())
        return float(pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle)) / 1000
    except Exception:  # noqa: BLE001  # NVML is a nicety; its absence must not stop a measurement
        return 0.0


def versions() -> dict[str, str]:
    """Driver, CUDA runtime, CuPy and NumPy versions."""
    cupy = require_cupy()
    runtime = cupy.cuda.runtime
    return {
        "driver": _driver_version(),
        "cuda_driver": _dotted(runtime.driverGetVersion()),
        "cuda_runtime": _dotted(runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
    }


def _dotted(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver_version() -> str:
    try:
        import pynvml  # noqa: PLC0415  # optional

        pynvml.nvmlInit()
        text = pynvml.nvmlSystemGetDriverVersion()
    except Exception:  # noqa: BLE001  # NVML is a nicety; its absence must not stop a measurement
        return ""
    return text.decode() if isinstance(text, bytes) else str(text)
