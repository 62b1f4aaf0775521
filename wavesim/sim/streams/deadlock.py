"""Why a stream program never ends: who waits for whom, from the host's threads to the blocks that spin.

Example: kernel `flag` stands behind kernel `spin` in the only hardware queue, `spin` is on the SMs and waits
for `flag` to end, and nothing else is left to happen.
"""

from collections.abc import Mapping, Sequence

from wavesim.errors import DeadlockError
from wavesim.sim.streams.program import HostCall, LaunchKernel
from wavesim.sim.streams.submitted import SubmittedOperation

REMEDY = (
    "launch what is waited for before what waits for it, on a stream with a hardware queue of its own, "
    "and leave it an SM"
)


class StreamDeadlockError(DeadlockError):
    """A stream program that never ends; `reasons` are sentences, one for each that waits."""

    headline = "deadlock: nothing is left to happen"

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        told = "\n".join(f"  {reason}" for reason in reasons)
        super().__init__(detail=f"{told}\n{REMEDY}")


def why_stuck(
    submitted: Sequence[SubmittedOperation],
    left: Sequence[SubmittedOperation],
    fronts: Mapping[str, SubmittedOperation],
    blocked: Mapping[str, HostCall],
) -> list[str]:
    """What each unended operation and each host thread waits for, in the order of launches."""
    reasons = [_why(operation, submitted, fronts) for operation in left]
    return reasons + [f"host thread {name} waits in {call}" for name, call in blocked.items()]


def _why(
    operation: SubmittedOperation,
    submitted: Sequence[SubmittedOperation],
    fronts: Mapping[str, SubmittedOperation],
) -> str:
    front = fronts.get(operation.queue)
    if operation.left_ns < 0 and front is not None and front is not operation:
        return f"{operation.name} (stream {operation.stream}) stands behind {front.name} in {operation.queue}"
    if operation.left_ns < 0:
        before = [submitted[number].name for number in operation.turn if submitted[number].end_ns < 0]
        return f"{operation.name} (stream {operation.stream}) waits for the end of {', '.join(before)}"
    if isinstance(operation.call, LaunchKernel) and operation.start_ns >= 0:
        return f"{operation.name} holds its SM slots and spins until {operation.call.until} has ended"
    return f"{operation.name} has no SM slot: blocks that spin hold them"
