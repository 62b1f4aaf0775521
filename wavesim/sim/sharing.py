"""How the blocks of one SM share it.

Picture: two blocks compute on one SM, each at 0.55 of the speed it has alone; when one ends or
starts to spin, the other speeds up at once. Progress is kept as work done per block since the
start (all blocks of an SM progress equally), so a change touches one number, not every block.
"""

from heapq import heappop, heappush

from simpy import Environment, Event

from wavesim.sim.alarm import NORMAL, Alarm
from wavesim.sim.cost import RATE_UNIT


class SharedSm:
    """Processor sharing: each of n computing blocks progresses at rates[n - 1] / RATE_UNIT."""

    def __init__(self, env: Environment, rates: tuple[int, ...]) -> None:
        self._env = env
        self._rates = rates
        self._done = 0  # work each resident computing block has had, in ns / RATE_UNIT
        self._since = 0
        self._targets: list[tuple[int, int, Event]] = []
        self._sequence = 0
        self._alarm: Alarm | None = None

    def compute(self, work_ns: int) -> Event:
        """An event that fires when a block has had `work_ns` of an SM alone."""
        self._advance()
        event = Event(self._env)
        self._sequence += 1
        heappush(self._targets, (self._done + work_ns * RATE_UNIT, self._sequence, event))
        self._set_alarm()
        return event

    def _rate(self) -> int:
        return self._rates[min(len(self._targets), len(self._rates)) - 1]

    def _advance(self) -> None:
        now = int(self._env.now)
        if self._targets:
            self._done += (now - self._since) * self._rate()
        self._since = now

    def _set_alarm(self) -> None:
        """One pending alarm per SM: the earliest instant at which a block has had its work."""
        if self._alarm is not None:
            self._alarm.silence()
        remaining = max(0, self._targets[0][0] - self._done)
        self._alarm = Alarm(self._env, self._ring, NORMAL, -(-remaining // self._rate()))

    def _ring(self, _: Event) -> None:
        self._alarm = None
        self._advance()
        while self._targets and self._targets[0][0] <= self._done:
            heappop(self._targets)[2].succeed()
        if self._targets:
            self._set_alarm()
