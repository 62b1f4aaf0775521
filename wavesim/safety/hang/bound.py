"""The same question for many operations: each kernel's next block against all that may wait beside it.

Example: a profile of 10,000 launches of which 40 wait. What waits is taken to be there all at once, as far as
it does not come before or after the kernel in question; more than can happen, and never less.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wavesim.safety.hang.facts import SituationFacts, Unmet
from wavesim.safety.hang.pools import Pool
from wavesim.safety.hang.stuck import Progress, Stuck
from wavesim.safety.verdict import Assumption

MOST_HEADS = 200  # kernels of different footprint or company that are looked at
MOST_KINDS = 64  # different kernels that wait beside one
MOST_LOOKS = 500_000  # at operations, until those that cannot wait are left out


class TooManyKernelsError(Exception):
    """More different kernels wait than one looks at."""


@dataclass(frozen=True)
class _Order:
    """Sets of operations as bits: what has ended or started before each one's turn, what comes after it."""

    ended: list[int]
    started: list[int]
    after: list[int]


class StuckBound:
    """All that can wait beside each kernel's next block."""

    def __init__(self, facts: SituationFacts, trusted: frozenset[Assumption]) -> None:
        self._facts, self._trusted = facts, trusted
        self._order = _order_of(facts)
        pools = {facts.pools.of[number] for number in facts.unmet} - {None}
        self._crowded = sum(1 << number for number, pool in enumerate(facts.pools.of) if pool in pools)
        self._waiting = self._can_wait()

    def stuck(self) -> Iterator[Stuck]:
        """States in which a kernel's next block may find no room, or nobody can go on. Raises
        `TooManyKernelsError`.
        """
        for_ever = self._for_ever()
        if for_ever:
            yield self._state({}, for_ever)
        for head, waiting in self._heads():
            pool = self._facts.pools.of[head]
            assert pool is not None
            counts = self._counts(head, pool, waiting)
            if not counts:
                continue
            if Assumption.ROOM not in self._trusted:
                yield self._state({pool: head}, waiting)
                continue
            kinds = {self._facts.pools.footprint(number) for number in counts} if pool.device else set()
            if len(kinds) > MOST_KINDS:
                raise TooManyKernelsError
            passing = [number for number, other in enumerate(self._facts.pools.of) if other == pool]
            closed = self._facts.pools.closed_out(head, counts, passing if len(passing) < MOST_HEADS else [])
            if closed is not None:
                yield self._state({pool: head}, waiting, {pool: closed}, counts)

    def _for_ever(self) -> int:
        """The operations that wait for each other or for nobody, so that room changes nothing."""
        return self._largest(self._is_for_ever)

    def _is_for_ever(self, number: int, waiting: int) -> bool:
        return any(
            unmet.producer is None
            or self._may_stand(unmet.producer, waiting)
            or (unmet.until == "end" and bool(waiting >> unmet.producer & 1))
            for unmet in self._open(number)
        )

    def _open(self, number: int) -> Iterator[Unmet]:
        """What can keep an operation's blocks, without what has come before their turn."""
        ended, started = self._order.ended[number], self._order.started[number]
        for unmet in self._facts.unmet[number]:
            met = ended | (started if unmet.until == "start" else 0)
            if unmet.producer is None or not met >> unmet.producer & 1:
                yield unmet

    def _may_stand(self, number: int, waiting: int) -> bool:
        operation = self._facts.operations[number]
        if (operation.process, operation.device) in self._facts.shares_queues:
            return bool(waiting)
        return bool(self._order.ended[number] & waiting)

    def _largest(self, is_kept: Callable[[int, int], bool]) -> int:
        """The most operations that are each kept waiting by the others, as bits."""
        waiting = sum(1 << number for number in self._facts.unmet)
        for _ in range(MOST_LOOKS // max(1, len(self._facts.unmet))):
            left = sum(1 << number for number in _numbers(waiting) if is_kept(number, waiting))
            if left == waiting:
                break
            waiting = left
        return waiting

    def _can_wait(self) -> int:
        return self._largest(self._is_kept)

    def _is_kept(self, number: int, waiting: int) -> bool:
        for unmet in self._open(number):
            if unmet.producer is None:
                return True
            # It, or what comes before it and not before the waiter, may find no room.
            before = self._order.started[unmet.producer] | 1 << unmet.producer
            may_lack_room = bool(before & ~self._order.ended[number] & self._crowded)
            may_stand = self._may_stand(unmet.producer, waiting)
            if may_lack_room or may_stand or (unmet.until == "end" and waiting >> unmet.producer & 1):
                return True
        return False

    def _heads(self) -> Iterator[tuple[int, int]]:
        """Kernels whose next block may lack room, with what may wait meanwhile; of equal ones the first."""
        pools, seen = self._facts.pools, set()
        for number in range(len(self._facts.operations)):
            pool = pools.of[number]
            if pool is None:
                continue
            waiting = self._waiting & ~self._order.ended[number] & ~self._order.after[number]
            # Its own blocks wait too, but one of them is the one that lacks room.
            has_own = bool(waiting >> number & 1)
            shape = pools.footprint(number) if pool.device else None
            key = (pool, shape, pools.unit(number), waiting, number if has_own else None)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > MOST_HEADS:
                raise TooManyKernelsError
            yield number, waiting

    def _counts(self, head: int, pool: Pool, waiting: int) -> dict[int, int]:
        pools = self._facts.pools
        counts = {number: pools.size(number) for number in _numbers(waiting) if pools.of[number] == pool}
        if head in counts:
            counts[head] -= pools.unit(head)
        return {number: count for number, count in counts.items() if count}

    def _state(
        self,
        heads: Mapping[Pool, int],
        waiting: int,
        closed: Mapping[Pool, tuple[int, tuple[tuple[str, ...], ...]]] | None = None,
        counts: Mapping[int, int] | None = None,
    ) -> Stuck:
        progress = [
            Progress.WAITING if waiting >> number & 1 else Progress.UNISSUED
            for number in range(len(self._facts.operations))
        ]
        for number in heads.values():
            progress[number] = Progress.PARTLY
        pools = self._facts.pools
        resident = counts or {number: pools.size(number) for number in _numbers(waiting)}
        reasons = {number: self._facts.unmet[number][0] for number in _numbers(waiting)}
        return Stuck(progress, dict(resident), reasons, dict(heads), dict(closed or {}))


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _order_of(facts: SituationFacts) -> _Order:
    turns, host_waits = facts.turns.turns, facts.turns.host_waits
    ended, started, host = list[int](), list[int](), dict[int, int]()
    for number, turn in enumerate(turns):
        if number in host_waits:
            wait = host_waits[number]
            before = host[wait.before] if wait.before is not None else 0
            host[number] = before | _closure(wait.ended, ended)
        now = host[turn.host] if turn.host is not None else 0
        now |= _closure(turn.ended, ended)
        for earlier in turn.started:
            now |= ended[earlier]
        begun = now
        for earlier in turn.started:
            begun |= started[earlier] | 1 << earlier
        ended.append(now)
        started.append(begun)
    return _Order(ended, started, _after(facts))


def _closure(numbers: frozenset[int], ended: list[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= ended[number] | 1 << number
    return bits


def _after(facts: SituationFacts) -> list[int]:
    turns, host_waits = facts.turns.turns, facts.turns.host_waits
    after, host = [0] * len(turns), dict.fromkeys(host_waits, 0)
    for number in range(len(turns) - 1, -1, -1):
        mine = after[number] | 1 << number
        for earlier in turns[number].ended | turns[number].started:
            after[earlier] |= mine
        last = turns[number].host
        if last is not None:
            host[last] |= mine
        if number in host_waits:
            wait = host_waits[number]
            for earlier in wait.ended:
                after[earlier] |= host[number]
            if wait.before is not None:
                host[wait.before] |= host[number]
    return after
