"""One pipeline under one plan, ready to launch: kernels, parameters, streams, and a CUDA graph of it all.

Picture: `Program.enqueue()` resets the semaphores, launches every stage (a stream each, wait-kernels
between, under semaphores; one stream otherwise) and joins; captured once, the same becomes a graph that
can be replayed, and every replay starts from reset semaphores.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError, DeviceError
from wavesim.gen.options import Option
from wavesim.gen.single_stage import stage_header
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, SemaphoreSync
from wavesim_gpu.compiler import Build, compile_cubin
from wavesim_gpu.device import architecture, query, require_cupy
from wavesim_gpu.kernels import control
from wavesim_gpu.kernels.families import family_named
from wavesim_gpu.kernels.family import Addresses, Family, KernelLaunch
from wavesim_gpu.launching import launch_extended
from wavesim_gpu.operands import Operands
from wavesim_gpu.sync_state import SyncState

FULL_CARVEOUT = 100  # percent: without it kernels that ask for less shared memory shut each other out
GENERATED = "generated.cuh"  # how kernels include their stage's generated header
_loaded: dict[tuple[str, str, Build, str], "Function"] = {}


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


def load_function(
    source: Path, name: str, build: Build, dynamic_shared_bytes: int = 0, header: str = ""
) -> Function:
    """The named kernel, or template instance, compiled for this GPU, with the full carve-out.

    `header` is the text of <generated.cuh>.
    """
    key = (f"{source}", name, build, header)
    if key not in _loaded:
        cupy = require_cupy()
        is_template = "<" in name
        cubin = compile_cubin(
            source, (name,) if is_template else (), architecture(cupy), build, {GENERATED: header}
        )
        module = cupy.cuda.function.Module()
        module.load(cubin.data)
        _loaded[key] = _configured(cupy, module, cubin.lowered.get(name, name), dynamic_shared_bytes)
    return _loaded[key]


def compile_ahead(pipeline: Pipeline, plans: Iterable[Plan], builds: Iterable[Build], family: Family) -> None:
    """Compiles the kernels of several plans at once, in threads, for the cache that loading reads."""
    arch, device = architecture(require_cupy()), query()
    wanted = {
        (
            family.launch(stage.gemm, device).expression,
            build,
            stage_header(pipeline, plan, stage.name, always_draws=family.is_persistent).text,
        )
        for plan in plans
        for stage in pipeline.stages
        for build in builds
    }
    with ThreadPoolExecutor() as pool:
        done = [
            pool.submit(compile_cubin, family.source, (name,), arch, build, {GENERATED: header})
            for name, build, header in wanted
        ]
        for one in done:
            one.result()


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
    shape: KernelLaunch
    arguments: tuple[Any, ...]
    stream: int

    def enqueue(self, streams: Sequence[Any]) -> None:
        """Launches it."""
        shape, stream = self.shape, streams[self.stream]
        if shape.cluster > 1 or shape.is_dependent:
            launch_extended(self.function.function, shape, self.arguments, stream)
            return
        self.function.function(
            (shape.blocks, 1, 1),
            (shape.threads, 1, 1),
            self.arguments,
            shape.dynamic_shared_bytes,
            stream,
        )


class Program:
    """A pipeline's launches under a plan over given operands.

    `family` computes the GEMMs; `options` are what the kernels are compiled with, by default all that hold.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        plan: Plan,
        operands: Operands,
        *,
        build: Build | None = None,
        limit_ns: int = 2_000_000_000,
        family: Family | None = None,
        options: tuple[Option, ...] | None = None,
    ) -> None:
        self.build, self.family = build or Build(), family or family_named("portable")
        self.pipeline, self.plan, self.operands = pipeline, plan, operands
        self.sync = SyncState(
            pipeline,
            plan,
            limit_ns=limit_ns,
            is_recording=self.build.is_recording,
            options=options,
            always_draws=self.family.is_persistent,
        )
        self._cupy = require_cupy()
        self._partials: list[Any] = []
        self._wait_times: dict[str, Any] = {}
        self.functions: dict[str, Function] = {}
        self.shapes: dict[str, KernelLaunch] = {}
        self.launches = tuple(
            launch for stage in pipeline.stages for launch in self._stage_launches(stage.name)
        )
        count = len(pipeline.stages) if isinstance(plan, SemaphoreSync) else 1
        self.streams = tuple(self._cupy.cuda.Stream(non_blocking=True) for _ in range(count))
        # Operands and tables are made on the default stream, which these streams do not wait for.
        self._cupy.cuda.Device().synchronize()

    def blocks_per_sm(self, name: str) -> int:
        """Resident blocks of a stage per SM, the driver's own answer."""
        shape = self.shapes[name]
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
        shape = self.family.launch(self.pipeline.stage(name).gemm, query())
        function = load_function(
            self.family.source,
            shape.expression,
            self.build,
            shape.dynamic_shared_bytes,
            self.sync.headers[name].text,
        )
        self.functions[name], self.shapes[name] = function, shape
        if self.blocks_per_sm(name) < 1:
            raise DeviceError(
                f"stage {name}: a block of {shape.threads} threads, {function.registers} registers "
                f"and {shape.dynamic_shared_bytes} bytes of shared memory does not fit on this GPU. "
                "Use smaller tiles"
            )
        return [*launches, Launch(function, shape, self._arguments(name), stream)]

    def _arguments(self, name: str) -> tuple[Any, ...]:
        work = self.pipeline.stage(name).gemm
        partials = self._cupy.empty(self.family.partial_bytes(work), np.uint8) if work.split_k > 1 else None
        self._partials.append(partials)
        a, b, c = (arrays[name].data.ptr for arrays in (self.operands.a, self.operands.b, self.operands.c))
        addresses = Addresses(
            a, b, c, partials.data.ptr if partials is not None else 0, self.sync.tickets(name)
        )
        return (self.sync.params(name), *self.family.arguments(work, addresses))

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
        return [Launch(function, control.WAIT_LAUNCH, arguments, stream)]


def require_gemms(pipeline: Pipeline, family: Family) -> None:
    """Raises `DescriptionError` unless every stage is a GEMM that the family's kernels can compute."""
    for stage in pipeline.stages:
        try:
            family.check(stage.gemm)
        except DescriptionError as error:
            raise DescriptionError(f"pipeline {pipeline.name} cannot run on the GPU: {error}") from None
