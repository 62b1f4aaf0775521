"""A GPU that notes down what is put on its streams: for tests of what a library call launches, and where to.

Example: `gpu.operations(stream)` lists ("memset", ...), ("launch", kernel, arguments), ("record", event) and
("wait", event) in order. Arrays are addresses that no two of them share; pinned memory is the host's own.
Launches through the driver are ("driver launch", `DriverLaunch`).
"""

import ctypes
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from pretended_gpu import Anything, Pinned, pretended_cupy

from wavesim.model.device import load
from wavesim_gpu.cusync.layout import GEMM_PARAMS, SYNC_PARAMS
from wavesim_gpu.driver import driver_api, functions
from wavesim_gpu.driver.cubin_cache import Cubin
from wavesim_gpu.kernels.gemm.sm90 import tensor_map
from wavesim_gpu.kernels.gemm.sm90.parameters import PARAMS
from wavesim_gpu.layers import call_states, calls, planned

CONTEXT = 0xC0
INVALID_CONTEXT, STREAM_CAPTURE_UNSUPPORTED = 201, 900


@dataclass(eq=False)
class NotedStream:
    ptr: int
    operations: list[Any] = field(default_factory=list)

    def wait_event(self, event):
        self.operations.append(("wait", event))

    def synchronize(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *caught):
        return False


class NotedEvent:
    def __init__(self, **options):
        self.stream = None

    def record(self, stream):
        self.stream = stream
        stream.operations.append(("record", self))


@dataclass(frozen=True)
class DriverLaunch:
    """What the driver got: the kernel, its parameters by stage, the number of blocks, attributes."""

    kernel: str
    sync: list[Any]
    gemm: list[Any]
    blocks: int
    attributes: dict[int, int]


class NotedDriver:
    """The driver's library: notes launches, and writes a tensor map's address where `encoded` puts it.

    The last of `contexts` is the calling thread's; `on_launch(kernel)` may return a status other than 0.
    """

    def __init__(self, gpu):
        self.gpu, self.contexts, self.numbers = gpu, [CONTEXT], {}
        names = ("StreamGetId", "LaunchKernelEx", "TensorMapReplaceAddress", "CtxGetCurrent", "GetErrorName")
        for name in (*names, "CtxPushCurrent_v2", "CtxPopCurrent_v2"):
            # A function of its own, as attributes are set on it.
            setattr(self, f"cu{name}", lambda *arguments, name=name: getattr(self, name)(*arguments))

    def StreamGetId(self, stream, number):
        if self.gpu.is_capturing:
            return STREAM_CAPTURE_UNSUPPORTED  # and the capture has ended, as was seen on an H200
        if self.contexts[-1] != CONTEXT and not stream.value:
            return INVALID_CONTEXT
        number._obj.value = self.numbers.get(stream.value, stream.value)
        return 0

    def CtxGetCurrent(self, context):
        context._obj.value = self.contexts[-1]
        return 0

    def CtxPushCurrent_v2(self, context):
        self.contexts.append(context)
        return 0

    def CtxPopCurrent_v2(self, context):
        self.contexts.pop()
        return 0

    def GetErrorName(self, status, name):
        name._obj.value = b"CUDA_ERROR_%d" % status
        return 0

    def TensorMapReplaceAddress(self, place, address):
        assert self.contexts[-1] == CONTEXT
        assert place % 64 == 0
        ctypes.c_uint64.from_address(place).value = address
        return 0

    def LaunchKernelEx(self, config, function, parameters, extra):
        if self.contexts[-1] != CONTEXT:
            return INVALID_CONTEXT
        assert not extra.value
        kernel, config = self.gpu.kernels[function.value], driver_api.LaunchConfig.from_address(config.value)
        if status := self.gpu.on_launch(kernel):
            return status
        kind = PARAMS if "sm90" in kernel else GEMM_PARAMS
        count = 4 if "fused" in kernel else 2
        addresses = list((ctypes.c_uint64 * count).from_address(parameters.value))
        sync, gemm = (
            [_copied(address, kind) for address in addresses[first::2]]
            for first, kind in enumerate((SYNC_PARAMS, kind))
        )
        kinds = (config.attributes[i] for i in range(config.attribute_count))
        attributes = {one.kind: one.value.flag for one in kinds}
        noted = DriverLaunch(kernel, sync, gemm, config.grid[0], attributes)
        (stream,) = [stream for stream in self.gpu.streams if stream.ptr == config.stream]
        stream.operations.append(("driver launch", noted))
        return 0


def _copied(address, kind):
    return np.frombuffer(ctypes.string_at(address, kind.itemsize), kind)[0]


def encoded(address, *others):
    """In place of a tensor map: its address, and something that is not zero."""
    return np.array([address, *[1] * 15], np.uint64).view("V128")[0]


