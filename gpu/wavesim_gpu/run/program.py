"""One pipeline under one plan, ready to launch: which kernels with which parameters on which stream.

Example: under row semaphores GPT-3's MLP is three launches on two streams: the first GEMM, the wait-kernel
and the second GEMM. With dependent launch it is two on one stream: the second GEMM may start once every block
of the first has, which is all that the wait-kernel is for. As one persistent kernel it is one launch.
`launches.py` enqueues and captures them.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from wavesim.codegen.options import Option
from wavesim.errors import DeviceError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim_gpu.cusync.layout import MAX_AWAITED_STARTS, MAX_INPUTS
from wavesim_gpu.cusync.sync_state import LIMIT_S, SyncState
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch
from wavesim_gpu.kernels.backends import DEFAULT, backends_of
from wavesim_gpu.kernels.stage_backend import Scratch
from wavesim_gpu.run import control
from wavesim_gpu.run.launches import Launches
from wavesim_gpu.run.operands import Operands
from wavesim_gpu.run.planned_kernels import PlannedKernel, kernels_of

TIMES_BYTES = 16  # start and end of a wait-kernel


class Program(Launches):
    """A pipeline's launches under a plan over given operands.

    `default` is the backend of stages that name none; `options` are what the kernels are compiled with, by
    default all that hold. `is_self_resetting`: the last block zeroes the counters, and not a memset before
    each run; by default where a block computes more than one tile. `limit_ns` is as for `SyncState`.

    `follows_closely`: the first kernel of a plan by dependent launch is launched so too. It is there when
    what is ahead of it in the stream ends, and touches no memory before. Ignored where its backend does not
    know how to wait for that (`begins_calls`), or where a memset comes first.

    All that its runs write, they share: operands, counters, partial sums, records. `Launches` lets one run
    begin when the one before has ended. What shall run at the same time needs a program of its own.
    """

    def __init__(  # noqa: PLR0913  # all named: how it is built and run
        self,
        pipeline: Pipeline,
        plan: Plan,
        operands: Operands,
        *,
        build: Build | None = None,
        limit_ns: int = int(LIMIT_S * 1e9),
        default: str = DEFAULT,
        options: tuple[Option, ...] | None = None,
        is_self_resetting: bool | None = None,
        follows_closely: bool = False,
    ) -> None:
        self.build = build or Build()
        self.pipeline, self.plan, self.operands = pipeline, plan, operands
        self.backends = backends_of(pipeline, default)
        kernels = kernels_of(pipeline, plan, query(), default)
        self.sources = tuple(dict.fromkeys(kernel.source for kernel in kernels))
        self._first_stages = kernels[0].stages
        self.shapes = {name: kernel.launch for kernel in kernels for name in kernel.stages}
        if is_self_resetting is None:
            is_self_resetting = plan.schedule.is_persistent
        sync = SyncState(
            pipeline,
            plan,
            limit_ns=limit_ns,
            is_recording=self.build.is_recording,
            options=options,
            block_count=sum(kernel.launch.blocks for kernel in kernels) if is_self_resetting else 0,
            order=operands.order,
            own_tickets=[name for name, backend in self.backends.items() if backend.resets_tickets],
        )
        self.sync, self._cupy = sync, require_cupy()
        knows_how = plan.launch.is_dependent and kernels[0].backend.begins_calls and not sync.needs_reset
        self.follows_closely = follows_closely and knows_how
        self._wait_times: dict[str, Any] = {}
        self.functions: dict[str, Function] = {}
        launches = [launch for kernel in kernels for launch in self._launches(kernel)]
        super().__init__(sync, launches, len(pipeline.stages) if plan.launch.is_multi_stream else 1)

    def blocks_per_sm(self, name: str) -> int:
        """Resident blocks of a stage per SM, the driver's own answer."""
        shape = self.shapes[name]
        return self.functions[name].blocks_per_sm(shape.threads, shape.dynamic_shared_bytes)

    def wait_times(self) -> dict[str, tuple[int, int]]:
        """When each stage's recorded wait-kernels started and ended, by consumer, on the GPU's clock."""
        times_of = {}
        for name, times in self._wait_times.items():
            noted = times.get()
            times_of[name] = (int(noted[0, 0]), int(noted.max()))
        return times_of

    def _launches(self, kernel: PlannedKernel) -> list[DeviceLaunch]:
        first, shape = kernel.stages[0], kernel.launch
        stream = self.sync.names.index(first) if self.plan.launch.is_multi_stream else 0
        launches = []
        if self.plan.launch.wait_kernel:
            launches += self._wait_launches(first, stream)
        function = load_function(
            kernel.source,
            shape.expression,
            self.build,
            shape.dynamic_shared_bytes,
            kernel.header({name: header.text for name, header in self.sync.headers.items()}),
        )
        self.functions |= dict.fromkeys(kernel.stages, function)
        if self.blocks_per_sm(first) < 1:
            raise DeviceError(
                f"stage {first}: a block of {shape.threads} threads, {function.registers} registers "
                f"and {shape.dynamic_shared_bytes} bytes of shared memory does not fit on this GPU. "
                "Use smaller tiles"
            )
        arguments = [argument for name in kernel.stages for argument in self._arguments(name)]
        shape = replace(shape, is_dependent=shape.is_dependent or self._begins(first))
        return [*launches, DeviceLaunch(function, shape, tuple(arguments), stream, kernel.stages)]

    def _begins(self, name: str) -> bool:
        """Whether a stage's kernel waits for what is ahead of the run."""
        return self.follows_closely and name in self._first_stages

    def _arguments(self, name: str) -> tuple[Any, ...]:
        work, backend = self.pipeline.stage(name).work, self.backends[name]
        size = backend.partial_bytes(work, self.plan)
        partials = self._cupy.zeros(size, np.uint8) if size else None
        if partials is not None:
            self.sync.clear_after_abort(partials)
        scratch = Scratch(partials.data.ptr if partials is not None else 0, self.sync.tickets(name))
        places = self.operands.places(name)
        params = self.sync.params(name)
        params["sync"]["call"]["begins"] = self._begins(name)
        return (params, *backend.stage_arguments(work, self.plan, places, scratch))

    def _wait_launches(self, name: str, stream: int) -> list[DeviceLaunch]:
        dependency = self.pipeline.dependency_of(name)
        if dependency is None:
            return []
        times = 0
        if self.build.is_recording:
            self._wait_times[name] = self._cupy.zeros((MAX_INPUTS, 2), np.uint64)
            times = int(self._wait_times[name].data.ptr)
        groups = _batched(dependency.producers, MAX_AWAITED_STARTS)
        return [
            wait_launch(self.sync, name, stream, self.build, times and times + i * TIMES_BYTES, group)
            for i, group in enumerate(groups)
        ]


def wait_launch(
    sync: SyncState,
    consumer: str,
    stream: int,
    build: Build,
    times: int = 0,
    producers: tuple[str, ...] | None = None,
) -> DeviceLaunch:
    """The wait-kernel of a stage, for the starts of up to `MAX_AWAITED_STARTS` producers, by default all.

    `times` is where it notes its start and end on the device, or 0.
    """
    dependency = sync.pipeline.dependency_of(consumer)
    assert dependency is not None, "a stage without producers has nothing to wait for"
    names = dependency.producers if producers is None else producers
    function = load_function(control.SOURCE, "wait_for_start", build)
    numbers = tuple(sync.names.index(name) for name in names)
    arguments = (sync.params(consumer), control.wait_params(numbers, times))
    return DeviceLaunch(function, control.WAIT_LAUNCH, arguments, stream, (consumer,), names)


def _batched(names: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    return [names[first : first + most] for first in range(0, len(names), most)]
