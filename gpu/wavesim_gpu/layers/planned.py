"""An MLP as our own two GEMMs under a plan, on anybody's arrays, at a host cost of some microseconds a call.

Example: `PlannedMlp(shape, pipeline, parse_plan("pdl+row")).run(call)` is two launches on the call's stream.
Parameters are made once for a call's addresses and kept, what the kernels count on belongs to the stream
(`call_states.py`), and the last block to leave puts it back and reports a wait that gave up.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_uint64, c_void_p
from dataclasses import replace
from functools import cache
from typing import Any, cast

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.driver_api import OTHER_CONTEXT, current_context, in_context, require_driver
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import DeviceLaunch, KernelLaunch, launch_error
from wavesim_gpu.driver.tensors import allowed_while_capturing
from wavesim_gpu.hang.launch_recorder import active_recorder
from wavesim_gpu.hang.planned_run import PlannedRun
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses, GemmBackend
from wavesim_gpu.layers.call_states import CallState, CallStates
from wavesim_gpu.layers.calls import process_log
from wavesim_gpu.layers.description import MlpCall, MlpShape
from wavesim_gpu.layers.prepared_launches import (
    OPERANDS,
    CallTemplate,
    LaunchTemplate,
    ReadyCall,
    Report,
    StageTemplate,
    are_words,
)
from wavesim_gpu.run.planned_kernels import PlannedKernel, kernels_of

READY_KEPT = (
    512  # launches with parameters made ready: layers of a model, times the outputs they alternate between
)
ELEMENT_BYTES, QUAD_BYTES = 2, 16
ALIGNMENT = 256
# Addresses that operands may have, to be replaced; and others, which show where addresses lie in parameters.
ANYWHERE = dict.fromkeys(OPERANDS, 1 << 20)
ELSEWHERE = {name: (0x7A5C << 32) + 0x12345600 * (i + 1) for i, name in enumerate(OPERANDS)}


class PlannedMlp:
    """A `MlpExecutable` on our kernels: the two stages of `pipeline` under `plan`, on the current GPU.

    `follows_closely`: the first kernel is launched by programmatic dependent launch too, so that it is there,
    waiting, when what is ahead of it in the stream ends. That is right after any kernel, of any library: no
    thread reads or writes memory, nor lets the second kernel start, before the grid ahead has ended and its
    writes are visible (`begins_call` in kernels/gemm/sm90/block.cuh). Backends that do not
    know how to ignore it.
    Raises `DescriptionError` for a plan or a pipeline that it does not run, `CompileError` and `DeviceError`.
    """

    def __init__(
        self, shape: MlpShape, pipeline: Pipeline, plan: Plan, *, follows_closely: bool = True
    ) -> None:
        _require_fit(shape, pipeline, plan)
        self.shape, self.pipeline, self.plan = shape, pipeline, plan
        gemms = [stage.gemm for stage in pipeline.stages]
        self.label = f"{plan.label}, {' + '.join(map(_tile_text, gemms))}"
        self.what = f"mlp of {(shape.m, shape.k, shape.n1, shape.n2)} {shape.dtype}"
        self._kernels = kernels_of(pipeline, plan, query())
        self._backends = {
            name: cast("GemmBackend", kernel.backend) for kernel in self._kernels for name in kernel.stages
        }
        self.follows_closely = follows_closely and self._kernels[0].backend.begins_calls
        partials = [
            backend.partial_bytes(gemm, plan)
            for gemm, backend in zip(gemms, self._backends.values(), strict=True)
        ]
        (_, *self._sums), self.scratch_bytes = _lay_out([ELEMENT_BYTES * shape.m * shape.n1, *partials])
        blocks = sum(kernel.launch.blocks for kernel in self._kernels)
        with _apart():
            self._sync = SyncState(pipeline, plan, block_count=blocks)
            self._params = {name: self._sync.params(name) for name in self._sync.names}
        first = int(self._sync.words.data.ptr)
        self._tickets = [self._sync.tickets(name) - first for name in self._sync.names]
        # 0 where no counter is touched: there nothing waits, and nothing can give up.
        self._words = int(self._params[self._sync.names[0]]["sync"]["counter_count"])
        self._functions = [self._load(kernel) for kernel in self._kernels]
        self._recorded = cache(lambda stream: PlannedRun(self._device_launches(), (stream,), self._sync))
        self._context = current_context()
        self._states = states_of(self._context)
        self._by_stream = self._states.by_stream
        self._bell = process_log().bell
        self._quads = shape.m * shape.n2 * ELEMENT_BYTES // QUAD_BYTES
        self._templates: dict[tuple[int, int, int], CallTemplate] = {}
        self._ready: OrderedDict[tuple[int, ...], ReadyCall] = OrderedDict()
        driver = require_driver()
        self._launch, self._stream_id = driver.cuLaunchKernelEx, driver.cuStreamGetId

    def run(self, call: MlpCall) -> None:
        """Launches it on the call's stream. Any thread may call it.

        Raises `DeviceError` with the driver's word; what was launched until then ends by itself.
        """
        if (recorder := active_recorder()) is not None and not call.is_captured:
            recorder.note_planned(self._recorded(call.stream))
        if call.is_captured:  # its number is not asked for: that would end the capture
            status = self._run_captured(call)
        else:
            pointer = c_uint64()
            status = self._stream_id(c_void_p(call.stream), byref(pointer))
            status = status or self._run_eager(call, pointer.value)
        if status:
            self._run_in_own_context(call, status)

    def explain(self, result: Any, limit_ns: int) -> DeadlockError:
        """What an error buffer of a call says."""
        return self._sync.deadlock(result, limit_ns)

    def _run_eager(self, call: MlpCall, stream_number: int) -> int:
        """Over the stream's state. Returns the driver's status of the first launch; 0 if all are out."""
        state = self._by_stream.get(stream_number)
        while True:
            if state is not None:
                with state.lock:
                    if state.stream_number == stream_number and state.is_whole:
                        return self._launch_all(state, call)
            # New, or meanwhile another stream's, or broken by an exception between two launches.
            with in_context(self._context):
                state = self._states.of_stream(call.stream, stream_number, self._words, state)

    def _run_captured(self, call: MlpCall) -> int:
        """Over a state of its own: its graph may be replayed while other calls on the stream run."""
        with in_context(self._context):
            state = self._states.captured(call.stream, self._words)
        return self._launch_all(state, call)

    def _run_in_own_context(self, call: MlpCall, status: int) -> None:
        """Again, by a thread that has used another GPU, or none yet."""
        if status not in OTHER_CONTEXT or current_context() == self._context:
            raise launch_error(self._kernels[0].launch, status)
        with in_context(self._context):
            self.run(call)

    def _launch_all(self, state: CallState, call: MlpCall) -> int:
        key = (
            state.token, call.limit_ns, call.scratch, call.out, call.x, call.x_stride, call.w1,
            call.w1_stride, call.w2, call.w2_stride, call.w_gate, call.b1, call.b_gate, call.b2,
        )  # fmt: skip
        ready = self._ready.get(key) or self._make_ready(key, state, call)
        if self._words:
            ready.set_number(state.slot.begin(self, call.limit_ns))
        launch = self._launch
        # Until all is out: counters of half a call would serve no other. From before the first launch on, as
        # an interrupt that comes while it waits for room in the queue is raised when it returns.
        state.is_whole = False
        if status := launch(*ready.first):
            state.is_whole = True
            return int(status)
        for arguments in ready.others:
            if status := launch(*arguments):
                raise launch_error(self._kernels[-1].launch, status)
        state.is_whole = True
        return 0

    def _make_ready(self, key: tuple[int, ...], state: CallState, call: MlpCall) -> ReadyCall:
        strides = call.x_stride, call.w1_stride, call.w2_stride
        if strides not in self._templates or self._words > state.words:
            with in_context(self._context):  # tensor maps are made in one, and this thread may have none
                state.make_room(self._words)
                if strides not in self._templates:
                    self._templates[strides] = self._make_template(*strides)
            key = (state.token, *key[1:])
        template = self._templates[strides]
        slot, bell = (state.slot.address, self._bell) if self._words else (0, 0)
        report = Report(state.counters, state.errors, call.limit_ns, slot, bell, call.out, self._quads)
        ready = template.new(call.stream)
        template.fill(ready, report, self._operands(state, call))
        if not call.is_captured:  # nobody asks for a graph's again
            while len(self._ready) >= READY_KEPT:
                self._ready.popitem(last=False)
            self._ready[key] = ready
        return ready

    def _operands(self, state: CallState, call: MlpCall) -> tuple[int, ...]:
        """Both stages' addresses, each in the order of `OPERANDS`."""
        middle, counters = call.scratch, state.counters
        (first_sums, second_sums), (first_tickets, second_tickets) = self._sums, self._tickets
        gate, gate_bias = (call.w_gate, call.b_gate) if self.shape.gate else (call.w1, call.b1)
        return (
            call.x, gate, call.w1, middle, gate_bias, call.b1, middle + first_sums, counters + first_tickets,
            middle, call.w2, 0, call.out, call.b2, 0, middle + second_sums, counters + second_tickets,
        )  # fmt: skip

    def _make_template(self, x_stride: int, w1_stride: int, w2_stride: int) -> CallTemplate:
        """Kernels with parameters for operands of some strides."""
        strides, stages = ((x_stride, w1_stride), (0, w2_stride)), {}
        for stage, (a, b) in zip(self.pipeline.stages, strides, strict=True):
            gemm, backend = stage.gemm, self._backends[stage.name]
            record, other = (
                backend.arguments(gemm, self.plan, Addresses(**result, a_stride=a, b_stride=b))[0].tobytes()
                for result in (ANYWHERE, ELSEWHERE)
            )
            fields, sync = backend.address_fields(gemm, self.plan), self._params[stage.name].tobytes()
            has_words = are_words(record, other, fields, tuple(ELSEWHERE.values()))
            stages[stage.name] = StageTemplate(sync, record, fields, has_words)
        launches = []
        for index, (kernel, function) in enumerate(zip(self._kernels, self._functions, strict=True)):
            parts = tuple(stages[name] for name in kernel.stages)
            begins = self.follows_closely and index == 0
            launches.append(LaunchTemplate(int(function.function.ptr), self._shape(kernel), parts, begins))
        return CallTemplate(launches)

    def _device_launches(self) -> list[DeviceLaunch]:
        """For a recorder."""
        pairs = zip(self._functions, self._kernels, strict=True)
        return [DeviceLaunch(function, self._shape(piece), (), 0, piece.stages) for function, piece in pairs]

    def _shape(self, kernel: PlannedKernel) -> KernelLaunch:
        """How a kernel is launched: the first by dependent launch too, where it follows closely."""
        begins = self.follows_closely and kernel is self._kernels[0]
        return replace(kernel.launch, is_dependent=kernel.launch.is_dependent or begins)

    def _load(self, kernel: PlannedKernel) -> Function:
        shape, texts = kernel.launch, {name: header.text for name, header in self._sync.headers.items()}
        source, size = kernel.backend.source, shape.dynamic_shared_bytes
        return load_function(source, shape.expression, Build(), size, kernel.header(texts))


