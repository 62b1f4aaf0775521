"""What blocks do in one instant one after the other, in an order of their own: by SM and slot.

Example: the two split-K slices of a tile end at the same 4 us. One of them takes the last ticket and adds up
the sums: the one with the higher SM, whichever event came first.
"""

from collections.abc import Callable

from simpy import Environment, Event

from wavesim.sim.timer import IN_ORDER, Timer


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
