"""A situation with all that follows from it alone: pools of SMs, turns, and what can keep each wait unmet.

Example: a wait for a semaphore of value 24 to which 16 blocks add 1 each is never met, whatever runs. The
second round's consumer comes after the first one's, which has waited for all tiles of the first producer; so
the second producer, behind that one, has had its turn by then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wavesim.safety.hang.pools import Pools
from wavesim.safety.hang.situation import BlockWait, Post, PostedSemaphore, Situation, Until
from wavesim.sim.streams.stream_order import Turns, turns_of


@dataclass(frozen=True)
class Unmet:
    """A wait is not met while fewer than `least` blocks of `producer` have reached `until`.

    `producer` is None where nothing ever meets it, or, with `is_unknown`, nobody knows what does.
    """

    wait: BlockWait
    producer: int | None = None
    least: int = 0
    until: Until = "end"
    is_unknown: bool = False


def unmet_of(situation: Situation) -> dict[int, tuple[Unmet, ...]]:
    """What can keep each waiting operation's blocks, by its number; what is met at once is left out."""
    numbers = {operation.name: number for number, operation in enumerate(situation.operations)}
    semaphores = {semaphore.name: semaphore for semaphore in situation.semaphores}
    unmet: dict[int, tuple[Unmet, ...]] = {}
    for wait in situation.waits:
        reasons = _reasons(wait, situation, numbers, semaphores)
        if reasons:
            waiter = numbers[wait.waiter]
            unmet[waiter] = (*unmet.get(waiter, ()), *reasons)
    return unmet


def has_rows(reasons: Sequence[Unmet]) -> bool:
    """Whether some of a kernel's blocks can end while others wait."""
    return any(reason.wait.blocks == "row" for reason in reasons)


def _reasons(
    wait: BlockWait,
    situation: Situation,
    numbers: Mapping[str, int],
    semaphores: Mapping[str, PostedSemaphore],
) -> list[Unmet]:
    if wait.is_unknown:
        return [Unmet(wait, is_unknown=True)]
    if wait.semaphore:
        return _of_semaphore(wait, situation, numbers, semaphores[wait.semaphore])
    producer = numbers[wait.producer]
    size = max(1, situation.operations[producer].blocks)
    # A row's blocks may be the last ones.
    least = wait.blocks if isinstance(wait.blocks, int) else size
    return [Unmet(wait, producer, least, wait.until)]


def _of_semaphore(
    wait: BlockWait, situation: Situation, numbers: Mapping[str, int], semaphore: PostedSemaphore
) -> list[Unmet]:
    missing = wait.value - semaphore.initial
    if missing <= 0:
        return []
    posts = [post for post in semaphore.posts if post.each]
    counts = [_count(post, situation.operations[numbers[post.producer]].blocks) for post in posts]
    total = sum(post.each * count for post, count in zip(posts, counts, strict=True))
    if total < missing:
        return [Unmet(wait)]
    reasons = []
    for post, count in zip(posts, counts, strict=True):
        size = max(1, situation.operations[numbers[post.producer]].blocks)
        # Of one producer so many have to post; of several any may be the one that has not posted all.
        needed = -(-missing // post.each) if len(posts) == 1 else count
        # Which blocks of the grid post nobody says: they may be the last.
        reasons.append(Unmet(wait, numbers[post.producer], size - count + needed, post.until))
    return reasons


def _count(post: Post, blocks: int) -> int:
    size = max(1, blocks)
    return size if post.blocks is None else min(size, post.blocks)


class SituationFacts:
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
        for operation in self.operations:
            streams.setdefault((operation.process, operation.device), set()).add(operation.stream)
        queues = {part.name: part.queues for part in self.situation.devices}
        return frozenset(key for key, names in streams.items() if len(names) > queues[key[1]])

    @cached_property
    def ended_before(self) -> tuple[frozenset[int], ...]:
        """What has ended when an operation's turn comes: what it comes after, and what that waited for."""
        ended: list[frozenset[int]] = []
        for turn in self.turns.turns:
            before: set[int] = set()
            left = list(turn.ended)
            while left:
                number = left.pop()
                if number not in before:
                    before.add(number)
                    left += [*self.turns.turns[number].ended, *self._awaited_ends(number)]
            ended.append(frozenset(before))
        return tuple(ended)

    def _awaited_ends(self, number: int) -> Iterator[int]:
        """Kernels that have ended once this one has: all of their blocks are waited for."""
        for unmet in self.unmet.get(number, ()):
            whole = unmet.wait.blocks == "row" or unmet.least >= self.pools.size(unmet.producer or 0)
            if unmet.producer is not None and unmet.until == "end" and not unmet.wait.semaphore and whole:
                yield unmet.producer
