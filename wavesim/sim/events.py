"""Events and processes lighter than simpy's own, and the order of what happens in one instant.

Example: all blocks that end at t = 4 us do so first; of the two split-K slices of a tile that are among them
the one on the higher SM then adds up the sums; last, at the same 4 us, comes one dispatch pass.
"""

from collections.abc import Callable, Generator
from typing import Any

from simpy import Environment, Event
from simpy.events import EventPriority

NORMAL = EventPriority(1)  # simpy's own priority of timeouts and successes
IN_ORDER = EventPriority(2)  # after all completions of the same instant
DISPATCH = EventPriority(3)  # after everything else of the same instant

Process = Generator[Event, Any, None]


class Task:
    """Runs a generator up to its first event now, and on from each event that it yields.

    A simpy Process would add an event for the start and one for the end, at which nothing looks. The events
    must not have been processed yet: nothing is handed on from one that is over.
    """

    __slots__ = ("_process",)

    def __init__(self, process: Process) -> None:
        self._process = process
        self._resume()

    def _resume(self, _: Event | None = None) -> None:
        for event in self._process:
            event.callbacks.append(self._resume)
            return


class Timer(Event):
    """Calls `act` once, after `delay` nanoseconds, unless it is cancelled before."""

    def __init__(
        self, env: Environment, act: Callable[[Event], None], priority: EventPriority, delay: int = 0
    ) -> None:
        # As simpy's own timeouts do: what the base class sets up is all set here.
        self.env = env
        self.callbacks = [act]
        self._ok = True
        self._value = None
        env.schedule(self, priority, delay)

    def cancel(self) -> None:
        """Overtaken by something else: nothing is called."""
        self.callbacks = []


class SameInstant:
    """Collects what is to be done at an instant; after its completions does it by SM and slot."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []

    def queue(self, sm: int, slot: int, act: Callable[[], None]) -> None:
        """Has `act` called in this instant; a block queues one thing at a time."""
        if not self._waiting:
            Timer(self._env, self._act_in_order, IN_ORDER)
        self._waiting.append((sm, slot, act))

    def _act_in_order(self, _: Event) -> None:
        waiting, self._waiting = self._waiting, []
        for _sm, _slot, act in sorted(waiting, key=lambda entry: entry[:2]):
            act()
