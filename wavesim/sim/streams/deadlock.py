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
        told = "\n".join(f"  {one}" for one in reasons)
        super().__init__(detail=f"{told}\n{REMEDY}")


def why_stuck(
    submitted: Sequence[SubmittedOperation],
    left: Sequence[SubmittedOperation],
    fronts: Mapping[str, SubmittedOperation],
    blocked: Mapping[str, HostCall],
) -> list[str]:
    """What each unended operation and each host thread waits for, in the order of launches."""
    reasons = [_why(one, submitted, fronts) for one in left]
    return reasons + [f"host thread {name} waits in {call}" for name, call in blocked.items()]


def _why(
    one: SubmittedOperation,
    submitted: Sequence[SubmittedOperation],
    fronts: Mapping[str, SubmittedOperation],
) -> str:
    front = fronts.get(one.queue)
    if one.left_ns < 0 and front is not None and front is not one:
        return f"{one.name} (stream {one.stream}) stands behind {front.name} in {one.queue}"
    if one.left_ns < 0:
        before = [submitted[number].name for number in one.turn if submitted[number].end_ns < 0]
        return f"{one.name} (stream {one.stream}) waits for the end of {', '.join(before)}"
    if isinstance(one.call, LaunchKernel) and one.start_ns >= 0:
        return f"{one.name} holds its SM slots and spins until {one.call.until} has ended"
    return f"{one.name} has no SM slot: blocks that spin hold them"
