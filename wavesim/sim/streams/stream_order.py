"""When an operation's turn comes: what of the earlier launches must have started or ended before.

Example: a kernel on the legacy default stream comes after every kernel that its process launched before on
blocking streams of the device, and before all that it launches on them later.

Sources: CUDA programming guide, streams, programmatic dependent launch; CUDA runtime API, stream
synchronisation behaviour. Only launches that came earlier are named, so that turns have no circles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from wavesim.model.kernel import Block, Carveout

Kind = Literal["kernel", "copy", "host"]
Trigger = Literal["start", "end"]
LEGACY = "legacy"
ONE_THREAD = Block(1)


@dataclass(frozen=True)
class StreamOperation:
    """A kernel, a copy or a host function in a stream. Only kernels have blocks, and only they hold SMs.

    `blocks` counts the grid; `cluster` of them are issued together, and all of a `is_cooperative` launch.
    `stream` "legacy" is the legacy default stream: it waits for all blocking streams of its process and
    device, and they for it; `is_blocking` is False for a stream made with cudaStreamNonBlocking. A lower
    `priority` goes first, as in CUDA. A `is_dependent` launch (programmatic dependent launch) may start once
    all blocks of the operation before it in its stream have triggered: at their `trigger`, "start" or "end".
    `after`: operations that end first, by an event; `host_after`: the host waits for their end before it
    makes this launch and all later ones of its process. `after_start`: its turn comes once all blocks of
    these have started, as behind a wait-kernel. `is_lazy`: its code is not loaded yet, and the launch loads
    it, for which CUDA may wait until all that its process has launched on the device has ended.
    """

    name: str
    device: str = ""
    kind: Kind = "kernel"
    blocks: int = 1
    block: Block = ONE_THREAD
    carveout: Carveout = "default"
    cluster: int = 1
    stream: str = LEGACY
    is_blocking: bool = True
    process: str = ""
    priority: int = 0
    is_cooperative: bool = False
    is_dependent: bool = False
    trigger: Trigger = "end"
    after: Sequence[str] = ()
    host_after: Sequence[str] = ()
    after_start: Sequence[str] = ()
    is_lazy: bool = False

    @property
    def is_kernel(self) -> bool:
        """Whether it has blocks."""
        return self.kind == "kernel"


@dataclass(frozen=True)
class Turn:
    """What comes before an operation, by number: `ended` and `started` with all their blocks.

    `host` is the latest operation of the process, perhaps itself, before whose launch the host waited; None
    where it never did.
    """

    ended: frozenset[int] = frozenset()
    started: frozenset[int] = frozenset()
    host: int | None = None

    @property
    def is_free(self) -> bool:
        """Whether nothing comes before."""
        return not self.ended and not self.started and self.host is None


@dataclass(frozen=True)
class HostWait:
    """Before a launch the host waits for the end of these; `before` is its wait before that."""

    ended: frozenset[int]
    before: int | None


@dataclass(frozen=True)
class Turns:
    """The turn of each operation by its number, and the host's waits by the launch that they precede."""

    turns: Sequence[Turn]
    host_waits: Mapping[int, HostWait]


def turns_of(operations: Sequence[StreamOperation]) -> Turns:
    """When the turn of each of these, in the order of their launches, comes."""
    order = StreamOrder()
    return Turns(tuple(order.add(operation) for operation in operations), order.host_waits)


class StreamOrder:
    """Goes with the host from launch to launch; `add` says what comes before each."""

    def __init__(self) -> None:
        self.host_waits: dict[int, HostWait] = {}
        self._operations: list[StreamOperation] = []
        self._numbers: dict[str, int] = {}
        self._last: dict[tuple[str, str, str], list[int]] = {}  # what may still run at a stream's end
        self._blocking: dict[tuple[str, str], set[str]] = {}  # streams used since the last on the legacy one
        self._legacy: dict[tuple[str, str], list[int]] = {}
        self._host: dict[str, int] = {}

    def add(self, operation: StreamOperation) -> Turn:
        """The turn of the next launch. Raises `KeyError` where it comes after one that was not launched."""
        number = self._numbers[operation.name] = len(self._operations)
        self._operations.append(operation)
        place = (operation.process, operation.device)
        before = self._last.setdefault((*place, operation.stream), [])
        is_early = operation.is_dependent and bool(before) and self._triggers_early(before[-1])
        started = {before[-1]} if is_early else set()
        ended = {
            *(() if is_early else before),
            *self._across(place, operation),
            *self._named(operation.after),
        }
        if ended_before := self._named(operation.host_after) | self._loaded_after(operation, number):
            self.host_waits[number] = HostWait(ended_before, self._host.get(operation.process))
            self._host[operation.process] = number
        if not is_early:
            before.clear()
        before.append(number)  # behind an early start both may still run: what comes next waits for both
        started |= self._named(operation.after_start)
        return Turn(frozenset(ended), frozenset(started - ended), self._host.get(operation.process))

    def _loaded_after(self, operation: StreamOperation, number: int) -> frozenset[int]:
        earlier = range(number if operation.is_lazy else 0)
        place = (operation.process, operation.device)
        return frozenset(
            i for i in earlier if (self._operations[i].process, self._operations[i].device) == place
        )

    def _triggers_early(self, number: int) -> bool:
        before = self._operations[number]
        return before.is_kernel and before.trigger == "start"

    def _named(self, names: Sequence[str]) -> frozenset[int]:
        return frozenset(self._numbers[name] for name in names)

    def _across(self, place: tuple[str, str], operation: StreamOperation) -> list[int]:
        """What the legacy default stream orders: it after blocking streams, and these after it."""
        if operation.stream == LEGACY:
            used = self._blocking.pop(place, set())
            self._legacy[place] = self._last[*place, LEGACY]
            return [number for stream in sorted(used) for number in self._last[*place, stream]]
        if not operation.is_blocking:
            return []
        self._blocking.setdefault(place, set()).add(operation.stream)
        return list(self._legacy.get(place, ()))