def _lay_out(sizes: list[int]) -> tuple[list[int], int]:
    """Where areas of so many bytes begin, one behind the other and aligned, and the end of the last."""
    ends = list(itertools.accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes))
    return [0, *ends[:-1]], ends[-1]


@cache
def states_of(context: int) -> CallStates:
    """The states of a context, which is current: all its ways share them, as they share its streams."""
    return CallStates(context)


@contextmanager
def _apart() -> Iterator[None]:
    """Arrays may be made within, even while a graph is captured; they are there at the end."""
    with allowed_while_capturing():
        own = require_cupy().cuda.Stream(non_blocking=True)
        with own:
            yield
        own.synchronize()


def _require_fit(shape: MlpShape, pipeline: Pipeline, plan: Plan) -> None:
    """Raises `DescriptionError` unless the pipeline is the shape's and its launches go to one stream."""
    if plan.launch.is_multi_stream or plan.schedule.is_split_persistent:
        raise DescriptionError(
            f"mlp does not run {plan.label}: its kernels go to the caller's stream and report what gave up "
            "when the last block leaves. Use DependentLaunch() or OneStream(), with tiles that are not cut"
        )
    wanted = (
        (shape.m, shape.products, shape.k, shape.dtype, shape.activation, shape.w1_order, shape.has_b1),
        (shape.m, shape.n2, shape.n1, shape.dtype, None, shape.w2_order, shape.has_b2),
    )
    result = tuple(
        (gemm.m, gemm.n, gemm.k, gemm.dtype, gemm.activation, gemm.b_order, gemm.has_bias)
        for gemm in (stage.gemm for stage in pipeline.stages)
    )
    if result != wanted or pipeline.stages[0].gemm.has_halves != bool(shape.gate):
        raise DescriptionError(
            f"pipeline {pipeline.name} computes {result}; an MLP of {shape} is {wanted}"
            + (", with gates='halves'" if shape.gate else "")
        )


def _tile_text(gemm: Gemm) -> str:
    split = f"/{gemm.split_k}" if gemm.split_k > 1 else ""
    return f"{gemm.tile_m}x{gemm.tile_n}{split}"
