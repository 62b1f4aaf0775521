"""Copy engines: each takes the copies of its direction one after the other, and all share a bus.

Example: two copies of 8 MB to the device, at 40 bytes a nanosecond, end after 200 and 400 us; a third, to the
host, runs beside the first.
"""

from collections.abc import Callable
from math import ceil

from simpy import Environment, Event, Store

from wavesim.sim.events import Process
from wavesim.sim.streams.machine import StreamMachine
from wavesim.sim.streams.operation import OperationRun

ROUNDED = 1e-6  # bytes: what floating point leaves over


class CopyEngines:
    """All of a machine. `finish` is told of each copy's end."""

    def __init__(
        self, env: Environment, machine: StreamMachine, finish: Callable[[OperationRun], None]
    ) -> None:
        self._env, self._machine, self._finish = env, machine, finish
        self._waiting = [Store(env) for _ in range(machine.copy_engines)]
        self._running: list[OperationRun] = []
        self._changed = Event(env)
        for store in self._waiting:
            env.process(self._serve(store))

    def take(self, copy: OperationRun) -> None:
        """A copy whose turn has come."""
        self._waiting[self._machine.engine(copy.memcpy.direction)].put(copy)

    def _serve(self, store: Store) -> Process:
        while True:
            copy = yield store.get()
            copy.start_ns = int(self._env.now)
            if self._machine.copy_ns:
                yield self._env.timeout(self._machine.copy_ns)
            self._running.append(copy)
            self._tell()
            yield from self._transfer(copy)
            self._running.remove(copy)
            self._tell()
            self._finish(copy)

    def _transfer(self, copy: OperationRun) -> Process:
        """Moves the bytes; the rate changes whenever a copy on another engine begins or ends."""
        left = float(copy.memcpy.bytes)
        while left > ROUNDED:
            per_ns, began = self._bytes_per_ns(copy), self._env.now
            yield self._env.timeout(ceil(left / per_ns - ROUNDED)) | self._changed
            left -= (self._env.now - began) * per_ns

    def _bytes_per_ns(self, copy: OperationRun) -> float:
        call = copy.memcpy
        alone = self._machine.bytes_per_s(call.direction, is_pinned=call.is_pinned) / 1e9
        is_shared = any({other.memcpy.direction, call.direction} == {"h2d", "d2h"} for other in self._running)
        return alone * (self._machine.duplex_share if is_shared else 1)

    def _tell(self) -> None:
        """Everybody who transfers looks at its rate again."""
        before, self._changed = self._changed, Event(self._env)
        before.succeed()
