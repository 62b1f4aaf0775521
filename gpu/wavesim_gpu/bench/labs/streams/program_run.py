"""A stream program on the GPU at hand: streams, memory and calls, made ready once and played many times.

Example: `ProgramRun(example("host functions").make(132)).play()` is what it took by the host's clock;
`kernel_spans()` is when its kernels ran by %globaltimer, `copy_spans()` when its copies ran, between events.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.sim.streams.examples import WHOLE_SM
from wavesim.sim.streams.program import (
    HostCall,
    HostWork,
    LaunchHostFunction,
    LaunchKernel,
    Memcpy,
    RecordEvent,
    StreamProgram,
    SynchronizeDevice,
    SynchronizeEvent,
    SynchronizeStream,
    WaitEvent,
)
from wavesim.sim.streams.stream_order import LEGACY
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.functions import load_function

SOURCE = Path(__file__).parent / "hold.cu"
TO_DEVICE, TO_HOST, WITHIN = 1, 2, 3  # cudaMemcpyKind
KINDS = {"h2d": TO_DEVICE, "d2h": TO_HOST, "d2d": WITHIN}
Spans = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class CopyBuffer:
    """What copies of one array move between; `source` is device memory too for copies within the device."""

    host: np.ndarray[Any, np.dtype[np.uint8]]
    device: Any
    source: Any
    pinned: Any  # keeps pinned memory

    def addresses(self, call: Memcpy) -> tuple[int, int]:
        """Destination and source of a copy."""
        host, device = self.host.ctypes.data + call.first_byte, self.device.data.ptr + call.first_byte
        return {"h2d": (device, host), "d2h": (host, device), "d2d": (device, self.source.data.ptr)}[
            call.direction
        ]


class ProgramRun:
    """Raises `DescriptionError` for what no example has: host threads, kernels that wait for others."""

    def __init__(self, program: StreamProgram) -> None:
        if len(program.threads) > 1 or any(getattr(call, "until", "") for call in program.calls):
            raise DescriptionError(
                f"{program.name}: several host threads, or kernels that wait for others, are not measured"
            )
        self.program = program
        self._cupy = require_cupy()
        self._runtime = self._cupy.cuda.runtime
        self._streams = {LEGACY: self._cupy.cuda.Stream.null}
        for entry in program.streams:
            made = self._cupy.cuda.Stream(non_blocking=not entry.is_blocking, priority=entry.clamped_priority)
            self._streams[entry.name] = made
        self._arrays = self._made_arrays()
        self._stamps = {
            entry.name: self._cupy.zeros((entry.blocks, 2), np.uint64)
            for entry in program.operations
            if isinstance(entry, LaunchKernel)
        }
        names = {
            call.event
            for call in program.calls
            if isinstance(call, RecordEvent | WaitEvent | SynchronizeEvent)
        }
        self._events = {name: self._cupy.cuda.Event(disable_timing=True) for name in names}
        self._calls = [self._prepared(call) for call in program.calls]

    def play(self) -> tuple[int, int]:
        """Host nanoseconds from the first call until all but the last had returned, and until that had."""
        self._runtime.deviceSynchronize()
        *calls, last = self._calls
        began = time.perf_counter_ns()
        for call in calls:
            call()
        issued = time.perf_counter_ns()
        last()
        return issued - began, time.perf_counter_ns() - began

    def kernel_spans(self) -> Spans:
        """Start and end of the last run's kernels, from the first kernel's start."""
        return _from(self._stamped(), self._first_ns())

    def copy_spans(self) -> Spans:
        """Start and end of the copies in one more run, from the first kernel's start; none without a kernel.

        Copies are timed between events, which take a little time: the run counts for nothing else.
        """
        if not self._stamps or not self._copies():
            return {}
        marks = {entry.name: (self._cupy.cuda.Event(), self._cupy.cuda.Event()) for entry in self._copies()}
        calls = [
            self._marked(call, made, marks)
            for call, made in zip(self.program.calls, self._calls, strict=True)
        ]
        base, origin_ns = self._mark()
        for call in calls:
            call()
        self._runtime.deviceSynchronize()
        elapsed = self._cupy.cuda.get_elapsed_time
        result = {
            name: [origin_ns + round(1e6 * elapsed(base, mark)) for mark in pair]
            for name, pair in marks.items()
        }
        return _from({name: (start, end) for name, (start, end) in result.items()}, self._first_ns())

    def is_sum_right(self) -> bool:
        """Whether one more run, over poisoned memory, leaves a + b in c; true where nothing is added."""
        count = sum(entry.elements for entry in self.program.operations if isinstance(entry, LaunchKernel))
        if not count:
            return True
        a, b, c = (self._floats(array, count) for array in "abc")
        generator = np.random.default_rng()
        a[:], b[:], c[:] = generator.random(count, np.float32), generator.random(count, np.float32), np.nan
        for array in "abc":
            self._arrays[array].device.fill(0xFF)
        self.play()
        return bool(np.array_equal(c, a + b))

    def _floats(self, array: str, count: int) -> Any:
        return self._arrays[array].host[: 4 * count].view(np.float32)

    def _mark(self) -> tuple[Any, int]:
        """An event right behind a kernel, and when by %globaltimer that kernel ended."""
        stamps, stream = self._cupy.zeros((1, 2), np.uint64), self._cupy.cuda.Stream(non_blocking=True)
        self._runtime.deviceSynchronize()
        kernel = LaunchKernel("mark", block_ns=1)
        self._launch(kernel, stream, stamps)()
        base = self._cupy.cuda.Event()
        base.record(stream)
        self._runtime.deviceSynchronize()
        return base, self._kernel_span(stamps)[1]

    def _first_ns(self) -> int:
        return min((start for start, _ in self._stamped().values()), default=0)

    def _stamped(self) -> Spans:
        return {name: self._kernel_span(stamps) for name, stamps in self._stamps.items()}

    def _kernel_span(self, stamps: Any) -> tuple[int, int]:
        seen = stamps.get()
        return int(seen[:, 0].min()), int(seen[:, 1].max())

    def _marked(
        self, call: HostCall, made: Callable[[], object], marks: Mapping[str, Any]
    ) -> Callable[[], object]:
        """A copy between two events; every other call as it is."""
        if not isinstance(call, Memcpy):
            return made
        (start, end), stream = marks[call.name], self._streams[call.stream]

        def marked() -> None:
            start.record(stream)
            made()
            end.record(stream)

        return marked

    # --- each call, ready to be made ---

    def _prepared(self, call: HostCall) -> Callable[[], object]:
        runtime, stream = self._runtime, self._streams[getattr(call, "stream", LEGACY)]
        match call:
            case LaunchKernel():
                return self._launch(call, stream, self._stamps[call.name])
            case Memcpy():
                return self._copy(call, stream)
            case LaunchHostFunction():
                return partial(stream.launch_host_func, spend, call.ns)
            case RecordEvent():
                return partial(runtime.eventRecord, self._events[call.event].ptr, stream.ptr)
            case WaitEvent():
                return partial(runtime.streamWaitEvent, stream.ptr, self._events[call.event].ptr)
            case _:
                return self._waiting(call, stream)

    def _waiting(self, call: HostCall, stream: Any) -> Callable[[], object]:
        match call:
            case SynchronizeStream():
                return partial(self._runtime.streamSynchronize, stream.ptr)
            case SynchronizeEvent():
                return partial(self._runtime.eventSynchronize, self._events[call.event].ptr)
            case HostWork():
                return partial(spend, call.ns)
            case _:
                assert isinstance(call, SynchronizeDevice)
                return partial(self._runtime.deviceSynchronize)

    def _launch(self, call: LaunchKernel, stream: Any, stamps: Any) -> Callable[[], object]:
        shared = call.block.dynamic_shared_bytes
        function = load_function(SOURCE, "hold", Build(), WHOLE_SM.dynamic_shared_bytes).function
        arrays = [0, 0, 0]
        if call.elements:
            offset = 4 * call.first_element
            arrays = [self._arrays[array].device.data.ptr + offset for array in "abc"]
        arguments = (
            np.uint64(stamps.data.ptr),
            np.uint64(call.block_ns),
            *(np.uint64(address) for address in arrays),
            np.uint64(call.elements),
        )
        return partial(function, (call.blocks, 1, 1), (call.block.threads, 1, 1), arguments, shared, stream)

    def _copy(self, call: Memcpy, stream: Any) -> Callable[[], object]:
        to, source = self._arrays[call.array or call.name].addresses(call)
        if not call.is_async:
            return partial(self._runtime.memcpy, to, source, call.bytes, KINDS[call.direction])
        return partial(self._runtime.memcpyAsync, to, source, call.bytes, KINDS[call.direction], stream.ptr)

    # --- memory ---

    def _copies(self) -> list[Memcpy]:
        return [entry for entry in self.program.operations if isinstance(entry, Memcpy)]

    def _made_arrays(self) -> dict[str, CopyBuffer]:
        """By the array that copies name; a copy that names none has memory of its own."""
        alike: dict[str, list[Memcpy]] = {}
        for entry in self._copies():
            alike.setdefault(entry.array or entry.name, []).append(entry)
        return {name: self._new_buffer(copies) for name, copies in alike.items()}

    def _new_buffer(self, copies: list[Memcpy]) -> CopyBuffer:
        count = max(entry.first_byte + entry.bytes for entry in copies)
        pinned = self._cupy.cuda.alloc_pinned_memory(count) if copies[0].is_pinned else None
        host = np.empty(count, np.uint8) if pinned is None else np.frombuffer(pinned, np.uint8, count)
        host[:] = 0  # pages that were never written are not there yet
        source = self._cupy.zeros(count if copies[0].direction == "d2d" else 1, np.uint8)
        return CopyBuffer(host, self._cupy.zeros(count, np.uint8), source, pinned)


def _from(spans: Spans, first_ns: int) -> Spans:
    return {name: (start - first_ns, end - first_ns) for name, (start, end) in spans.items()}


def spend(ns: int) -> None:
    """Lets time of the host pass, computing."""
    began = time.perf_counter_ns()
    while time.perf_counter_ns() - began < ns:
        pass
