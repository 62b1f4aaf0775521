"""`mlp(x, w1, w2)`: two dependent GEMMs on the caller's arrays, tuned where it is first called.

Example: the first call with new shapes times each tile size under stream sync and under row semaphores on
random operands, for some seconds, and keeps the fastest. Every later call launches that on the caller's
current stream: two kernels and a wait-kernel, forked to a stream of ours and joined again, with all memory
from the caller's allocator. So from the second call on it can be captured in a graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Activation, Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim_gpu.kernels.backend import Addresses
from wavesim_gpu.kernels.backends import require_computes
from wavesim_gpu.program import Program
from wavesim_gpu.runner import CupyRunner
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.operands import Operands, random_operands
from wavesim_gpu.runtime.tensors import (
    Tensor,
    current_stream,
    empty_like,
    is_capturing,
    needs_gradient,
    on_device_of,
    tensor_of,
    workspace,
)

TILES = ((128, 256, 64), (256, 128, 64), (128, 128, 64), (64, 64, 32))
PLANS: tuple[Plan, ...] = (StreamSync(), SemaphoreSync(RowSync()), SemaphoreSync(RowSync(), order=Grouped(4)))
ROUNDS = 9
BACKEND = "portable"  # on every GPU
_prepared: dict["Shape", "PreparedMlp"] = {}


@dataclass(frozen=True)
class Shape:
    """What a plan is tuned for: sizes (m, k, n1, n2), element type, activation, and the GPU's number."""

    sizes: tuple[int, int, int, int]
    dtype: Any
    activation: Activation | None
    device: int

    def pipeline(self, tile: tuple[int, int, int]) -> Pipeline:
        """The two GEMMs in tiles of (rows, columns, depth)."""
        m, k, n1, n2 = self.sizes
        kind, activation = self.dtype, self.activation
        first = Stage("gemm1", Gemm("gemm1", m, n1, k, *tile, dtype=kind, activation=activation), BACKEND)
        second = Stage("gemm2", Gemm("gemm2", m, n2, n1, *tile, dtype=kind), BACKEND)
        return Pipeline("mlp", [first, second], [Dependency(second[x, y], [first[:, y]])])


def mlp(x: Any, w1: Any, w2: Any, *, activation: Activation | None = None) -> Any:
    """Returns activation(x w1) w2, of shape (..., n2), from x's library, on its current stream.

    x (..., k), w1 (k, n1) and w2 (n1, n2): fp16 or bf16, row-major, on one GPU; `activation` None or "gelu"
    (with tanh). The first call with new shapes tunes and takes seconds; it cannot be captured in a graph,
    later ones can. There is no backward pass. Raises `DescriptionError` that names the argument,
    `DeadlockError` if a wait of an earlier call ran out of its time: a graph that is only replayed does not
    tell, call once outside it. What graphs captured on other libraries' arrays use stays allocated.
    """
    if any(needs_gradient(array) for array in (x, w1, w2)):
        raise DescriptionError("mlp has no backward pass; call it within torch.no_grad()")
    source, first, second = (tensor_of(name, a) for name, a in (("x", x), ("w1", w1), ("w2", w2)))
    shape = _shape(source, first, second, activation)
    with on_device_of(source):
        stream = current_stream(source)
        if shape not in _prepared:
            if is_capturing(stream):
                raise DescriptionError(
                    f"mlp of {shape.sizes} is captured in a graph before it is tuned: call it once before"
                )
            _prepared[shape] = PreparedMlp(*fastest(shape))
        return _prepared[shape].run(source, first, second, stream)


def choice(x: Any, w1: Any, w2: Any, *, activation: Activation | None = None) -> tuple[Pipeline, Plan] | None:
    """The tiles and the plan that `mlp` keeps for such arguments; None before the first call."""
    found = _prepared.get(_shape(tensor_of("x", x), tensor_of("w1", w1), tensor_of("w2", w2), activation))
    return None if found is None else (found.program.pipeline, found.program.plan)


def _shape(source: Tensor, first: Tensor, second: Tensor, activation: Activation | None) -> Shape:
    for name, tensor in (("x", source), ("w1", first), ("w2", second)):
        is_fine = len(tensor.shape) == 2 or (name == "x" and len(tensor.shape) > 2)
        if not is_fine or 0 in tensor.shape:
            raise DescriptionError(f"{name} has shape {tensor.shape}; it must be a matrix that is not empty")
        if tensor.dtype != source.dtype:
            raise DescriptionError(f"{name} is of {tensor.dtype}, x of {source.dtype}; they must be the same")
        if tensor.device != source.device:
            raise DescriptionError(
                f"{name} is on GPU {tensor.device} and x on GPU {source.device}; they must be on the same"
            )
    k, n1 = first.shape
    for name, found, wanted, other in (("w1", k, source.shape[-1], "x"), ("w2", second.shape[0], n1, "w1")):
        if found != wanted:
            raise DescriptionError(f"{name} has {found} rows; it must have {wanted}, the columns of {other}")
    rows = 1
    for side in source.shape[:-1]:
        rows *= side
    return Shape((rows, k, n1, second.shape[1]), source.dtype, activation, source.device)


