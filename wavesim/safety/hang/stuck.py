"""States that nothing leaves: which operations can stand where when no block can end and none be issued.

Example: two kernels of which every block waits for all blocks of both. If the small one's blocks lie on 80
SMs and the large one's on the 68 others, nobody ends and the large one's other 60 blocks find no room.

Nothing is assumed of the order in which the device takes launches up, but what CUDA promises: streams,
events and dependent launches (`turns`). Of each operation nothing was issued, some, all, or all of it has
ended. What keeps a wait from being met only shrinks with time, so whoever waits in the end has waited from
the start: a kernel that waits has all of its blocks that were issued still there. All states that fit
together are tried; where there are too many operations, `StuckBound` looks at them one by one instead.

A state found may still be out of reach in rare cases; one that can be reached is never missed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from math import prod

from wavesim.safety.hang.facts import SituationFacts, Unmet
from wavesim.safety.hang.pools import Pool
from wavesim.safety.verdict import Assumption

# What the device is trusted with beside CUDA's promises. Without any it need not issue a block while another
# is resident; in order, launches of a higher priority also come before.
PROMISED: frozenset[Assumption] = frozenset()
ROOMY = frozenset({Assumption.ROOM})
ORDERLY = frozenset({Assumption.ROOM, Assumption.ORDER})
MOST_SMS_LOOKED_AT = 50_000  # of all ways to fill them together: two seconds
MOST_CHOICES = 200  # of reasons, of which one each keeps a waiting kernel


Closed = tuple[int, tuple[tuple[str, ...], ...]]  # SMs, and the blocks on each as far as they were found


class TooManyStatesError(Exception):
    """More ways to fill the SMs than one looks at."""


class Progress(Enum):
    """How far an operation has come."""

    UNISSUED = "its turn has not come"
    HALTED = "what was issued has ended, and there is no room for more"
    PARTLY = "what was issued waits, and there is no room for more"
    WAITING = "issued and waiting"
    ENDED = "ended"


LEFT = (Progress.UNISSUED, Progress.HALTED, Progress.PARTLY)  # with blocks that are not issued


@dataclass(frozen=True)
class Stuck:
    """A state that nothing leaves, by the operations' numbers.

    `resident`: blocks that are there and wait. `reasons`: what keeps each of those that wait. `heads`: per
    pool the operation whose next block finds no room, with the blocks found on each closed SM.
    """

    progress: Sequence[Progress]
    resident: Mapping[int, int]
    reasons: Mapping[int, Unmet]
    heads: Mapping[Pool, int] = field(default_factory=dict)
    closed: Mapping[Pool, Closed] = field(default_factory=dict)


class StuckSearch:
    """Tries all ways in which operations can stand together."""

    def __init__(self, facts: SituationFacts, trusted: frozenset[Assumption]) -> None:
        self._facts, self._trusted = facts, trusted
        self._progress: list[Progress] = []
        self._closed: dict[tuple[object, ...], Closed | None] = {}
        self._looked_at = 0

    def stuck(self) -> Iterator[Stuck]:
        """All that are found; a caller that wants to know whether there is one takes the first.

        Raises `TooManyStatesError`.
        """
        yield from self._from(0)

    def _from(self, number: int) -> Iterator[Stuck]:
        if number == len(self._facts.operations):
            if any(state is not Progress.ENDED for state in self._progress):
                yield from self._complete()
            return
        for choice in self._choices(number):
            self._progress.append(choice)
            yield from self._from(number + 1)
            self._progress.pop()

    def _choices(self, number: int) -> tuple[Progress, ...]:
        if not self._has_turn(number):
            return (Progress.UNISSUED,)
        facts, operation = self._facts, self._facts.operations[number]
        choices = [Progress.ENDED]
        if number in facts.unmet:
            choices.append(Progress.WAITING)
        if facts.pools.of[number] is not None:
            choices += [Progress.PARTLY, Progress.HALTED] if number in facts.unmet else [Progress.HALTED]
        if (operation.process, operation.device) in facts.shares_queues and self._stands_behind(number):
            choices.append(Progress.UNISSUED)
        return tuple(choices)

    def _has_turn(self, number: int) -> bool:
        turn = self._facts.turns.turns[number]
        if any(self._progress[earlier] is not Progress.ENDED for earlier in turn.ended):
            return False
        issued = (Progress.WAITING, Progress.ENDED)
        return all(self._progress[earlier] in issued for earlier in turn.started) and self._host_came(
            turn.host
        )

    def _host_came(self, host: int | None) -> bool:
        while host is not None:
            wait = self._facts.turns.host_waits[host]
            if any(self._progress[earlier] is not Progress.ENDED for earlier in wait.ended):
                return False
            host = wait.before
        return True

    def _stands_behind(self, number: int) -> bool:
        """Whether an earlier launch on another stream of the process and device is not issued as a whole."""
        operations = self._facts.operations
        operation = operations[number]
        return any(
            self._progress[other] in LEFT
            and (operations[other].process, operations[other].device) == (operation.process, operation.device)
            and operations[other].stream != operation.stream
            for other in range(number)
        )

    def _complete(self) -> Iterator[Stuck]:
        """The states in which operations stand like this, if nothing leaves them."""
        if not all(
            self._could_be_met(number)
            for number, progress in enumerate(self._progress)
            if progress is Progress.ENDED and number in self._facts.unmet
        ):
            return
        for reasons in self._reasons():
            resident = self._resident(reasons)
            heads = self._heads(resident)
            if heads is not None:
                closed = {pool: sms for pool, (_, sms) in heads.items()}
                numbers = {pool: head for pool, (head, _) in heads.items()}
                yield Stuck(tuple(self._progress), resident, reasons, numbers, closed)
                return

    def _could_be_met(self, number: int) -> bool:
        by_wait: dict[int, list[Unmet]] = {}
        for unmet in self._facts.unmet[number]:
            by_wait.setdefault(id(unmet.wait), []).append(unmet)
        return all(any(self._may_reach(unmet) for unmet in reasons) for reasons in by_wait.values())

    def _may_reach(self, unmet: Unmet) -> bool:
        if unmet.producer is None:
            return unmet.is_unknown
        progress = self._progress[unmet.producer]
        if progress is Progress.UNISSUED:
            return False
        waits = progress in (Progress.PARTLY, Progress.WAITING)
        if waits and unmet.until == "end" and unmet.producer not in self._facts.rowwise:
            return False  # while it waits none of its blocks has ended
        return unmet.least <= self._most_issued(unmet.producer)

    def _most_issued(self, number: int) -> int:
        pools = self._facts.pools
        size = pools.size(number)
        return size - pools.unit(number) if self._progress[number] in LEFT else size

    def _reasons(self) -> Iterator[dict[int, Unmet]]:
        """What keeps each operation that waits: a choice of one each; nothing where one cannot wait."""
        options: dict[int, list[Unmet]] = {}
        for number, progress in enumerate(self._progress):
            if number not in self._facts.unmet or progress not in (Progress.WAITING, Progress.PARTLY):
                continue
            keeping = [reason for reason in self._facts.unmet[number] if self._keeps(reason)]
            if keeping:
                # One that costs no blocks does for all.
                free = [reason for reason in keeping if self._limit(reason) is None]
                options[number] = free[:1] or keeping
            else:
                return
        if prod(map(len, options.values())) > MOST_CHOICES:
            options = {number: keeping[:1] for number, keeping in options.items()}
        for choice in product(*options.values()):
            yield dict(zip(options, choice, strict=True))

    def _keeps(self, unmet: Unmet) -> bool:
        if unmet.producer is None:
            return True
        progress = self._progress[unmet.producer]
        if progress in LEFT:
            return True
        return progress is Progress.WAITING and unmet.until == "end"

    def _limit(self, unmet: Unmet) -> tuple[int, int] | None:
        """(producer, blocks of it at most) that the reason asks for, where there may be more."""
        number = unmet.producer
        if number is None or self._progress[number] is not Progress.PARTLY or unmet.until == "end":
            return None
        return (number, unmet.least - 1) if unmet.least <= self._most_issued(number) else None

    def _resident(self, reasons: Mapping[int, Unmet]) -> dict[int, int]:
        resident = {number: self._most_issued(number) for number in reasons}
        for reason in reasons.values():
            limit = self._limit(reason)
            if limit is not None and limit[0] in resident:
                resident[limit[0]] = min(resident[limit[0]], limit[1])
        return {number: count for number, count in resident.items() if self._may_be_there(number)}

    def _may_be_there(self, number: int) -> bool:
        """Whether blocks of it can have been issued before others that go first and were not all issued."""
        return Assumption.ORDER not in self._trusted or not any(
            self._goes_first(other, number)
            for other, progress in enumerate(self._progress)
            if progress in (Progress.PARTLY, Progress.HALTED)
        )

    def _goes_first(self, earlier: int, other: int) -> bool:
        """Whether `one`, whose turn comes no later, is issued before `other` starts."""
        facts = self._facts
        first, second = facts.operations[earlier], facts.operations[other]
        turn, later = facts.turns.turns[earlier], facts.turns.turns[other]
        ended = facts.ended_before[other]
        return (
            earlier < other
            and facts.pools.of[earlier] == facts.pools.of[other]
            and first.priority <= second.priority
            and turn.ended <= ended
            and turn.started <= later.started | ended
            and turn.host in (None, later.host)
            and (first.process, first.device) not in facts.shares_queues
        )

    def _heads(self, resident: Mapping[int, int]) -> dict[Pool, tuple[int, Closed]] | None:
        """Per pool with blocks to issue one whose next finds no room; None where one always does."""
        left: dict[Pool, list[int]] = {}
        for number, progress in enumerate(self._progress):
            if progress in (Progress.PARTLY, Progress.HALTED):
                pool = self._facts.pools.of[number]
                assert pool is not None
                left.setdefault(pool, []).append(number)
        heads = {}
        for pool, numbers in left.items():
            stuck = self._stuck_head(pool, numbers, resident)
            if stuck is None:
                return None
            heads[pool] = stuck
        return heads

    def _stuck_head(
        self, pool: Pool, numbers: Sequence[int], resident: Mapping[int, int]
    ) -> tuple[int, Closed] | None:
        pools, operations = self._facts.pools, self._facts.operations
        there = {number: count for number, count in resident.items() if pools.of[number] == pool and count}
        if Assumption.ORDER in self._trusted:
            numbers = [min(numbers, key=lambda number: (operations[number].priority, number))]
        if Assumption.ROOM not in self._trusted:
            return (numbers[0], (0, ())) if there else None
        passing = [
            number
            for number, progress in enumerate(self._progress)
            if progress is not Progress.UNISSUED and pools.of[number] == pool
        ]
        for head in numbers:
            key = (head, *there.items(), *passing)
            if key not in self._closed:
                self._looked_at += 1 if pool.device is None else pool.device.sm_count
                if self._looked_at > MOST_SMS_LOOKED_AT:
                    raise TooManyStatesError
                self._closed[key] = pools.closed_out(head, there, passing)
            closed = self._closed[key]
            if closed is not None:
                return head, closed
        return None
