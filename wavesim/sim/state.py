"""What changes while a pipeline runs: semaphores, the trace as it fills, how far each stage is.

Example: after 300 of 384 blocks a stage has 84 left, row 3's semaphore reads 18 of 24, and 300
rows of the trace have their end.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from simpy import Environment, Event

from wavesim.plan.resolved import ResolvedStage
from wavesim.sim.block_costs import BlockCosts
from wavesim.sim.events import NORMAL, Timer
from wavesim.sim.launches import GridLaunch
from wavesim.sim.placement import Footprint
from wavesim.trace.trace import IntArray


class Semaphore:
    """A counter in global memory; `ready` fires when other SMs see that it has the awaited value."""

    __slots__ = ("awaited", "is_ready", "ready", "ready_ns", "seen")

    def __init__(self, env: Environment, awaited: int) -> None:
        self.awaited = awaited
        self.seen = 0
        self.is_ready = False
        self.ready_ns = 0  # since when it is
        self.ready = Event(env)

    def post(self, post_visibility_ns: int) -> None:
        """Adds one, which is seen `post_visibility_ns` later."""
        self.seen += 1
        if self.seen < self.awaited:
            return
        if post_visibility_ns:
            Timer(self.ready.env, self._become_ready, NORMAL, post_visibility_ns)
        else:
            self._become_ready()

    def _become_ready(self, _: Event | None = None) -> None:
        self.is_ready = True
        self.ready_ns = int(self.ready.env.now)
        self.ready.succeed()


@dataclass
class Rows:
    """The trace while it fills: one entry per block, stages one after another, each in issue order."""

    sm: list[int]
    slot: list[int]
    issue: list[int]
    start: list[int]
    wait: list[int]
    end: list[int]
    waits: list[tuple[int, int, int, int]]  # row, semaphore, start, end
    events: list[tuple[str, str, int, int]]  # name, stage, start, end

    def columns(self) -> dict[str, Any]:
        """The blocks, as a trace has them."""
        names = {name: f"{name}_ns" for name in ("issue", "start", "wait", "end")}
        return {names.get(name, name): np.array(getattr(self, name)) for name in ("sm", "slot", *names)}

    def wait_columns(self) -> IntArray:
        """Row, semaphore, start and end of each wait that spun."""
        return np.array(sorted(self.waits), dtype=np.int64).reshape(-1, 4).T

    @classmethod
    def of(cls, count: int) -> "Rows":
        """Empty columns for so many blocks."""
        sm, slot, issue, start, wait, end = ([0] * count for _ in range(6))
        return cls(sm, slot, issue, start, wait, end, [], [])


@dataclass
class StageState:
    """A stage while it runs: what it is charged, how far it is.

    `done` when all its blocks have done their work, `ended` when its grid has: under early launches no grid
    ends before the one ahead of it. `stays_for`: the grid that has to end before its blocks free their slots.
    By output: `parts` is how many blocks make it, `parts_left` how many of them have not ended their work,
    `stored_ns` when the others' sums are all stored.
    """

    program: ResolvedStage
    launch: GridLaunch
    costs: BlockCosts
    footprint: Footprint
    stays_for: int | None
    first_row: int
    blocks_left: int
    parts: list[int]
    parts_left: list[int]
    stored_ns: list[int]
    started: Event
    done: Event
    ended: Event
    is_launched: bool = False
