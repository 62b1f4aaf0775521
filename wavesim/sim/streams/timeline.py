"""What a stream program did when: every operation, every block, every call of the host.

Example: of a vector addition in four chunks the copy engine to the device is busy for 800 us, longest of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim.sim.sms import BlockSpan
from wavesim.sim.streams.machine import StreamMachine
from wavesim.sim.streams.operation import OperationRun
from wavesim.sim.streams.program import StreamProgram
from wavesim.trace.spans import merged


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
    operations: Sequence[OperationRun]
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
        busy = {name: sum(end - start for start, end in merged(each)) for name, each in spans.items()}
        return max(busy.items(), key=lambda pair: pair[1])

    def operation(self, name: str) -> OperationRun:
        """The operation of that name. Raises `DescriptionError`."""
        for operation in self.operations:
            if operation.name == name:
                return operation
        names = ", ".join(operation.name for operation in self.operations)
        raise DescriptionError(f"operation is {shown(name)}; there are {names[:400]}")
