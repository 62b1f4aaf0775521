"""A GPU that notes down what is put on its streams: for tests of what a library call launches, and where to.

Example: `gpu.operations(stream)` lists ("memset", ...), ("launch", kernel, arguments), ("record", event) and
("wait", event) in order. Arrays are addresses that no two of them share; pinned memory is the host's own.
"""

import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from pretended_gpu import Anything, Pinned, pretended_cupy

from wavesim.model.device import load
from wavesim_gpu.runtime import calls, functions, side_streams
from wavesim_gpu.runtime.cubin_cache import Cubin


@dataclass(eq=False)
class NotedStream:
    ptr: int
    operations: list[Any] = field(default_factory=list)

    def wait_event(self, event):
        self.operations.append(("wait", event))


class NotedEvent:
    def __init__(self, **options):
        self.stream = None

    def record(self, stream):
        self.stream = stream
        stream.operations.append(("record", self))


class NotedGpu:
    """`stream` is the caller's current one; `on_launch(kernel)` is called before each launch is noted."""

    def __init__(self):
        self.streams, self.blocks, self.is_capturing = [], [], False
        self.on_launch = lambda kernel: None
        self._next_address = 1 << 20
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
        module.cuda.Stream, module.cuda.Event = self.new_stream, NotedEvent
        module.cuda.get_current_stream = lambda: self.stream
        module.cuda.alloc_pinned_memory = self.pinned
        module.cuda.runtime.streamIsCapturing = lambda pointer: self.is_capturing
        module.cuda.runtime.memsetAsync = self._memset
        monkeypatch.setitem(sys.modules, "cupy", module)
        monkeypatch.setattr(functions, "_loaded", {})
        monkeypatch.setattr(functions, "compile_cubin", lambda *args: Cubin(b"", {}, ""))
        monkeypatch.setattr(functions, "_configured", self._function)
        monkeypatch.setattr(side_streams, "_green_context", lambda stream: None)
        for room in (calls, side_streams):
            monkeypatch.setattr(room, "allowed_while_capturing", nullcontext)

    def launches(self, name):
        """Arguments and stream of every launch of kernels whose name begins so, stream by stream."""
        return [
            (operation[2], stream)
            for stream in self.streams
            for operation in stream.operations
            if operation[0] == "launch" and operation[1].startswith(name)
        ]

    def _function(self, cupy, module, name, dynamic_shared_bytes):
        def launch(grid, block, arguments, shared_bytes, stream):
            self.on_launch(name)
            stream.operations.append(("launch", name, arguments))

        return functions.Function(module, _Kernel(launch), 64, 0, 0)

    def _asarray(self, values):
        return self.array(values.shape, values.dtype) if isinstance(values, np.ndarray) else values

    def _memset(self, address, value, count, pointer):
        stream = next(stream for stream in self.streams if stream.ptr == pointer)
        stream.operations.append(("memset", address, count))


class _Kernel(Anything):
    def __init__(self, launch):
        self._launch = launch

    def __call__(self, *arguments):
        return self._launch(*arguments)
