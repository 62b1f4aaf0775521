"""The hardware block dispatcher: launched kernels in a queue, blocks issued to SMs with room.

Example: the first kernel's blocks are issued until the SMs are full or it has no more; only then
come the next kernel's, at once and wherever there is room. Nothing is pre-empted; only a stream's priority
puts a kernel's pending blocks before those of one that was launched earlier.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simpy import Environment, Event

from wavesim.model.device import Device
from wavesim.sim.events import DISPATCH, Process, Task, Timer
from wavesim.sim.placement import SPREAD, SPREAD_OVER, Footprint, SmPool


@dataclass(eq=False)
class QueuedGrid:
    """A kernel in the queue, or a run of its blocks: `next` up to, not including, `upto`.

    `start(position, sm, slot)` is the life of one block, from its issue; it must not end in the
    pass that issues it, before its first event. Of launches whose turn comes at the
    same instant the one with the lower `rank` goes first. `issued` fires with the time of the
    last block's issue. `is_fetching`: blocks fetch their positions from a counter (`fetch_order`).
    Pending blocks of a lower `priority` go first, as in CUDA. Source: seen on an NVIDIA H200.
    """

    name: str
    rank: int
    footprint: Footprint
    start: Callable[[int, int, int], Process]
    next: int
    upto: int
    issued: Event | None = None
    is_fetching: bool = False
    priority: int = 0


Place = tuple[int, int]  # SM, slot


class Dispatcher:
    """Issues blocks in launch order, breadth-first over the SMs, in one pass per instant.

    A pass after all completions of an instant sees every freed slot at once; placing blocks one
    by one as slots come free moved predictions by up to 17 points at two blocks per SM.
    """

    def __init__(self, env: Environment, device: Device) -> None:
        self.queue: deque[QueuedGrid] = deque()
        self._arrivals: list[QueuedGrid] = []
        self._env = env
        self._pool = SmPool(device)
        self._all_sms = range(device.sm_count)
        self._changed: set[int] = set()
        self._is_head_new = True
        self._is_armed = False

    def enqueue(self, launch: QueuedGrid) -> None:
        """Takes a kernel whose turn in its stream has come."""
        self._arrivals.append(launch)
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
            Timer(self._env, self._dispatch, DISPATCH)

    def _dispatch(self, _: Event) -> None:
        """One pass. A kernel that did not fit before can only fit where something has changed."""
        self._is_armed = False
        self._is_head_new = self._is_head_new or not self.queue
        if self._arrivals:
            self._admit()
        self._pool.offer(self._all_sms if self._is_head_new else self._changed)
        self._changed = set()
        while self.queue:
            launch = self.queue[0]
            places = self._places(launch)
            in_turn = fetch_order(places) if launch.is_fetching else places
            for position, place in enumerate(in_turn, launch.next):
                Task(launch.start(position, *place))
            launch.next += len(places)
            if launch.next < launch.upto:
                self._is_head_new = False
                return
            self.queue.popleft()
            if launch.issued is not None:
                launch.issued.succeed(int(self._env.now))
            self._pool.offer(self._all_sms)

    def _admit(self) -> None:
        """Takes what has arrived into the queue: behind it, or before what has less priority."""
        head = self.queue[0] if self.queue else None
        self.queue.extend(sorted(self._arrivals, key=lambda launch: launch.rank))
        if any(launch.priority for launch in self.queue):
            self.queue = deque(sorted(self.queue, key=lambda launch: launch.priority))
            self._is_head_new = self._is_head_new or self.queue[0] is not head
        self._arrivals.clear()

    def _places(self, launch: QueuedGrid) -> list[Place]:
        """Where a launch's next blocks go, as many as there is room for now."""
        places: list[Place] = []
        for _ in range(launch.next, launch.upto):
            place = self._pool.place(launch.footprint)
            if place is None:
                break
            places.append(place)
        return places


def fetch_order(places: Sequence[Place]) -> Sequence[Place]:
    """Blocks issued in one instant, in the order in which they fetch their positions.

    Those of an SM fetch one right after the other, although they were issued a round apart. Which SM comes
    when is chance, and here spread evenly. Source: seen on an NVIDIA H200 (docs/mechanisms.md).
    """
    if len({sm for sm, _ in places}) == len(places):
        return places
    return sorted(places, key=lambda place: (place[0] * SPREAD % SPREAD_OVER, place))