class NotedGpu:
    """`stream` is the caller's current one; `on_launch(kernel)` is called before each launch is noted."""

    def __init__(self):
        self.streams, self.blocks, self.kernels, self.is_capturing = [], [], {}, False
        self.driver = NotedDriver(self)
        self.on_launch = lambda kernel: None
        self._next_address, self.ended, self.counters = 1 << 20, 0, 0
        self.stream = self.new_stream()

    def new_stream(self, **options):
        self.streams.append(NotedStream(0x1000 + 16 * len(self.streams)))
        return self.streams[-1]

    def array(self, shape, dtype="float16"):
        dtype, shape = np.dtype(dtype), (shape,) if isinstance(shape, int) else tuple(shape)
        size = int(np.prod(shape))
        address, self._next_address = self._next_address, self._next_address + size * dtype.itemsize + 4096
        return SimpleNamespace(
            __cuda_array_interface__={},
            data=SimpleNamespace(ptr=address // 512 * 512),
            shape=shape,
            dtype=dtype,
            strides=tuple(int(np.prod(shape[axis + 1 :])) * dtype.itemsize for axis in range(len(shape))),
            flags=SimpleNamespace(c_contiguous=True),
            device=SimpleNamespace(id=0),
            size=size,
            nbytes=size * dtype.itemsize,
        )

    def pinned(self, count):
        self.blocks.append(np.zeros(count, np.uint8).view(Pinned))
        return self.blocks[-1]

    def install(self, monkeypatch):
        """In CuPy's place, until the test is over."""
        module = pretended_cupy(load("h200"))
        module.empty = module.zeros = self.array
        module.asarray = self._asarray
        module.ascontiguousarray = lambda values: self.array(values.shape, values.dtype)
        module.cuda.Stream, module.cuda.Event = self.new_stream, NotedEvent
        module.cuda.get_current_stream = lambda: self.stream
        module.cuda.alloc_pinned_memory = self.pinned
        module.cuda.runtime.streamIsCapturing = lambda pointer: self.is_capturing
        module.cuda.runtime.memsetAsync = self._memset
        module.cuda.runtime.memcpyAsync = self._memcpy
        module.cuda.Memory = lambda size: SimpleNamespace(ptr=self.array(size, "uint8").data.ptr)
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.setattr(functions, "_loaded", {})
        monkeypatch.setattr(functions, "compile_cubin", lambda *args: Cubin(b"", {}, ""))
        monkeypatch.setattr(functions, "_configured", self._function)
        monkeypatch.setattr(driver_api, "_library", lambda: self.driver)
        monkeypatch.setattr(tensor_map, "_encode", encoded)
        driver_api.require_driver.cache_clear()
        for room in (calls, call_states):
            monkeypatch.setattr(room, "allowed_while_capturing", nullcontext)

    def launches(self, name):
        """Arguments and stream of every launch of kernels whose name begins so, stream by stream."""
        return [
            (operation[2], stream)
            for stream in self.streams
            for operation in stream.operations
            if operation[0] == "launch" and operation[1].startswith(name)
        ]

    def driver_launches(self):
        """What was launched through the driver, stream by stream."""
        return [
            operation[1]
            for stream in self.streams
            for operation in stream.operations
            if operation[0] == "driver launch"
        ]

    def _function(self, cupy, module, name, dynamic_shared_bytes):
        def launch(grid, block, arguments, shared_bytes, stream):
            self.on_launch(name)
            stream.operations.append(("launch", name, arguments))

        kernel = _Kernel(launch)
        kernel.ptr = 0x5000 + len(self.kernels)
        self.kernels[kernel.ptr] = name
        return functions.Function(module, kernel, 64, 0, 0)

    def _asarray(self, values):
        return self.array(values.shape, values.dtype) if isinstance(values, np.ndarray) else values

    def _memcpy(self, to, address, count, kind, pointer):
        """What the device holds is not known: `ended` and the `counters` are what the test says they are."""
        ctypes.c_uint32.from_address(to).value = self.ended if count == 4 else self.counters

    def _memset(self, address, value, count, pointer):
        stream = next(stream for stream in self.streams if stream.ptr == pointer)
        stream.operations.append(("memset", address, count))


class _Kernel(Anything):
    def __init__(self, launch):
        self._launch = launch

    def __call__(self, *arguments):
        return self._launch(*arguments)


def noted_calls(monkeypatch):
    """Yields a NotedGpu that library calls run on, in a process that has made none yet."""
    gpu = NotedGpu()
    gpu.install(monkeypatch)
    monkeypatch.setattr(planned, "allowed_while_capturing", call_states.allowed_while_capturing)
    monkeypatch.setattr(calls.atexit, "register", lambda *args: None)
    calls._process_log.cache_clear()
    planned.states_of.cache_clear()
    yield gpu
    calls._process_log.cache_clear()
    planned.states_of.cache_clear()
