"""The GPU at hand for microbenchmarks: kernels of this folder, launches on a stream, times between events.

Example: `bench.kernel("launches.cu", "span")` is compiled once; `bench.launch(kernel, blocks, threads, ...)`
puts it on a stream, `bench.elapsed_ns(graph)` times it behind a kernel that holds the GPU, so that no launch
from the host is in it.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.model.device import Device
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.run import control

FOLDER = Path(__file__).parent
HOLD_NS = 60_000  # the GPU is held this long while the host queues what is to be timed


@dataclass
class MicroBench:
    """The current GPU, a stream on it, and the kernels loaded so far."""

    device: Device = field(default_factory=query)

    def __post_init__(self) -> None:
        self.cupy = require_cupy()
        self.stream = self.cupy.cuda.Stream(non_blocking=True)

    @property
    def sms(self) -> int:
        """SMs that this process may use."""
        return self.device.sm_count

    @property
    def is_hopper(self) -> bool:
        """Whether wgmma and dependent launch are there."""
        return self.device.compute_capability >= (9, 0)

    def kernel(self, file: str, name: str, shared_bytes: int = 0) -> Function:
        """A kernel of this folder; `shared_bytes` is the dynamic shared memory it may be launched with."""
        function = load_function(FOLDER / file, name, Build())
        if shared_bytes:
            driver = self.cupy.cuda.driver
            driver.funcSetAttribute(
                function.function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
            )
        return function

    def prefer_carveout(self, kernel: Function, percent: int) -> None:
        """The carve-out that a kernel asks for; -1 leaves it to the driver."""
        driver = self.cupy.cuda.driver
        attribute = driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        driver.funcSetAttribute(kernel.function.ptr, attribute, percent)

    def launch(
        self,
        kernel: Function,
        blocks: int,
        threads: int,
        *arguments: Any,
        shared: int = 0,
        stream: Any = None,
    ) -> None:
        """One launch; arguments are CuPy arrays, NumPy scalars and records."""
        passed = tuple(
            np.uint64(argument.data.ptr) if hasattr(argument, "get") else argument for argument in arguments
        )
        kernel.function((blocks, 1, 1), (threads, 1, 1), passed, shared, stream or self.stream)

    def zeros(self, shape: Any, dtype: Any = np.uint64) -> Any:
        """Device memory of zeros, there before any other stream goes on."""
        made = self.cupy.zeros(shape, dtype)
        self.cupy.cuda.Device().synchronize()
        return made

    def synchronize(self) -> None:
        """Until the GPU is idle."""
        self.cupy.cuda.Device().synchronize()

    def capture(self, enqueue: Callable[[], None]) -> Any:
        """A CUDA graph of what a function puts on the stream."""
        with self.stream:
            self.stream.begin_capture()
            try:
                enqueue()
            finally:
                graph = self.stream.end_capture()
        return graph

    def hold(self, ns: int = HOLD_NS) -> None:
        """Keeps the stream busy for a while."""
        pass_time = load_function(control.SOURCE, "pass_time", Build()).function
        pass_time((1, 1, 1), (1, 1, 1), (np.uint64(ns),), 0, self.stream)

    def elapsed_ns(self, enqueue: Callable[[], None]) -> float:
        """Nanoseconds between events around what a function puts on the stream, the host's part hidden."""
        self.hold()
        start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        start.record(self.stream)
        enqueue()
        end.record(self.stream)
        self.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(start, end)) * 1e6

    def warm_up(self, enqueue: Callable[[], None], seconds: float = 0.05) -> None:
        """Runs something until the clock has risen from idle."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            enqueue()
            self.synchronize()

    def in_turns(self) -> AbstractContextManager[Any]:
        """The stream as CuPy's current one."""
        return self.stream
