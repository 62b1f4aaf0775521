"""An operation on its way from the host to its end, as the engine follows it.

Example: a copy of stream s1 is submitted at 20 us, reaches the front of queue 1 at 300 us, where it waits for
nothing more, and has ended at 500 us.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wavesim.sim.streams.program import LaunchHostFunction, LaunchKernel, Memcpy, RecordEvent, WaitEvent
from wavesim.sim.streams.stream_order import Kind

if TYPE_CHECKING:
    from simpy import Event


@dataclass(eq=False)
class SubmittedOperation:
    """An operation, or the record of an event or the wait for one, with its place in the order of launches.

    `turn` are the numbers of what must have ended before; it stood `behind` another in its queue.
    """

    number: int
    name: str
    call: LaunchKernel | Memcpy | LaunchHostFunction | RecordEvent | WaitEvent
    turn: frozenset[int]
    done: "Event"
    queue: str = ""
    submitted_ns: int = 0
    head_ns: int = 0
    left_ns: int = -1  # until it has left its queue
    start_ns: int = -1
    end_ns: int = -1
    blocks_left: int = 0
    behind: "SubmittedOperation | None" = field(default=None, repr=False)

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
    def kernel(self) -> LaunchKernel:
        """The launch of what is a kernel."""
        assert isinstance(self.call, LaunchKernel)
        return self.call

    @property
    def memcpy(self) -> Memcpy:
        """The call of what is a copy."""
        assert isinstance(self.call, Memcpy)
        return self.call
