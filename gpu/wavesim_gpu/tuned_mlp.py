"""`mlp(x, w1, w2)`: two dependent GEMMs on the caller's arrays, tuned where it is first called.

Example: the first call with new shapes times each tile size under stream sync and under row semaphores on
random operands, for some seconds, and keeps the fastest. Every later call launches that on the caller's
current stream: two kernels and a wait-kernel, forked to a stream of ours and joined again, with all memory
from the caller's allocator. So from the second call on it can be captured in a graph. Where it waits, a last
kernel looks whether a wait gave up (`runtime/calls.py`).
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from statistics import median
from types import SimpleNamespace
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.guard.bounds import real
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Activation, Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Grouped
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim_gpu.cusync.layout import ERROR_BUFFER
from wavesim_gpu.cusync.sync_state import LIMIT_S
from wavesim_gpu.kernels import close_call
from wavesim_gpu.kernels.backend import Addresses
from wavesim_gpu.kernels.backends import require_computes
from wavesim_gpu.program import Program
from wavesim_gpu.runner import CupyRunner
from wavesim_gpu.runtime.calls import Call, process_log
from wavesim_gpu.runtime.compiler import Build
from wavesim_gpu.runtime.device import require_cupy
from wavesim_gpu.runtime.functions import load_function
from wavesim_gpu.runtime.launches import DeviceLaunch
from wavesim_gpu.runtime.operands import ALIGNMENT, Operands, random_operands
from wavesim_gpu.runtime.side_streams import SideStreams
from wavesim_gpu.runtime.tensors import (
    Tensor,
    current_stream,
    empty_like,
    needs_gradient,
    on_device_of,
    stream_at,
    tensor_of,
    workspace,
)

TILES = ((128, 256, 64), (256, 128, 64), (128, 128, 64), (64, 64, 32))
PLANS: tuple[Plan, ...] = (StreamSync(), SemaphoreSync(RowSync()), SemaphoreSync(RowSync(), order=Grouped(4)))
ROUNDS = 9
BACKEND = "portable"  # on every GPU
SHORTEST_S, LONGEST_S = 1e-9, 86400.0
_prepared: dict["Shape", "PreparedMlp"] = {}
_preparing = threading.Lock()
side_streams = SideStreams()


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


def mlp(x: Any, w1: Any, w2: Any, *, activation: Activation | None = None, limit_s: float = LIMIT_S) -> Any:
    """Returns activation(x w1) w2, of shape (..., n2), from x's library, on its current stream.

    x (..., k), w1 (k, n1) and w2 (n1, n2): fp16 or bf16, row-major, on one GPU; `activation` None or "gelu"
    (with tanh). The first call with new shapes tunes and takes seconds; it cannot be captured in a graph,
    later ones can. There is no backward pass. Raises `DescriptionError` that names the argument. Where a
    wait on the GPU takes longer than `limit_s`, because other programs hold it, the call's result is NaN
    and the next call or `wavesim_gpu.check()` raises `FailedCallsError`, which names the call; after
    replays of a graph `check()` does. What graphs captured on other libraries' arrays use stays allocated.
    """
    limit_s = real("limit_s", limit_s, SHORTEST_S, LONGEST_S)
    if any(needs_gradient(array) for array in (x, w1, w2)):
        raise DescriptionError("mlp has no backward pass; call it within torch.no_grad()")
    source, first, second = (tensor_of(name, a) for name, a in (("x", x), ("w1", w1), ("w2", w2)))
    shape = _shape(source, first, second, activation)
    with on_device_of(source):
        stream = _current_stream(source)
        prepared = _prepared.get(shape) or _tuned(shape, stream)
        if not is_capturing(stream):
            process_log().raise_failures()
        return prepared.run(source, first, second, stream, limit_s)


def _current_stream(tensor: Tensor) -> Any:
    cupy = require_cupy()
    return cupy.cuda.get_current_stream() if tensor.library == "cupy" else stream_at(current_stream(tensor))


def is_capturing(stream: Any) -> bool:
    """Whether a graph is being captured from the stream."""
    return bool(require_cupy().cuda.runtime.streamIsCapturing(stream.ptr))


def prepare(shape: Shape, pipeline: Pipeline, plan: Plan) -> None:
    """Has later calls of the shape run the pipeline under the plan, whatever tuning would choose."""
    _prepared[shape] = PreparedMlp(pipeline, plan)


def _tuned(shape: Shape, stream: Any) -> "PreparedMlp":
    """Tunes a shape that is new, one at a time: two would slow each other down while they are timed."""
    if is_capturing(stream):
        raise DescriptionError(
            f"mlp of {shape.sizes} is captured in a graph before it is tuned: call it once before"
        )
    with _preparing:
        if shape not in _prepared:
            prepare(shape, *fastest(shape))
        return _prepared[shape]


def choice(x: Any, w1: Any, w2: Any, *, activation: Activation | None = None) -> tuple[Pipeline, Plan] | None:
    """The tiles and the plan that `mlp` keeps for such arguments; None before the first call."""
    found = _prepared.get(_shape(tensor_of("x", x), tensor_of("w1", w1), tensor_of("w2", w2), activation))
    return None if found is None else (found.program.pipeline, found.program.plan)


def _shape(source: Tensor, first: Tensor, second: Tensor, activation: Activation | None) -> Shape:
    for name, tensor in (("x", source), ("w1", first), ("w2", second)):
        is_fine = len(tensor.shape) == 2 or (name == "x" and len(tensor.shape) > 2)
        if not is_fine or 0 in tensor.shape:
            raise DescriptionError(f"{name} has shape {tensor.shape}; it must be a matrix that is not empty")
        if not tensor.is_dense or tensor.address % ALIGNMENT:
            raise DescriptionError(
                f"{name} has strides {tensor.strides} at {tensor.address:#x}; use row-major copies"
            )
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
    return Shape((prod(source.shape[:-1]), k, n1, second.shape[1]), source.dtype, activation, source.device)


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

    All that a call writes to is its own: counters, error buffer, intermediate, its slot in the log. Its side
    streams are those of the caller's stream. So calls on different streams, from different threads and in
    different graphs do not meet, and what one call leaves behind when it fails no other call sees.
    """

    def __init__(self, pipeline: Pipeline, plan: Plan) -> None:
        names = [stage.name for stage in pipeline.stages]
        nowhere = {name: SimpleNamespace(data=SimpleNamespace(ptr=0), strides=(0, 0)) for name in names}
        self.program = Program(pipeline, plan, Operands(pipeline, nowhere, nowhere, nowhere))
        self._close = load_function(close_call.SOURCE, "close_call", Build())
        self._log = process_log()
        self._runtime = require_cupy().cuda.runtime
        self._captured: list[Tensor] = []

    def run(self, source: Tensor, first: Tensor, second: Tensor, stream: Any, limit_s: float) -> Any:
        """The result, in the order of `stream`. `limit_s` bounds every wait on the GPU."""
        first_gemm, second_gemm = (stage.gemm for stage in self.program.pipeline.stages)
        middle = empty_like(source, (first_gemm.m, first_gemm.n))
        out = empty_like(source, (*source.shape[:-1], second_gemm.n))
        memory = workspace(source, self.program.sync.words.nbytes + ERROR_BUFFER.itemsize)
        is_captured = is_capturing(stream)
        if source.library != "torch" and is_captured:
            # PyTorch's graphs keep their memory; another library's pool would hand it out again.
            self._captured += [middle, memory]
        matrices = ((source, first, middle), (middle, second, out))
        if not self.program.plan.sync.has_semaphores:  # nothing waits, so nothing gives up
            self._enqueue(matrices, memory, stream, 0)
            return out.array
        limit_ns = round(limit_s * 1e9)
        call = self._log.begin(
            f"mlp of {(first_gemm.m, first_gemm.k, first_gemm.n, second_gemm.n)} {source.dtype}",
            source.device,
            int(stream.ptr),
            partial(self.program.sync.deadlock, limit_ns=limit_ns),
            is_captured=is_captured,
        )
        self._enqueue(matrices, memory, stream, limit_ns)
        self._end(call, memory, out, stream)
        return out.array

    def _enqueue(
        self, matrices: Sequence[tuple[Tensor, Tensor, Tensor]], memory: Tensor, stream: Any, limit_ns: int
    ) -> None:
        program = self.program
        self._runtime.memsetAsync(memory.address, 0, memory.shape[0], stream.ptr)
        with side_streams.forked(stream, len(program.streams) - 1) as own:
            for launch in program.launches:
                arguments = (self._own_state(launch.arguments[0], memory, limit_ns), *launch.arguments[1:])
                for stage, (a, b, c) in zip(program.pipeline.stages, matrices, strict=True):
                    if launch.shape is program.shapes[stage.name]:
                        addresses = Addresses(a.address, b.address, c.address, 0, 0)
                        backend = program.backends[stage.name]
                        arguments = (arguments[0], *backend.arguments(stage.gemm, program.plan, addresses))
                replace(launch, arguments=arguments).enqueue([stream, *own])

    def _own_state(self, params: Any, memory: Tensor, limit_ns: int) -> Any:
        """A stage's kernel parameter with the call's counters, error buffer and time limit."""
        own = params.copy()
        own["sync"]["counters"], own["sync"]["errors"] = memory.address, self._errors(memory)
        own["sync"]["limit_ns"] = limit_ns
        return own

    def _errors(self, memory: Tensor) -> int:
        return memory.address + int(self.program.sync.words.nbytes)

    def _end(self, call: Call, memory: Tensor, out: Tensor, stream: Any) -> None:
        """If a wait gave up, NaN in the whole result, whatever the kernels wrote, and a report to the log."""
        arguments = close_call.arguments(
            self._errors(memory), call.slot.address, self._log.bell, out.address, prod(out.shape)
        )
        DeviceLaunch(self._close, close_call.LAUNCH, arguments, 0).enqueue([stream])
