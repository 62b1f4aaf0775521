"""Exercises of notebook 7: half rows, the strided policy of attention, and the assignment."""

from typing import Any

from wavesim.codegen.policies import renumbered
from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid
from wavesim.plan.policy import Policy, SemaphoreTable
from wavesim.teaching.assignment import LEAST_POINTS, MOST_SEMAPHORES, predicted_score
from wavesim.teaching.exercises import Exercise, WrongAnswer, require

HALF, STRIDE = 12, 12
GRID = Grid(24, 8)
QKV = Grid(36, 4)


def checked_table(answer: Any, grid: Grid) -> SemaphoreTable:
    """The policy's table on a grid. Raises `WrongAnswer` with the reason if it is refused."""
    require(isinstance(answer, Policy), f"{answer!r} is no policy: CustomPolicy(name, semaphore, value).")
    try:
        table: SemaphoreTable = answer.table(grid)
    except DescriptionError as error:
        raise WrongAnswer(str(error)) from None
    return table


def _is_grouped_like(table: SemaphoreTable, groups: list[int]) -> bool:
    return renumbered(tuple(table.semaphore_of_tile)) == renumbered(tuple(groups))


def grade_half_rows(answer: Any) -> str:
    """Two semaphores per row of 24 tiles: one for each half."""
    table = checked_table(answer, GRID)
    require(table.count == 2 * GRID.y, f"{table.count} semaphores; two per row are {2 * GRID.y}.")
    wanted = [2 * y + (x >= HALF) for x, y in GRID]
    require(_is_grouped_like(table, wanted), "tiles that share a semaphore are not the halves of a row.")
    return f"{table.count} semaphores, each ready at {HALF}."


def grade_strided(answer: Any) -> str:
    """Tiles x, x + 12 and x + 24 of a row share a semaphore."""
    table = checked_table(answer, QKV)
    wanted = [y * STRIDE + x % STRIDE for x, y in QKV]
    require(
        _is_grouped_like(table, wanted),
        f"tiles (0, 0), ({STRIDE}, 0) and ({2 * STRIDE}, 0) must share a semaphore, and no others.",
    )
    return f"{table.count} semaphores, each ready at 3: Q, K and V of a head."


def grade_assignment(answer: Any) -> str:
    """A policy that gains 8 points in groups of 8 rows at 768 tokens, with at most 12 semaphores."""
    require(isinstance(answer, Policy), f"{answer!r} is no policy: CustomPolicy(name, semaphore, value).")
    try:
        found = predicted_score(answer)
    except DescriptionError as error:
        raise WrongAnswer(str(error)) from None
    require(
        found.semaphores <= MOST_SEMAPHORES,
        f"{found.semaphores} semaphores; at most {MOST_SEMAPHORES}: let more tiles share one.",
    )
    require(
        found.predicted_points >= LEAST_POINTS,
        f"{found.predicted_points:+.1f} points predicted, {LEAST_POINTS:g} are asked for. Here a column "
        "of the group is whole long before a row is: let tiles share that are finished together.",
    )
    return f"{found.predicted_points:+.1f} points predicted with {found.semaphores} semaphores."


EXERCISES = (
    Exercise("7.1", "A semaphore per half row of 24 tiles", grade_half_rows),
    Exercise("7.2", "StridedSync for Q, K and V, 12 columns apart", grade_strided),
    Exercise("7.3", "The assignment: 8 points with at most 12 semaphores", grade_assignment),
)
