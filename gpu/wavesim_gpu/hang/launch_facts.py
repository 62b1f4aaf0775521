"""What the driver says of a kernel, of a stream and of the SMs that a stream's kernels may use.

Example: a kernel with 168 registers per thread, on a stream of priority -5 in a green context of 64 SMs.
Each is asked once per address and then remembered.
"""

import ctypes
import os
from ctypes import byref, c_int, c_uint, c_void_p
from typing import Any

from wavesim_gpu.driver.device import require_cupy, whole_sm_count
from wavesim_gpu.driver.driver_api import require_driver

Fields = dict[str, Any]

# CUfunction_attribute.
MAX_THREADS, STATIC_SHARED_BYTES, REGISTERS, CARVEOUT = 0, 1, 4, 9
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
SM_RESOURCE, RESOURCE_BYTES, SM_COUNT_AT = (
    1,
    256,
    96,
)  # CU_DEV_RESOURCE_TYPE_SM; where CUdevResource has smCount
MPS_ENABLED = 133  # CU_DEVICE_ATTRIBUTE_MPS_ENABLED
FULL_CARVEOUT = 100
LEGACY, DEFAULT_QUEUES = "legacy", 8


class LaunchFacts:
    """Asks the driver. Its answers have the names of fields in `safety/hang/situation_fields.toml`."""

    def __init__(self) -> None:
        self._cupy = require_cupy()
        self._driver = require_driver()
        self._kernels: dict[int, Fields] = {}
        self._streams: dict[int, Fields] = {}

    def kernel(self, function: int) -> Fields:
        """Registers, static shared memory and carve-out of a CUfunction."""
        fields = self._kernels.get(function)
        if fields is None:
            fields = self._kernels[function] = {
                "registers": max(1, self._attribute(REGISTERS, function)),
                "static_shared_bytes": self._attribute(STATIC_SHARED_BYTES, function),
                "carveout": "full" if self._attribute(CARVEOUT, function) == FULL_CARVEOUT else "default",
            }
        return fields

    def stream(self, address: int) -> Fields:
        """Name, kind, priority and device of a stream; 0 is the legacy default stream."""
        fields = self._streams.get(address)
        if fields is None:
            flags, priority = c_uint(), c_int()
            self._driver.cuStreamGetFlags(c_void_p(address), byref(flags))
            self._driver.cuStreamGetPriority(c_void_p(address), byref(priority))
            fields = self._streams[address] = {
                "stream": f"{address:#x}" if address > 1 else LEGACY,
                "blocking": not flags.value & NON_BLOCKING,
                "priority": priority.value,
                "device": self._part_name(address),
            }
        return fields

    def part(self, address: int) -> Fields:
        """The part of a GPU that a stream's kernels run on, and what limits it."""
        count, by = self._sm_count(address)
        index = self._cupy.cuda.Device().id
        name = self._cupy.cuda.runtime.getDeviceProperties(index)["name"]
        name = name.decode() if isinstance(name, bytes) else name
        limits = [by] if by else []
        if "MIG" in name:
            limits.append("a MIG slice")
        if percent := os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"):
            limits.append(f"MPS at {percent} %")
        return {
            "name": self._part_name(address),
            "device": name,
            "sm_count": count,
            "limited_by": ", ".join(limits),
            "mps": self._device_attribute(MPS_ENABLED, index) == 1,
            "queues": int(os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", DEFAULT_QUEUES)),
        }

    def _part_name(self, address: int) -> str:
        count, by = self._sm_count(address)
        name = f"gpu{self._cupy.cuda.Device().id}"
        return f"{name} {count} SMs" if by else name

    def _sm_count(self, address: int) -> tuple[int, str]:
        """SMs that the stream's kernels may use, and "a green context" where these are not the device's."""
        whole = whole_sm_count()
        green, context = c_void_p(), c_void_p()
        resource = ctypes.create_string_buffer(RESOURCE_BYTES)
        status = self._driver.cuStreamGetGreenCtx(c_void_p(address), byref(green))
        if status == 0 and green.value:
            status = self._driver.cuGreenCtxGetDevResource(green, resource, SM_RESOURCE)
        else:
            self._driver.cuCtxGetCurrent(byref(context))
            status = self._driver.cuCtxGetDevResource(context, resource, SM_RESOURCE)
        count = int.from_bytes(resource.raw[SM_COUNT_AT : SM_COUNT_AT + 4], "little")
        if status != 0 or not 0 < count < whole:
            return whole, ""
        return count, "a green context"

    def _attribute(self, number: int, function: int) -> int:
        return int(self._cupy.cuda.driver.funcGetAttribute(number, function))

    def _device_attribute(self, number: int, index: int) -> int:
        value = c_int()
        self._driver.cuDeviceGetAttribute(byref(value), c_int(number), c_int(index))
        return value.value
