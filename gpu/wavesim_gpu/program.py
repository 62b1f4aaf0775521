"""One pipeline under one plan, ready to launch: kernels, parameters, streams, and a CUDA graph of it all.

Picture: `Program.enqueue()` resets the semaphores, launches every stage (a stream each, wait-kernels
between, under semaphores; one stream otherwise) and joins; captured once, the same becomes a graph that
can be replayed, and every replay starts from reset semaphores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync
from wavesim_gpu.compiler import Build, compile_cubin
from wavesim_gpu.device import architecture, require_cupy
from wavesim_gpu.kernels import control, gemm
from wavesim_gpu.operands import Operands
from wavesim_gpu.sync_state import SyncState

FULL_CARVEOUT = 100  # percent: without it kernels that ask for less shared memory shut each other out
_loaded: dict[tuple[str, str, Build], "Function"] = {}


@dataclass(frozen=True)
class Function:
    """A loaded kernel and what the driver says of it. `module` keeps it loaded."""

    module: Any
    function: Any
    registers: int
    static_shared_bytes: int
    local_bytes: int

    def block(self, threads: int, dynamic_shared_bytes: int) -> Block:
        """What one of its blocks occupies."""
        return Block(threads, self.registers, self.static_shared_bytes, dynamic_shared_bytes)

    def blocks_per_sm(self, threads: int, dynamic_shared_bytes: int) -> int:
        """Resident blocks per SM, the driver's own answer."""
        driver = require_cupy().cuda.driver
        return int(
            driver.occupancyMaxActiveBlocksPerMultiprocessor(self.function.ptr, threads, dynamic_shared_bytes)
        )


def load_function(source: Any, name: str, build: Build, dynamic_shared_bytes: int = 0) -> Function:
    """The named kernel, or template instance, compiled for this GPU, with the full carve-out."""
    key = (f"{source}", name, build)
    if key not in _loaded:
        cupy = require_cupy()
        is_template = "<" in name
        cubin = compile_cubin(source, (name,) if is_template else (), architecture(cupy), build)
        module = cupy.cuda.function.Module()
        module.load(cubin.data)
        _loaded[key] = _configured(cupy, module, cubin.lowered.get(name, name), dynamic_shared_bytes)
    return _loaded[key]


def _configured(cupy: Any, module: Any, name: str, dynamic_shared_bytes: int) -> Function:
    driver = cupy.cuda.driver
    function = module.get_function(name)
    driver.funcSetAttribute(
        function.ptr, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, FULL_CARVEOUT
    )
    if dynamic_shared_bytes:
        driver.funcSetAttribute(
            function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_shared_bytes
        )
    registers, shared, local = (
        int(driver.funcGetAttribute(attribute, function.ptr))
        for attribute in (
            driver.CU_FUNC_ATTRIBUTE_NUM_REGS,
            driver.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            driver.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        )
    )
    return Function(module, function, registers, shared, local)


@dataclass(frozen=True)
class Launch:
    """One kernel launch: what, how large, with which parameters, on which stream of the program's."""

    function: Function
    grid: int
    threads: int
    dynamic_shared_bytes: int
    arguments: tuple[Any, ...]
    stream: int

    def enqueue(self, streams: Sequence[Any]) -> None:
        """Launches it."""
        self.function.function(
            (self.grid, 1, 1),
            (self.threads, 1, 1),
            self.arguments,
            self.dynamic_shared_bytes,
            streams[self.stream],
        )


