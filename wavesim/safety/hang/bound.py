"""The same question for many operations: each kernel's next block against all that may wait beside it.

Example: a profile of 10,000 launches of which 40 wait. What waits is taken to be there all at once, as far as
it does not come before or after the kernel in question; more than can happen, and never less.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from wavesim.safety.hang.facts import SituationFacts, Unmet
from wavesim.safety.hang.pools import Pool
from wavesim.safety.hang.stuck import Progress, Stuck, Trust

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

    def __init__(self, facts: SituationFacts, trust: Trust) -> None:
        self._facts, self._trust = facts, trust
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
            if self._trust == "cuda":
                yield self._state({pool: head}, waiting)
                continue
            kinds = {self._facts.pools.footprint(number) for number in counts} if pool.device else set()
            if len(kinds) > MOST_KINDS:
                raise TooManyKernelsError
            passing = [number for number, one in enumerate(self._facts.pools.of) if one == pool]
            found = self._facts.pools.closed_out(head, counts, passing if len(passing) < MOST_HEADS else [])
            if found is not None:
                yield self._state({pool: head}, waiting, {pool: found}, counts)

    def _for_ever(self) -> int:
        """The operations that wait for each other or for nobody, so that room changes nothing."""
        return self._largest(self._is_for_ever)

    def _is_for_ever(self, number: int, waiting: int) -> bool:
        return any(
            one.producer is None
            or self._may_stand(one.producer, waiting)
            or (one.until == "end" and bool(waiting >> one.producer & 1))
            for one in self._open(number)
        )

    def _open(self, number: int) -> Iterator[Unmet]:
        """What can keep an operation's blocks, without what has come before their turn."""
        ended, started = self._order.ended[number], self._order.started[number]
        for one in self._facts.unmet[number]:
            met = ended | (started if one.until == "start" else 0)
            if one.producer is None or not met >> one.producer & 1:
                yield one

    def _may_stand(self, number: int, waiting: int) -> bool:
        one = self._facts.operations[number]
        if (one.process, one.device) in self._facts.shares_queues:
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
        for one in self._open(number):
            if one.producer is None:
                return True
            # It, or what comes before it and not before the waiter, may find no room.
            before = self._order.started[one.producer] | 1 << one.producer
            may_lack_room = bool(before & ~self._order.ended[number] & self._crowded)
            may_stand = self._may_stand(one.producer, waiting)
            if may_lack_room or may_stand or (one.until == "end" and waiting >> one.producer & 1):
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
        found = {number: pools.size(number) for number in _numbers(waiting) if pools.of[number] == pool}
        if head in found:
            found[head] -= pools.unit(head)
        return {number: count for number, count in found.items() if count}

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
        for one in turn.started:
            now |= ended[one]
        begun = now
        for one in turn.started:
            begun |= started[one] | 1 << one
        ended.append(now)
        started.append(begun)
    return _Order(ended, started, _after(facts))


def _closure(numbers: frozenset[int], ended: list[int]) -> int:
    found = 0
    for number in numbers:
        found |= ended[number] | 1 << number
    return found


def _after(facts: SituationFacts) -> list[int]:
    turns, host_waits = facts.turns.turns, facts.turns.host_waits
    after, host = [0] * len(turns), dict.fromkeys(host_waits, 0)
    for number in range(len(turns) - 1, -1, -1):
        mine = after[number] | 1 << number
        for one in turns[number].ended | turns[number].started:
            after[one] |= mine
        last = turns[number].host
        if last is not None:
            host[last] |= mine
        if number in host_waits:
            wait = host_waits[number]
            for one in wait.ended:
                after[one] |= host[number]
            if wait.before is not None:
                host[wait.before] |= host[number]
    return after
