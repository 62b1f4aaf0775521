"""What a stream program did when: every operation, every block, every call of the host.

Example: kernel k1 could have started at 300 us and stood behind k0's copy in its hardware queue until 500 us:
`held_by` is that copy, and 200 us of false dependency are in `false_ns`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim.sim.streams.machine import StreamMachine
from wavesim.sim.streams.program import StreamProgram
from wavesim.sim.streams.stream_order import Kind
from wavesim.sim.streams.submitted import SubmittedOperation


@dataclass(frozen=True)
class OperationTimes:
    """An operation's way, in nanoseconds from the first host call.

    The call returned at `submitted_ns`; all that must come before had ended at `ready_ns`; it reached the
    front of its hardware queue at `head_ns` and left that at `left_ns`; it ran from `start_ns` to `end_ns`.
    `after` names the operations of other streams that it waited for as promised, and no earlier one of its
    stream had; `held_by` is what stood before it in its queue when it was ready.
    """

    name: str
    kind: Kind
    stream: str
    queue: str
    engine: str
    submitted_ns: int
    ready_ns: int
    head_ns: int
    left_ns: int
    start_ns: int
    end_ns: int
    after: Sequence[str] = ()
    held_by: str = ""

    @property
    def false_ns(self) -> int:
        """How long it was ready and stood behind another stream's operation."""
        return max(0, self.head_ns - self.ready_ns) if self.held_by else 0


@dataclass(frozen=True)
class BlockSpan:
    """One block of a kernel on an SM."""

    operation: str
    sm: int
    slot: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class HostSpan:
    """A call of a host thread. From `wait_ns` on it waited for the device; it returned at `end_ns`."""

    thread: str
    call: str
    start_ns: int
    wait_ns: int
    end_ns: int


@dataclass(frozen=True)
class StreamTimeline:
    """One run of a program on a machine, simulated. `notes` say what was called and did nothing."""

    program: StreamProgram
    machine: StreamMachine
    operations: Sequence[OperationTimes]
    blocks: Sequence[BlockSpan]
    host: Sequence[HostSpan]
    notes: Sequence[str] = ()

    @property
    def end_ns(self) -> int:
        """When the last operation had ended and the last call returned."""
        return max([span.end_ns for span in self.operations] + [span.end_ns for span in self.host], default=0)

    @property
    def false_ns(self) -> int:
        """Time that operations were ready and stood behind others in a hardware queue, added up."""
        return sum(operation.false_ns for operation in self.operations)

    @property
    def busiest(self) -> tuple[str, int]:
        """The copy engine, or "kernels", that was busy for longest, and for how many nanoseconds."""
        spans: dict[str, list[tuple[int, int]]] = {"kernels": []}
        for operation in self.operations:
            name = "kernels" if operation.kind == "kernel" else operation.engine
            spans.setdefault(name, []).append((operation.start_ns, operation.end_ns))
        return max(((name, _covered_ns(each)) for name, each in spans.items()), key=lambda pair: pair[1])

    def operation(self, name: str) -> OperationTimes:
        """The operation of that name. Raises `DescriptionError`."""
        for operation in self.operations:
            if operation.name == name:
                return operation
        names = ", ".join(operation.name for operation in self.operations)
        raise DescriptionError(f"operation is {shown(name)}; there are {names[:400]}")


def operation_times(
    submitted: Sequence[SubmittedOperation], machine: StreamMachine
) -> tuple[OperationTimes, ...]:
    """The times of kernels, copies and host functions that were submitted, in the order of their calls."""
    known: dict[str, set[int]] = {}  # by stream: what its earlier operations have waited for already
    return tuple(
        _times(operation, submitted, machine, known) for operation in submitted if operation.is_operation
    )


def _times(
    operation: SubmittedOperation,
    submitted: Sequence[SubmittedOperation],
    machine: StreamMachine,
    known: dict[str, set[int]],
) -> OperationTimes:
    ready_ns = max([operation.submitted_ns, *(submitted[number].end_ns for number in operation.turn)])
    is_held = (
        operation.behind is not None
        and operation.head_ns > ready_ns
        and operation.behind.stream != operation.stream
    )
    seen = known.setdefault(operation.stream, set())
    after = _others(operation, operation.stream, submitted) - seen
    seen |= after
    return OperationTimes(
        *(operation.name, operation.kind, operation.stream, operation.queue, _engine(operation, machine)),
        *(
            operation.submitted_ns,
            ready_ns,
            operation.head_ns,
            operation.left_ns,
            operation.start_ns,
            operation.end_ns,
        ),
        after=tuple(submitted[number].name for number in sorted(after)),
        held_by=_words(operation.behind) if is_held else "",
    )


def _engine(operation: SubmittedOperation, machine: StreamMachine) -> str:
    if operation.kind == "copy":
        return f"copy engine {machine.engine(operation.memcpy.direction)}"
    return "SMs" if operation.kind == "kernel" else "driver's thread"


def _others(operation: SubmittedOperation, stream: str, submitted: Sequence[SubmittedOperation]) -> set[int]:
    """Numbers of operations of other streams than this that it came after, by way of events too."""
    others: set[int] = set()
    for number in operation.turn:
        other = submitted[number]
        if not other.is_operation:
            others |= _others(other, stream, submitted)
        elif other.stream != stream:
            others.add(number)
    return others


def _words(operation: SubmittedOperation | None) -> str:
    """An operation's name; of a wait for an event, its call."""
    if operation is None:
        return ""
    return operation.name if operation.is_operation else str(operation.call)


def _covered_ns(spans: Sequence[tuple[int, int]]) -> int:
    """Time that lies in at least one of the spans."""
    covered, upto = 0, 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, upto))
        upto = max(upto, end)
    return covered
