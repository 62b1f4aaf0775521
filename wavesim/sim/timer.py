"""An event at a chosen priority: simpy's timeouts always have the ordinary one.

Example: all blocks that end at t = 4 us do so first; then, at the same 4 us, one dispatch pass.
"""

from collections.abc import Callable

from simpy import Environment, Event
from simpy.events import EventPriority

NORMAL = EventPriority(1)  # simpy's own priority of timeouts and successes
IN_ORDER = EventPriority(2)  # after all completions of the same instant
DISPATCH = EventPriority(3)  # after everything else of the same instant


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
