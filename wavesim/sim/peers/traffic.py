"""What crosses the links: each transfer takes a share of its sender's and receiver's link, in turn.

Example: a thread block stores 20 GB/s and the link carries 346, so that 17 blocks store at a time and an
eighteenth waits. 132 tiles of 64 KB that a wave ends with are gone after 25 us; the blocks go on one after
the other, and are out of step from then on.
"""

from collections import deque
from dataclasses import dataclass
from itertools import count

from simpy import Environment, Event

from wavesim.model.link import Access, Link
from wavesim.sim.events import NORMAL, Timer

FULL = 1.0 + 1e-9


@dataclass(frozen=True)
class Transfer:
    """Bytes on their way from one device's memory to another's, sent by a row of the trace (-1: none)."""

    row: int
    source: int
    target: int
    start_ns: int
    end_ns: int
    bytes: int


@dataclass(eq=False)
class _Pending:
    """A transfer that has been asked for: `number` in order of asking, `share` of the link while it runs."""

    number: int
    row: int
    source: int
    target: int
    bytes: int
    rate: float
    share: float
    arrived: Event


class Traffic:
    """All links of a host's devices; `done` has the transfers in the order in which they ended.

    What waits for one receiver does not hold up what its sender has for others.
    """

    def __init__(self, env: Environment, link: Link, devices: int) -> None:
        self._env, self._link = env, link
        self._out, self._in = [0.0] * devices, [0.0] * devices
        self._queues: dict[tuple[int, int], deque[_Pending]] = {
            (source, other): deque()
            for source in range(devices)
            for other in range(devices)
            if source != other
        }
        self._numbers = count()
        self.done: list[Transfer] = []

    def store(self, row: int, source: int, target: int, size: int, access: Access = "write") -> Event:
        """Fires when bytes that one thread block moves have arrived."""
        rate = self._link.bytes_per_s(access, 1)
        return self._ask(row, source, target, size, rate, rate / self._link.most(access))

    def copy(self, row: int, source: int, target: int, size: int) -> Event:
        """Fires when bytes that the source's copy engine moves have arrived, at the full rate."""
        return self._ask(row, source, target, size, self._link.copy_engine_bytes_per_s, 1.0)

    def bytes_per_s(self, device: int) -> float:
        """What comes into and leaves a device's memory now."""
        return (self._out[device] + self._in[device]) * self._link.most("write")

    def _ask(self, row: int, source: int, target: int, size: int, rate: float, share: float) -> Event:
        arrived = Event(self._env)
        transfer = _Pending(next(self._numbers), row, source, target, size, rate, share, arrived)
        self._queues[source, target].append(transfer)
        self._start(source, target)
        return arrived

    def _start(self, source: int, target: int) -> None:
        """Begins what fits, oldest first, of what leaves `source` or comes to `target`."""
        beside = [
            key for key, waiting in self._queues.items() if waiting and (key[0] == source or key[1] == target)
        ]
        beside.sort(key=lambda key: self._queues[key][0].number)
        for key in beside:
            waiting = self._queues[key]
            while waiting and self._fits(waiting[0]):
                self._begin(waiting.popleft())

    def _fits(self, transfer: _Pending) -> bool:
        return max(self._out[transfer.source], self._in[transfer.target]) + transfer.share <= FULL

    def _begin(self, transfer: _Pending) -> None:
        self._out[transfer.source] += transfer.share
        self._in[transfer.target] += transfer.share
        start, taken = int(self._env.now), max(1, round(transfer.bytes / transfer.rate * 1e9))

        def end(_: Event) -> None:
            self._out[transfer.source] -= transfer.share
            self._in[transfer.target] -= transfer.share
            self.done.append(
                Transfer(transfer.row, transfer.source, transfer.target, start, start + taken, transfer.bytes)
            )
            transfer.arrived.succeed()
            self._start(transfer.source, transfer.target)

        Timer(self._env, end, NORMAL, taken)
