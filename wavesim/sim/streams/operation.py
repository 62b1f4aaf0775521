"""An operation on its way from the host to its end, as the engine follows it and the timeline keeps it.

Example: kernel k1 could have started at 300 us and stood behind k0's copy in its hardware queue until 500 us:
`held_by` is that copy, and 200 us of false dependency are in `false_ns`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wavesim.sim.streams.program import LaunchHostFunction, LaunchKernel, Memcpy, RecordEvent, WaitEvent
from wavesim.sim.streams.stream_order import Kind

if TYPE_CHECKING:
    from simpy import Event


@dataclass(eq=False)
class OperationRun:
    """A kernel, copy or host function, or an event's record or wait; times in ns from the first host call.

    The call returned at `submitted_ns`; it reached the front of its hardware queue, behind `behind`, at
    `head_ns` and left that at `left_ns`; it ran from `start_ns` to `end_ns`. All of `waited` must have ended
    before; `after` names those of other streams that no earlier operation of its own had waited for.
    """

    number: int
    name: str
    call: LaunchKernel | Memcpy | LaunchHostFunction | RecordEvent | WaitEvent
    waited: Sequence["OperationRun"] = field(repr=False)
    done: "Event" = field(repr=False)
    queue: str
    engine: str
    submitted_ns: int
    head_ns: int = 0
    left_ns: int = -1  # until it has left its queue
    start_ns: int = -1
    end_ns: int = -1
    behind: "OperationRun | None" = field(default=None, repr=False)
    after: Sequence[str] = ()

    @property
    def stream(self) -> str:
        """The stream it was put into."""
        return self.call.stream

    @property
    def is_operation(self) -> bool:
        """Whether it is a kernel, a copy or a host function."""
        return isinstance(self.call, LaunchKernel | Memcpy | LaunchHostFunction)

    @property
    def kind(self) -> Kind:
        """Which of the three; what is none counts as the host's."""
        if isinstance(self.call, LaunchKernel):
            return "kernel"
        return "copy" if isinstance(self.call, Memcpy) else "host"

    @property
    def memcpy(self) -> Memcpy:
        """The call of what is a copy."""
        assert isinstance(self.call, Memcpy)
        return self.call

    @property
    def ready_ns(self) -> int:
        """When it was submitted and all that must come before had ended."""
        return max([self.submitted_ns, *(other.end_ns for other in self.waited)])

    @property
    def held_by(self) -> str:
        """What of another stream stood before it in its queue when it was ready; of an event its call."""
        front = self.behind
        if front is None or self.head_ns <= self.ready_ns or front.stream == self.stream:
            return ""
        return front.name if front.is_operation else str(front.call)

    @property
    def false_ns(self) -> int:
        """How long it was ready and stood behind another stream's operation."""
        return max(0, self.head_ns - self.ready_ns) if self.held_by else 0

    def why_stuck(self, front: "OperationRun | None") -> str:
        """What it waits for in a run that never ends; `front` stands at the head of its queue."""
        if self.left_ns < 0 and front is not None and front is not self:
            return f"{self.name} (stream {self.stream}) stands behind {front.name} in {self.queue}"
        if self.left_ns < 0:
            before = ", ".join(other.name for other in self.waited if other.end_ns < 0)
            return f"{self.name} (stream {self.stream}) waits for the end of {before}"
        if isinstance(self.call, LaunchKernel) and self.start_ns >= 0:
            return f"{self.name} holds its SM slots and spins until {self.call.until} has ended"
        return f"{self.name} has no SM slot: blocks that spin hold them"


def name_causes(runs: Sequence[OperationRun]) -> None:
    """Says of each operation what of other streams it came after."""
    known: dict[str, set[int]] = {}  # by stream: what its earlier operations have waited for already
    for run in runs:
        if run.is_operation:
            seen = known.setdefault(run.stream, set())
            causes = _others(run, run.stream)
            run.after = tuple(causes[number].name for number in sorted(causes.keys() - seen))
            seen.update(causes)


def _others(run: OperationRun, stream: str) -> dict[int, OperationRun]:
    """Operations of other streams than this that it came after, by way of events too."""
    others: dict[int, OperationRun] = {}
    for other in run.waited:
        if not other.is_operation:
            others |= _others(other, stream)
        elif other.stream != stream:
            others[other.number] = other
    return others
