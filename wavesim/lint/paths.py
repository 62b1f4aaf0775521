"""Walks along all paths of a kernel at once, in a bounded number of steps; each carries a state.

Example: with states (fenced, behind a barrier) and a step that looks at each instruction, the states that a
post is reached in say whether some path leads from a store to it with no barrier between. `Effort` gives up
on a hostile kernel: 30,000 nested loops have a billion pairs of a branch and what depends on it; the largest
kernel of CUTLASS's has 20,000 instructions and takes 1 % of the steps.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from wavesim.errors import RecordingError

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


MOST_STEPS = 10_000_000  # up to 10 s, and 500 MB where each is kept


class Effort:
    """Counts down. `spend` raises `RecordingError` when nothing is left, naming what took the steps."""

    def __init__(self, what: str, most: int = MOST_STEPS) -> None:
        self._what = what
        self._most = self._left = most

    def spend(self, steps: int) -> None:
        """Takes the steps off what is left."""
        self._left -= steps
        if self._left < 0:
            raise RecordingError(
                f"{self._what[:70]} branches too much to be followed in {self._most:,} steps:"
                " check its parts one by one"
            )