class Program:
    """A pipeline's launches under a plan over given operands."""

    def __init__(
        self,
        pipeline: Pipeline,
        plan: Plan,
        operands: Operands,
        *,
        build: Build | None = None,
        limit_ns: int = 2_000_000_000,
    ) -> None:
        self.build = build or Build()
        self.pipeline, self.plan, self.operands = pipeline, plan, operands
        self.sync = SyncState(pipeline, plan, limit_ns=limit_ns, is_recording=self.build.is_recording)
        self._cupy = require_cupy()
        self._partials: list[Any] = []
        self._wait_times: dict[str, Any] = {}
        self.functions: dict[str, Function] = {}
        self.launches = tuple(
            launch for stage in pipeline.stages for launch in self._stage_launches(stage.name)
        )
        count = len(pipeline.stages) if isinstance(plan, SemaphoreSync) else 1
        self.streams = tuple(self._cupy.cuda.Stream(non_blocking=True) for _ in range(count))
        # Operands and tables are made on the default stream, which these streams do not wait for.
        self._cupy.cuda.Device().synchronize()

    def blocks_per_sm(self, name: str) -> int:
        """Resident blocks of a stage per SM, the driver's own answer."""
        shape = gemm.variant(self.pipeline.stage(name).gemm).shape
        return self.functions[name].blocks_per_sm(shape.threads, shape.dynamic_shared_bytes)

    def enqueue(self) -> None:
        """Resets, launches everything and joins, all on the program's streams; the first one ends last."""
        first, *others = self.streams
        self.sync.reset(first)
        ready = self._event(first)
        for stream in others:
            stream.wait_event(ready)
        for launch in self.launches:
            launch.enqueue(self.streams)
        for stream in others:
            first.wait_event(self._event(stream))

    def capture(self) -> Any:
        """The same as a CUDA graph. In it parallel branches have no order; the wait-kernels give one."""
        first = self.streams[0]
        with first:
            first.begin_capture()
            try:
                self.enqueue()
            finally:
                graph = first.end_capture()
        return graph

    def synchronize(self) -> None:
        """Until everything enqueued is done. Raises `DeadlockError` if a wait ran out of time."""
        for stream in self.streams:
            stream.synchronize()
        self.sync.check()

    def wait_times(self) -> dict[str, tuple[int, int]]:
        """Start and end of each recorded wait-kernel, by consumer, on the GPU's clock."""
        return {
            name: (int(times[0]), int(times[1]))
            for name, times in ((n, t.get()) for n, t in self._wait_times.items())
        }

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def _stage_launches(self, name: str) -> list[Launch]:
        index = self.sync.names.index(name)
        stream = index if isinstance(self.plan, SemaphoreSync) else 0
        launches = []
        if isinstance(self.plan, SemaphoreSync) and self.plan.wait_kernel:
            launches += self._wait_launch(name, stream)
        work = self.pipeline.stage(name).gemm
        variant = gemm.variant(work)
        dynamic = variant.shape.dynamic_shared_bytes
        function = load_function(gemm.SOURCE, variant.expression, self.build, dynamic)
        self.functions[name] = function
        if self.blocks_per_sm(name) < 1:
            raise DeviceError(
                f"stage {name}: a block of {variant.shape.threads} threads, {function.registers} registers "
                f"and {dynamic} bytes of shared memory does not fit on this GPU. Use smaller tiles"
            )
        arguments = (self.sync.params(name), self._gemm_params(name))
        return [
            *launches,
            Launch(function, work.grid.size, variant.shape.threads, dynamic, arguments, stream),
        ]

    def _gemm_params(self, name: str) -> Any:
        work = self.pipeline.stage(name).gemm
        partials = self._cupy.empty(gemm.partial_bytes(work), np.uint8) if work.split_k > 1 else None
        self._partials.append(partials)
        a, b, c = (arrays[name].data.ptr for arrays in (self.operands.a, self.operands.b, self.operands.c))
        return gemm.params(
            work,
            a=a,
            b=b,
            c=c,
            partials=partials.data.ptr if partials is not None else 0,
            tickets=self.sync.tickets(name),
        )

    def _wait_launch(self, name: str, stream: int) -> list[Launch]:
        dependency = self.pipeline.dependency_of(name)
        if dependency is None:
            return []
        producers = tuple(self.sync.names.index(producer) for producer in dependency.producers)
        times = 0
        if self.build.is_recording:
            self._wait_times[name] = self._cupy.zeros(2, np.uint64)
            times = int(self._wait_times[name].data.ptr)
        function = load_function(control.SOURCE, "wait_for_start", self.build)
        arguments = (self.sync.params(name), control.wait_params(producers, times))
        return [Launch(function, 1, control.WAIT_THREADS, 0, arguments, stream)]


def require_gemms(pipeline: Pipeline) -> None:
    """Raises `DescriptionError` unless every stage is a GEMM that our kernels can compute."""
    for stage in pipeline.stages:
        try:
            gemm.variant(stage.gemm)
        except DescriptionError as error:
            raise DescriptionError(f"pipeline {pipeline.name} cannot run on the GPU: {error}") from None
