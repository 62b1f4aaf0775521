"""The engine of stream programs: host threads, hardware queues, copy engines and SMs on SimPy.

Example: a host thread launches a kernel; at the front of its hardware queue it waits until its turn has come,
and whatever stands behind it waits too, of whichever stream. Its blocks then go to the dispatcher that all
kernels share. Sources: CUDA programming guide, streams; Professional CUDA C Programming, chapter 6.
"""

from dataclasses import replace
from functools import partial

from simpy import Environment, Event, Store

from wavesim.errors import DeadlockError
from wavesim.model.kernel import Grid, Kernel
from wavesim.sim.events import Process
from wavesim.sim.placement import footprint
from wavesim.sim.sms import Sms
from wavesim.sim.streams.copies import CopyEngines
from wavesim.sim.streams.machine import StreamMachine
from wavesim.sim.streams.operation import OperationRun, name_causes
from wavesim.sim.streams.program import (
    HostCall,
    HostThread,
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
from wavesim.sim.streams.stream_order import LEGACY, Kind, StreamOperation, StreamOrder
from wavesim.sim.streams.timeline import HostSpan, StreamTimeline

Enqueued = LaunchKernel | Memcpy | LaunchHostFunction | RecordEvent | WaitEvent
REMEDY = (
    "launch what is waited for before what waits for it, on a stream with a hardware queue of its own, "
    "and leave it an SM"
)


def simulate_streams(program: StreamProgram, machine: StreamMachine) -> StreamTimeline:
    """The program's run on the machine. Raises `DeadlockError` where it never ends, and `DescriptionError`
    for a block that no SM can hold.
    """
    return StreamEngine(program, machine).run()


class StreamEngine:
    """One run: built, run once."""

    def __init__(self, program: StreamProgram, machine: StreamMachine) -> None:
        self._program, self._machine = program, machine
        self._env = Environment()
        self._order = StreamOrder()
        self._submitted: list[OperationRun] = []  # by their numbers in the order
        self._done = {named.name: Event(self._env) for named in program.operations}
        self._events: dict[str, OperationRun] = {}  # what each event last stood for
        self._places = {named.name: number for number, named in enumerate(program.streams)}
        self._queues: dict[str, Store] = {}
        self._fronts: dict[str, OperationRun] = {}
        self._sms = Sms(self._env, machine.device)
        self._copies = CopyEngines(self._env, machine, self._finish)
        self._host_functions = Store(self._env)
        self._host: list[HostSpan] = []
        self._blocked: dict[str, HostCall] = {}
        self._notes: list[str] = []

    def run(self) -> StreamTimeline:
        """Simulates until nothing is left to happen."""
        for call in self._program.operations:
            if isinstance(call, LaunchKernel):
                footprint(self._machine.device, kernel_of(call))  # refuses what no SM can hold
        self._env.process(self._run_host_functions())
        for thread in self._program.threads:
            self._env.process(self._run_host(thread))
        self._env.run()
        left = [operation for operation in self._submitted if operation.is_operation and operation.end_ns < 0]
        if left or self._blocked:
            reasons = [operation.why_stuck(self._fronts.get(operation.queue)) for operation in left]
            reasons += [f"host thread {name} waits in {call}" for name, call in self._blocked.items()]
            raise DeadlockError(reasons=tuple(reasons), detail=REMEDY)
        name_causes(self._submitted)
        operations = [operation for operation in self._submitted if operation.is_operation]
        return StreamTimeline(
            self._program, self._machine, operations, self._sms.spans, self._host, self._notes
        )

    # --- the host ---

    def _run_host(self, thread: HostThread) -> Process:
        for call in thread.calls:
            start_ns = int(self._env.now)
            yield self._env.timeout(self._call_ns(call))
            wait_ns = int(self._env.now)
            pending = [event for event in self._make(call) if not event.processed]
            if pending:
                self._blocked[thread.name] = call
                yield self._env.all_of(pending)
                yield self._env.timeout(self._machine.synchronize_ns)
                del self._blocked[thread.name]
            self._host.append(HostSpan(thread.name, str(call), start_ns, wait_ns, int(self._env.now)))

    def _call_ns(self, call: HostCall) -> int:
        match call:
            case HostWork():
                return call.ns
            case LaunchKernel() | LaunchHostFunction():
                return self._machine.launch_call_ns
            case Memcpy():
                return self._machine.copy_call_ns
            case RecordEvent() | WaitEvent():
                return self._machine.event_call_ns
            case _:
                return 0

    def _make(self, call: HostCall) -> list[Event]:
        """Does what the call does at once; returns what the host waits for before it goes on."""
        match call:
            case LaunchKernel() | LaunchHostFunction():
                self._enqueue(self._submit(call, call.name))
            case Memcpy():
                self._enqueue(self._submit(call, call.name))
                is_waited = not call.is_pinned or (not call.is_async and call.direction != "d2d")
                return [self._done[call.name]] if is_waited else []
            case RecordEvent():
                record = self._submit(call, f"{call.event} #{len(self._submitted)}")
                self._events[call.event] = record
                self._env.process(self._complete(record))
            case WaitEvent():
                self._wait_event(call)
            case SynchronizeStream():
                return [operation.done for operation in self._submitted if operation.stream == call.stream]
            case SynchronizeEvent():
                return [self._events[call.event].done] if self._is_recorded(call) else []
            case SynchronizeDevice():
                return [operation.done for operation in self._submitted]
        return []

    def _wait_event(self, call: WaitEvent) -> None:
        if self._is_recorded(call):
            after = self._events[call.event].name
            self._enqueue(self._submit(call, f"{call.event} ?{len(self._submitted)}", after))

    def _is_recorded(self, call: WaitEvent | SynchronizeEvent) -> bool:
        """An event that nobody has recorded yet is complete."""
        if call.event in self._events:
            return True
        self._notes.append(
            f"{call} waits for nothing: {call.event} has not been recorded by then, and such an "
            "event counts as complete"
        )
        return False

    def _submit(self, call: Enqueued, name: str, after: str = "") -> OperationRun:
        """The call in the order of launches, to which events are host functions that take no time."""
        stream = self._program.stream(call.stream)
        kind: Kind = "kernel" if isinstance(call, LaunchKernel) else "host"
        ordered = StreamOperation(name, kind=kind, stream=stream.name, is_blocking=stream.is_blocking)
        turn = self._order.add(replace(ordered, after=(after,)) if after else ordered)
        operation = OperationRun(
            len(self._submitted),
            name,
            call,
            waited=[self._submitted[number] for number in sorted(turn.ended)],
            done=self._done.get(name) or Event(self._env),
            queue=self._queue_of(call),
            engine=self._engine_of(call),
            submitted_ns=int(self._env.now) + self._machine.submit_ns,
        )
        self._submitted.append(operation)
        return operation

    # --- hardware queues ---

    def _queue_of(self, call: Enqueued) -> str:
        if isinstance(call, Memcpy) and self._machine.has_copy_queues:
            return f"copy queue {self._machine.engine(call.direction)}"
        place = 0 if call.stream == LEGACY else 1 + self._places[call.stream]
        return f"queue {place % self._machine.queues}"

    def _engine_of(self, call: Enqueued) -> str:
        if isinstance(call, Memcpy):
            return f"copy engine {self._machine.engine(call.direction)}"
        return "SMs" if isinstance(call, LaunchKernel) else "driver's thread"

    def _enqueue(self, operation: OperationRun) -> None:
        if operation.queue not in self._queues:
            self._queues[operation.queue] = Store(self._env)
            self._env.process(self._serve(operation.queue))
        self._queues[operation.queue].put(operation)

    def _serve(self, queue: str) -> Process:
        """The front of a queue waits for its turn; only then comes what stands behind it."""
        before: OperationRun | None = None
        while True:
            operation = yield self._queues[queue].get()
            self._fronts[queue] = operation
            operation.head_ns = int(self._env.now)
            yield from self._until_turn(operation)
            operation.behind = before
            operation.left_ns = int(self._env.now)
            self._start(operation)
            before = operation
            del self._fronts[queue]

    def _until_turn(self, operation: OperationRun) -> Process:
        """Until all that must come before has ended and what passes in between is over."""
        waited = [other for other in operation.waited if not _follows_in_engine(operation, other)]
        for other in waited:
            if not other.done.processed:
                yield other.done
        last = max(waited, key=lambda other: other.end_ns, default=None)
        begin_ns = max(operation.submitted_ns, last.end_ns + self._gap_ns(last, operation) if last else 0)
        if begin_ns > self._env.now:
            yield self._env.timeout(begin_ns - int(self._env.now))

    def _gap_ns(self, before: OperationRun, operation: OperationRun) -> int:
        if not operation.is_operation:
            return 0
        is_same_stream = before.stream == operation.stream
        is_after_kernel = before.kind == "kernel" or isinstance(before.call, RecordEvent)
        if operation.kind == "kernel" and is_same_stream and is_after_kernel:
            return self._machine.boundary_ns
        return self._machine.handover_ns

    def _start(self, operation: OperationRun) -> None:
        match operation.call:
            case LaunchKernel() as call:
                self._launch(operation, call)
            case Memcpy():
                self._copies.take(operation)
            case LaunchHostFunction():
                self._host_functions.put(operation)
            case _:
                self._finish(operation)

    def _complete(self, record: OperationRun) -> Process:
        """An event is complete when all that its stream held has ended; it takes no place in a queue."""
        yield from self._until_turn(record)
        self._finish(record)

    def _finish(self, operation: OperationRun) -> None:
        operation.end_ns = int(self._env.now)
        if operation.start_ns < 0:
            operation.start_ns = operation.end_ns
        operation.done.succeed()

    # --- what operations do ---

    def _run_host_functions(self) -> Process:
        """One thread of the driver calls them, one after the other."""
        while True:
            operation = yield self._host_functions.get()
            yield self._env.timeout(self._machine.host_function_ns)
            operation.start_ns = int(self._env.now)
            yield self._env.timeout(operation.call.ns)
            self._finish(operation)

    def _launch(self, operation: OperationRun, call: LaunchKernel) -> None:
        priority = self._program.stream(call.stream).clamped_priority
        work, ended = partial(self._work, operation, call), partial(self._finish, operation)
        self._sms.launch(kernel_of(call), operation.number, work, ended, priority=priority)

    def _work(self, operation: OperationRun, call: LaunchKernel, *_: int) -> Process:
        if operation.start_ns < 0:
            operation.start_ns = int(self._env.now)
        until = self._done.get(call.until)
        if until is not None and not until.processed:
            yield until
        yield self._env.timeout(call.block_ns)


def kernel_of(call: LaunchKernel) -> Kernel:
    """What is launched."""
    return Kernel(call.name, Grid(call.blocks), call.block)


def _follows_in_engine(operation: OperationRun, other: OperationRun) -> bool:
    """Whether a copy engine that has the other copy already keeps the two in order by itself."""
    return operation.kind == other.kind == "copy" and other.left_ns >= 0 and operation.engine == other.engine
