"""When a stage's blocks need which producer tile, in work items: the lists that the device follows.

Example: under tile semaphores a consumer tile of row 3 of a GEMM walks the list (k-block 0: tile (0, 3)),
(k-block 8: tile (1, 3)), ... down its K loop; under row semaphores the list has one entry. Which semaphore
that is, and its value, the generated header says.

The lists also tell whose blocks must retire before the counters go back to zero. Of two convolutions in which
each row of tiles is awaited only the second's must: once these have all that they wait for, the first's have
posted all that they ever will.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.order import Tile
from wavesim.plan.resolved import ResolvedPlan
from wavesim.plan.semaphores import SemaphoreArray
from wavesim.plan.waits import item_position, waits_of

LAST = np.iinfo(np.int32).max
WINDOW = 32  # steps that one warp looks at together


@dataclass(frozen=True)
class WaitSchedule:
    """Steps (at, input, x, y) in int32. `first` indexes row * slices + slice where the tiles of a row share a
    list, else (row * columns + column) * slices + slice.

    Each list is padded to a multiple of `WINDOW` with at least one closing step, at = LAST, input = -1.
    """

    steps: NDArray[np.int32]
    first: NDArray[np.int32]


def wait_schedule(
    order: Precedence, stage: Stage, inputs: Mapping[str, SemaphoreArray], *, by_tile: bool
) -> WaitSchedule:
    """What the blocks of a consuming stage await, and when. `inputs`: the semaphores of each producer.

    Raises `DescriptionError` if the dependency does not cover what the tiles read, and, where the tiles of a
    row share a list, if it depends on the consumer's column.
    """
    accesses = order.accesses
    dependency = accesses.pipeline.dependency_of(stage.name)
    assert dependency is not None, "callers have inputs"
    if not by_tile:
        _require_no_columns(dependency)
    order.require_covered(stage.name)

    def semaphore_of(producer: str, tile: Tile) -> int:
        return inputs[producer].semaphore(tile)

    numbers, grid = list(inputs), stage.grid
    lists = _Lists()
    for y in range(grid.y):
        for x in range(grid.x if by_tile else 1):
            own = [(x, y)] if by_tile else [(column, y) for column in range(grid.x)]
            for z in range(grid.z):
                waits = waits_of(
                    dependency, (x, y), semaphore_of, item_position(accesses, stage.name, own, z)
                )
                lists.add((wait.done, numbers.index(wait.producer), *wait.tile) for wait in waits)
    return lists.schedule


class _Lists:
    """Padded lists of steps, each distinct one stored once."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int, int, int]] = []
        self._first: list[int] = []
        self._known: dict[tuple[tuple[int, int, int, int], ...], int] = {}

    def add(self, waits: Iterable[tuple[int, int, int, int]]) -> None:
        """The list of the next tile and split."""
        own = tuple(waits)
        if own not in self._known:
            self._known[own] = len(self._steps)
            self._steps += own
            self._steps += [(int(LAST), -1, 0, 0)] * (WINDOW - len(own) % WINDOW)
        self._first.append(self._known[own])

    @property
    def schedule(self) -> WaitSchedule:
        """All that was added."""
        return WaitSchedule(np.asarray(self._steps, np.int32), np.asarray(self._first, np.int32))


def _require_no_columns(dependency: Dependency) -> None:
    for need in dependency.needs:
        if need.uses("x"):
            raise DescriptionError(
                f"{need}: a GEMM's A operand does not depend on the consumer's column, and the GPU runner "
                "waits for A only. Write it without x"
            )


def retiring_stages(
    resolved: ResolvedPlan, schedule_of: Callable[[Stage], WaitSchedule | None]
) -> tuple[str, ...]:
    """Those that post nothing, where some block awaits each post; else all.

    Of blocks that take one tile each, by their number. `schedule_of` is what a stage's tiles await.
    """
    if not _awaits_all_posts(resolved, schedule_of):
        return resolved.names
    return tuple(name for name in resolved.names if not resolved.outputs(name))


def _awaits_all_posts(resolved: ResolvedPlan, schedule_of: Callable[[Stage], WaitSchedule | None]) -> bool:
    awaited = set()
    posts = {array.first: Counter(array.table.semaphore_of_tile) for array in resolved.arrays}
    for stage in resolved.pipeline.stages:
        schedule, inputs = schedule_of(stage), list(resolved.inputs(stage.name).values())
        if schedule is None:
            continue
        for _, number, x, y in schedule.steps[schedule.steps[:, 1] >= 0].tolist():
            array = inputs[number]
            tile = y * array.grid.x + x
            semaphore = array.table.semaphore_of_tile[tile]
            if array.table.value_of_tile[tile] == posts[array.first][semaphore]:
                awaited.add(array.first + semaphore)
    return len(awaited) == resolved.semaphore_count
