"""What never ends whatever the device does: a circle of waits, a missing post, a grid that never fits.

Example: a barrier of a grid of 200 blocks on 132 SMs that hold one each: 132 wait for the other 68, for ever.
Everything else is given all the room it could have.
"""

from collections import deque
from collections.abc import Iterable

from wavesim.safety.hang.facts import SituationFacts, Unmet
from wavesim.safety.hang.stuck import Progress, Stuck


def hopeless(facts: SituationFacts) -> Stuck | None:
    """The state in which a situation ends where it hangs for certain; None where it need not."""
    runs = _BestRun(facts)
    runs.go()
    if len(runs.ended) == len(facts.operations):
        return None
    progress, resident, reasons = [], {}, {}
    for number in range(len(facts.operations)):
        if number in runs.ended:
            progress.append(Progress.ENDED)
        elif not runs.has_turn(number):
            progress.append(Progress.UNISSUED)
        else:
            issued = runs.started(number)
            progress.append(Progress.WAITING if issued == facts.pools.size(number) else Progress.PARTLY)
            unmet = [reason for reason in facts.unmet.get(number, ()) if not runs.is_met(reason)]
            if issued:
                resident[number] = issued
            if unmet:
                reasons[number] = unmet[0]
    heads = {
        pool: number
        for number, state in enumerate(progress)
        if state is Progress.PARTLY and (pool := facts.pools.of[number]) is not None
    }
    return Stuck(progress, resident, reasons, heads)


class _BestRun:
    """Each operation ends as soon as its turn has come and its waits are met; room is had by all at once."""

    def __init__(self, facts: SituationFacts) -> None:
        self._facts = facts
        self.ended: set[int] = set()
        self._turned: set[int] = set()
        self._passed: set[int] = set()  # launches before which the host waited, and did so
        self._dependents = self._dependents_of()
        self._behind_host: dict[int, list[int]] = {}
        for number, turn in enumerate(facts.turns.turns):
            if turn.host is not None:
                self._behind_host.setdefault(turn.host, []).append(number)

    def go(self) -> None:
        """To the end: whatever something has changed for is looked at again."""
        queue = deque(range(len(self._facts.operations)))
        queue.extend(self._let_host_pass(list(self._facts.turns.host_waits)))
        while queue:
            number = queue.popleft()
            if number in self.ended:
                continue
            is_new = number not in self._turned and self.has_turn(number)
            if is_new:
                self._turned.add(number)
            if number in self._turned and self._can_end(number):
                self.ended.add(number)
                queue.extend(self._let_host_pass(self._host_waits_on.get(number, ())))
                is_new = True
            if is_new:
                queue.extend(self._dependents.get(number, ()))

    def has_turn(self, number: int) -> bool:
        """Whether its turn has come."""
        turn = self._facts.turns.turns[number]
        return (
            turn.ended <= self.ended
            and all(self.started(earlier) == self._facts.pools.size(earlier) for earlier in turn.started)
            and (turn.host is None or turn.host in self._passed)
        )

    def started(self, number: int) -> int:
        """How many of its blocks can have started: those that wait hold their slots."""
        pools = self._facts.pools
        if number in self.ended:
            return pools.size(number)
        if number not in self._turned:
            return 0
        if number in self._facts.rowwise:
            return pools.size(number)
        room = pools.capacity(number) // pools.unit(number) * pools.unit(number)
        return min(pools.size(number), room)

    def is_met(self, unmet: Unmet) -> bool:
        """Whether the producer can have come far enough."""
        number = unmet.producer
        if number is None:
            return unmet.is_unknown
        least = -(-unmet.least // unmet.wait.rows) if unmet.wait.blocks == "row" else unmet.least
        if unmet.until == "start" or number in self.ended or number in self._facts.rowwise:
            return self.started(number) >= least
        return False

    def _can_end(self, number: int) -> bool:
        if self._facts.operations[number].is_cooperative and not self.started(number):
            return False
        met: dict[int, bool] = {}
        for unmet in self._facts.unmet.get(number, ()):
            # Of several that post to a semaphore one may do.
            met[id(unmet.wait)] = met.get(id(unmet.wait), False) or self.is_met(unmet)
        return all(met.values())

    def _let_host_pass(self, launches: Iterable[int]) -> list[int]:
        """Operations that may have their turn now that the host passed these waits, as far as it did."""
        freed, queue = list[int](), deque(launches)
        while queue:
            launch = queue.popleft()
            wait = self._facts.turns.host_waits[launch]
            is_next = wait.before is None or wait.before in self._passed
            if launch in self._passed or not is_next or not wait.ended <= self.ended:
                continue
            self._passed.add(launch)
            freed += self._behind_host.get(launch, ())
            queue.extend(self._next_host.get(launch, ()))
        return freed

    def _dependents_of(self) -> dict[int, list[int]]:
        dependents: dict[int, list[int]] = {}
        for number, turn in enumerate(self._facts.turns.turns):
            for earlier in turn.ended | turn.started:
                dependents.setdefault(earlier, []).append(number)
        for number, reasons in self._facts.unmet.items():
            for reason in reasons:
                if reason.producer is not None:
                    dependents.setdefault(reason.producer, []).append(number)
        self._host_waits_on: dict[int, list[int]] = {}
        self._next_host: dict[int, list[int]] = {}
        for launch, wait in self._facts.turns.host_waits.items():
            for earlier in wait.ended:
                self._host_waits_on.setdefault(earlier, []).append(launch)
            if wait.before is not None:
                self._next_host.setdefault(wait.before, []).append(launch)
        return dependents