def fastest(shape: Shape) -> tuple[Pipeline, Plan]:
    """Times every tile size under every plan on random operands. Raises `DescriptionError` if none fits."""
    pipelines = _possible(shape)
    runner = CupyRunner()
    best: tuple[float, Pipeline, Plan] | None = None
    for pipeline in pipelines:
        for timing in runner.time(random_operands(pipeline), PLANS, rounds=ROUNDS):
            found = (median(timing.rounds_ns), pipeline, timing.plan)
            best = min(best or found, found, key=lambda one: one[0])
    assert best is not None
    require_cupy().get_default_memory_pool().free_all_blocks()  # the caller's library may want it
    return best[1], best[2]


def _possible(shape: Shape) -> list[Pipeline]:
    found, refusals = [], []
    for tile in TILES:
        try:
            pipeline = shape.pipeline(tile)
            require_computes(pipeline)
        except DescriptionError as error:
            refusals.append(error)
        else:
            found.append(pipeline)
    if not found:
        raise refusals[-1]
    return found


class PreparedMlp:
    """A tuned pair, ready to be launched on any operands of its shape, any number at a time.

    Semaphores and the intermediate belong to a call, so calls on different streams do not meet.
    """

    def __init__(self, pipeline: Pipeline, plan: Plan) -> None:
        self._cupy = require_cupy()
        names = [stage.name for stage in pipeline.stages]
        nowhere = {name: SimpleNamespace(data=SimpleNamespace(ptr=0)) for name in names}
        operands = Operands(pipeline, nowhere, nowhere, nowhere)
        self.program = Program(pipeline, plan, operands)
        self._own_streams = self.program.streams[1:]
        # Set by a copy at the end of every call, looked at by the next one: no call waits for the GPU.
        self._aborted = self._cupy.cuda.alloc_pinned_memory(4)
        self._flag = np.frombuffer(self._aborted, np.uint32, 1)
        self._flag[0] = 0
        self._captured: list[Tensor] = []

    def run(self, source: Tensor, first: Tensor, second: Tensor, stream: Any) -> Any:
        """The result, in the order of `stream`."""
        if self._flag[0] and not is_capturing(stream):
            self._flag[0] = 0
            self.program.sync.check()
        rows, n1, n2 = (self.program.pipeline.stages[0].gemm.m, first.shape[1], second.shape[1])
        middle = empty_like(source, (rows, n1))
        out = empty_like(source, (*source.shape[:-1], n2))
        counters = workspace(source, self.program.sync.words.nbytes)
        if source.library != "torch" and is_capturing(stream):
            # PyTorch's graphs keep their memory; another library's pool would hand it out again.
            self._captured += [middle, counters]
        matrices = ((source, first, middle), (middle, second, out))
        self._enqueue(matrices, counters, [stream, *self._own_streams])
        return out.array

    def _enqueue(
        self, matrices: Sequence[tuple[Tensor, Tensor, Tensor]], counters: Tensor, streams: list[Any]
    ) -> None:
        runtime, sync = self._cupy.cuda.runtime, self.program.sync
        stream, *others = streams
        runtime.memsetAsync(counters.address, 0, sync.words.nbytes, stream.ptr)
        ready = self._event(stream)
        for other in others:
            other.wait_event(ready)
        for launch in self.program.launches:
            arguments = (_moved(launch.arguments[0], counters.address), *launch.arguments[1:])
            for stage, (a, b, c) in zip(self.program.pipeline.stages, matrices, strict=True):
                if launch.shape is self.program.shapes[stage.name]:
                    addresses = Addresses(a.address, b.address, c.address, 0, 0)
                    backend = self.program.backends[stage.name]
                    own = backend.arguments(stage.gemm, self.program.plan, addresses)
                    arguments = (arguments[0], *own)
            replace(launch, arguments=arguments).enqueue(streams)
        for other in others:
            stream.wait_event(self._event(other))
        if self.program.plan.sync.has_semaphores:
            size, to_host = 4, runtime.memcpyDeviceToHost
            runtime.memcpyAsync(self._aborted.ptr, sync.errors.data.ptr, size, to_host, stream.ptr)

    def _event(self, stream: Any) -> Any:
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return event


def _moved(params: Any, counters: int) -> Any:
    """A stage's kernel parameter with its counters at another address."""
    moved = params.copy()
    moved["sync"]["counters"] = counters
    return moved
