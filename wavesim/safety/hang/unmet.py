"""What can keep a wait from being met: a producer of which too few blocks have started or ended.

Example: a wait for a semaphore of value 24 to which 16 blocks add 1 each is never met, whatever runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavesim.safety.hang.situation import BlockWait, Post, PostedSemaphore, Situation, Until


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
    numbers = {one.name: number for number, one in enumerate(situation.operations)}
    semaphores = {one.name: one for one in situation.semaphores}
    found: dict[int, tuple[Unmet, ...]] = {}
    for wait in situation.waits:
        reasons = _reasons(wait, situation, numbers, semaphores)
        if reasons:
            waiter = numbers[wait.waiter]
            found[waiter] = (*found.get(waiter, ()), *reasons)
    return found


def has_rows(reasons: Sequence[Unmet]) -> bool:
    """Whether some of a kernel's blocks can end while others wait."""
    return any(one.wait.blocks == "row" for one in reasons)


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
    found = []
    for post, count in zip(posts, counts, strict=True):
        size = max(1, situation.operations[numbers[post.producer]].blocks)
        # Of one producer so many have to post; of several any may be the one that has not posted all.
        needed = -(-missing // post.each) if len(posts) == 1 else count
        # Which blocks of the grid post nobody says: they may be the last.
        found.append(Unmet(wait, numbers[post.producer], size - count + needed, post.until))
    return found


def _count(post: Post, blocks: int) -> int:
    size = max(1, blocks)
    return size if post.blocks is None else min(size, post.blocks)
