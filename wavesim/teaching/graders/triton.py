"""Exercises of notebook 13: what a Triton tile waits for, and a size at which it is better left alone."""

from math import ceil
from typing import Any

from wavesim.model.device import default_device
from wavesim.plan.parsing import parse_plan
from wavesim.plan.semaphores import semaphore_arrays
from wavesim.teaching.exercises import Exercise, require, whole
from wavesim.teaching.exercises import pair as two_values
from wavesim.teaching.triton_pair import TILE, pair

MOST_ROWS = 8192
ASKED_TILE = (3, 5)


def grade_wait(answer: Any) -> str:
    """The semaphore and the value that tile (3, 5) of `down` waits for, under row semaphores."""
    semaphore, value = two_values(answer, "the semaphore's number, and the value it must reach")
    (array,) = semaphore_arrays(pair(1536), parse_plan("pdl+row"))
    rows, columns = array.grid.y, array.grid.x
    require(semaphore != ASKED_TILE[0], "a tile of a product reads a whole row of the first: which one?")
    require(semaphore == ASKED_TILE[1], f"there are {rows} semaphores, one per tile row of `up`.")
    require(
        value == columns,
        f"every tile of a row of `up` posts once, and 4,096 columns are in tiles of {TILE[1]}.",
    )
    return (
        f"Row {ASKED_TILE[1]} of `up` has {columns} tiles; the last one's post lets all of `down`'s row go."
    )


def grade_full_waves(answer: Any) -> str:
    """Rows m at which both kernels fill their last wave on an H200: nothing to gain."""
    m, sm_count = whole(answer, 1, MOST_ROWS), default_device().sm_count
    whole_tiles = TILE[0] * ceil(m / TILE[0])  # the last tile row may be part empty, its wave is not
    blocks = [stage.grid.size for stage in pair(whole_tiles).stages]
    waves = " and ".join(f"{count / sm_count:.2f}" for count in blocks)
    require(
        all(count % sm_count == 0 for count in blocks), f"{m} rows are {waves} waves; both must be whole."
    )
    return f"{waves} waves: no last wave to fill. Leave it, and change no line."


EXERCISES = (
    Exercise("13.1", "(semaphore, value) that tile (3, 5) of `down` waits for", grade_wait),
    Exercise("13.2", "rows m at which tile sync has nothing to gain", grade_full_waves),
)
