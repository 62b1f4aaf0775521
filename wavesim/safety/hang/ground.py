"""A situation with all that follows from it alone: pools of SMs, turns, and what can keep each wait.

Example: the second round's consumer comes after the first one's, which has waited for all tiles of the first
producer. So the second producer, behind that one, has had its turn by then.
"""

from collections.abc import Iterator
from functools import cached_property

from wavesim.safety.hang.pools import Pools
from wavesim.safety.hang.situation import Situation
from wavesim.safety.hang.unmet import Unmet, has_rows, unmet_of
from wavesim.streams.turns import Turns, turns_of


class Ground:
    """A situation with all that follows from it alone."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.operations = situation.operations
        self.pools = Pools(situation)
        self.turns: Turns = turns_of(situation.operations)
        self.unmet: dict[int, tuple[Unmet, ...]] = unmet_of(situation)
        self.rowwise = {number for number, reasons in self.unmet.items() if has_rows(reasons)}

    @cached_property
    def shares_queues(self) -> frozenset[tuple[str, str]]:
        """(process, device) with more streams than hardware queues."""
        streams: dict[tuple[str, str], set[str]] = {}
        for one in self.operations:
            streams.setdefault((one.process, one.device), set()).add(one.stream)
        queues = {part.name: part.queues for part in self.situation.devices}
        return frozenset(key for key, names in streams.items() if len(names) > queues[key[1]])

    @cached_property
    def ended_before(self) -> tuple[frozenset[int], ...]:
        """What has ended when an operation's turn comes: what it comes after, and what that waited for."""
        found: list[frozenset[int]] = []
        for turn in self.turns.turns:
            before: set[int] = set()
            left = list(turn.ended)
            while left:
                number = left.pop()
                if number not in before:
                    before.add(number)
                    left += [*self.turns.turns[number].ended, *self._awaited_ends(number)]
            found.append(frozenset(before))
        return tuple(found)

    def _awaited_ends(self, number: int) -> Iterator[int]:
        """Kernels that have ended once this one has: all of their blocks are waited for."""
        for one in self.unmet.get(number, ()):
            whole = one.wait.blocks == "row" or one.least >= self.pools.size(one.producer or 0)
            if one.producer is not None and one.until == "end" and not one.wait.semaphore and whole:
                yield one.producer
