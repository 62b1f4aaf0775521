"""The hardware block dispatcher: launched kernels in a queue, blocks issued to SMs with room.

Picture: the first kernel's blocks are issued until the SMs are full or it has no more; only then
come the next kernel's, at once and wherever there is room. Nothing is pre-empted or reordered.
"""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from simpy import Environment, Event
from simpy.events import EventPriority

from wavesim.model.device import Device
from wavesim.sim.placement import Footprint, SmPool

Process = Generator[Event, Any, None]

# simpy runs lower numbers first; blocks end at NORMAL (1). A pass after all completions of an instant
# sees every freed slot at once: placing them one by one moved results by up to 17 points.
DISPATCH = EventPriority(2)


@dataclass(eq=False)
class Launch:
    """A kernel in the queue, or a run of its blocks: `next` up to, not including, `upto`.

    `start(position, sm, slot)` is the process of one block.
    """

    name: str
    footprint: Footprint
    start: Callable[[int, int, int], Process]
    next: int
    upto: int


class Dispatcher:
    """Issues blocks in launch order, breadth-first over the SMs, once per instant."""

    def __init__(self, env: Environment, device: Device) -> None:
        self.queue: deque[Launch] = deque()
        self._env = env
        self._pool = SmPool(device)
        self._all_sms = range(device.sm_count)
        self._changed: set[int] = set()
        self._is_head_new = True
        self._is_armed = False

    def enqueue(self, launch: Launch) -> None:
        """Takes a kernel whose turn in its stream has come."""
        if not self.queue:
            self._is_head_new = True
        self.queue.append(launch)
        self._arm()

    def release(self, sm: int, slot: int, block: Footprint) -> None:
        """A block has exited."""
        self._pool.release(sm, slot, block)
        if self.queue:
            self._changed.add(sm)
            self._arm()

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            event = Event(self._env)
            event._ok, event._value = True, None
            event.callbacks.append(self._dispatch)
            self._env.schedule(event, priority=DISPATCH)

    def _dispatch(self, _: Event) -> None:
        """One pass. A kernel that did not fit before can only fit where something has changed."""
        self._is_armed = False
        self._pool.offer(self._all_sms if self._is_head_new else self._changed)
        self._changed = set()
        while self.queue:
            launch = self.queue[0]
            place = self._pool.place(launch.footprint)
            if place is None:
                self._is_head_new = False
                return
            self._env.process(launch.start(launch.next, *place))
            launch.next += 1
            if launch.next == launch.upto:
                self.queue.popleft()
                self._pool.offer(self._all_sms)
