"""Who waits for whom in a state that nothing leaves: for posts, for room, or for its turn.

Example: the schedulers wait for the workers' end, and the workers have no room beside them: a circle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from wavesim.safety.hang.facts import SituationFacts, Unmet
from wavesim.safety.hang.layout import Holder
from wavesim.safety.hang.stuck import Progress, Stuck
from wavesim.sim.streams.stream_order import LEGACY

MOST_LATE = 1_000  # operations followed through what comes before them


@dataclass(frozen=True)
class Edge:
    """`source` waits for `target`, operations by number; `target` is None where nothing can end the wait.

    `kind`: for blocks or posts, for room that the other's blocks hold, or for its turn behind the other.
    """

    source: int
    target: int | None
    kind: Literal["wait", "room", "turn"]
    words: str


def edges_of(facts: SituationFacts, stuck: Stuck, holders: Sequence[Holder]) -> tuple[Edge, ...]:
    """All that matters to those who are there, or who are waited for."""
    edges = [
        Edge(holder.number, reason.producer, "wait", unmet_text(facts, reason, holder.number))
        for holder in holders
        if (reason := stuck.reasons.get(holder.number)) is not None
    ]
    for pool, head in stuck.heads.items():
        beside = [holder for holder in holders if holder.pool == pool]
        others = [holder for holder in beside if holder.number != head] or beside
        edges += [Edge(head, holder.number, "room", "has no room beside it") for holder in others]
    return (*edges, *_late(facts, stuck, [edge.target for edge in edges]))


def _late(facts: SituationFacts, stuck: Stuck, awaited: Sequence[int | None]) -> Iterator[Edge]:
    """What has not had its turn, from those who are waited for backwards."""
    queue = [number for number in dict.fromkeys(awaited) if number is not None]
    seen = set(queue)
    while queue and len(seen) < MOST_LATE:
        number = queue.pop(0)
        if stuck.progress[number] is not Progress.UNISSUED:
            continue
        target, words = turn_text(facts, stuck, number)
        yield Edge(number, target, "turn", words)
        if target is not None and target not in seen:
            seen.add(target)
            queue.append(target)


def turn_text(facts: SituationFacts, stuck: Stuck, number: int) -> tuple[int | None, str]:
    """(What an operation whose turn has not come stands behind, why in words)."""
    operation, turn = facts.operations[number], facts.turns.turns[number]
    late = [n for n in sorted(turn.ended) if stuck.progress[n] is not Progress.ENDED]
    if late:
        before = facts.operations[late[-1]]
        return late[-1], _order_text(
            before.name in operation.after, before.stream, operation.stream, before.name
        )
    issued = (Progress.ENDED, Progress.WAITING)
    starts = [n for n in sorted(turn.started) if stuck.progress[n] not in issued]
    if starts:
        return starts[-1], f"it comes once all blocks of {facts.operations[starts[-1]].name} have started"
    host = turn.host
    while host is not None:
        wait = facts.turns.host_waits[host]
        ended = [n for n in sorted(wait.ended) if stuck.progress[n] is not Progress.ENDED]
        if ended:
            name = facts.operations[ended[-1]].name
            return ended[-1], f"the host waits for the end of {name} before it launches it"
        host = wait.before
    return None, "there are more streams than hardware queues: it may stand behind another stream's launch"


def _order_text(is_event: bool, before: str, stream: str, name: str) -> str:
    if is_event:
        return f"it waits for the end of {name} by an event"
    if before == stream:
        return f"it stands behind {name} on stream {stream}"
    if LEGACY in (before, stream):
        return f"the legacy default stream puts it behind {name}"
    return f"it comes after {name}"


def circle_of(edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """The shortest way that leads back to where it begins, through several operations if there is one."""
    ways: dict[int, list[Edge]] = {}
    for edge in edges:
        ways.setdefault(edge.source, []).append(edge)
    circles = [way for start in ways if (way := _way_back(start, ways))]
    return min(circles, key=lambda way: (len(way) == 1, len(way)), default=())


def _way_back(start: int, ways: dict[int, list[Edge]]) -> tuple[Edge, ...]:
    paths: list[tuple[Edge, ...]] = [(edge,) for edge in ways[start] if edge.target != start]
    seen = {start}
    while paths:
        path = paths.pop(0)
        last = path[-1].target
        if last == start:
            return path
        if last is None or last in seen:
            continue
        seen.add(last)
        paths += [(*path, edge) for edge in ways.get(last, ())]
    return tuple(edge for edge in ways[start] if edge.target == start)[:1]


def unmet_text(facts: SituationFacts, unmet: Unmet, waiter: int) -> str:
    """Until when a wait goes on: "until all 128 blocks of workers have ended"."""
    wait = unmet.wait
    if unmet.producer is None:
        most = _most_posts(facts, wait.semaphore)
        return f"until {wait.semaphore} reaches {wait.value:,}; all posts there are bring it to {most:,}"
    producer = facts.operations[unmet.producer]
    if wait.semaphore:
        return f"until {wait.semaphore} reaches {wait.value:,}, to which {producer.name} posts"
    reached = "started" if wait.until == "start" else "ended"
    if not producer.is_kernel:
        return f"until {producer.kind} {producer.name} has {reached}"
    size = facts.pools.size(unmet.producer)
    whose = "their own grid" if unmet.producer == waiter else producer.name
    if wait.blocks == "row":
        return f"until their row of {whose} has {reached}"
    least = size if wait.blocks == "all" else int(wait.blocks)
    many = f"all {size:,} blocks" if least == size and size > 1 else blocks_text(least, size)
    return f"until {many} of {whose} {'has' if least == 1 else 'have'} {reached}"


def _most_posts(facts: SituationFacts, name: str) -> int:
    semaphore = next(counter for counter in facts.situation.semaphores if counter.name == name)
    sizes = {operation.name: max(1, operation.blocks) for operation in facts.operations}
    most = semaphore.initial
    for post in semaphore.posts:
        size = sizes[post.producer]
        most += post.each * (size if post.blocks is None else min(post.blocks, size))
    return most


def blocks_text(count: int, size: int) -> str:
    """So many of so many blocks."""
    return "the block" if size == 1 else f"{count:,} of {size:,} blocks"
