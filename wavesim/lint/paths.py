"""Goes along every path of a kernel at once and carries a state: what order a path has made so far.

Example: with states (fenced, behind a barrier) and a step that looks at each instruction, the states that a
post is reached in say whether some path leads from a store to it with no barrier between.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

State = TypeVar("State")
Step = Callable[[int, State], State | None]
Reached = Mapping[tuple[int, State], tuple[int, State] | None]


def walk(
    following: Callable[[int], Iterable[int]], starts: Iterable[tuple[int, State]], step: Step[State]
) -> Reached[State]:
    """Every (instruction, state before it) reached from `starts`, with what it was first reached from.

    `step(i, state)` is the state after instruction i, or None where the path need not be followed on.
    """
    reached: dict[tuple[int, State], tuple[int, State] | None] = dict.fromkeys(starts)
    open_ends = deque(reached)
    while open_ends:
        here = open_ends.popleft()
        after = step(*here)
        if after is None:
            continue
        for there in following(here[0]):
            if (there, after) not in reached:
                reached[there, after] = here
                open_ends.append((there, after))
    return reached


def path_to(reached: Reached[State], end: tuple[int, State]) -> list[int]:
    """The instructions of one path, from a start of the walk to `end`."""
    path = [end[0]]
    here = reached[end]
    while here is not None:
        path.append(here[0])
        here = reached[here]
    return path[::-1]
