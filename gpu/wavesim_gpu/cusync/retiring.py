"""Whose blocks say that they leave, so that the last of them puts the counters back to zero.

Example: of two convolutions in which each row of tiles is awaited only the second's blocks do. Once these
have all that they wait for, the first's have posted all that they ever will, and leave without a word.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from wavesim.codegen.stage_text import StageLinks
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.semaphores import SemaphoreArray
from wavesim_gpu.cusync.waits import WaitSchedule

Schedules = Callable[[Stage], WaitSchedule | None]


def retiring_stages(
    pipeline: Pipeline, arrays: Sequence[SemaphoreArray], schedule_of: Schedules
) -> tuple[str, ...]:
    """Those that post nothing, where some block awaits each post; else all.

    Of blocks that take one tile each, by their number. `schedule_of` is what a stage's tiles await.
    """
    names = tuple(stage.name for stage in pipeline.stages)
    if not _awaits_all_posts(pipeline, arrays, schedule_of):
        return names
    return tuple(name for name in names if not StageLinks.of(name, tuple(arrays)).outputs)


def _awaits_all_posts(pipeline: Pipeline, arrays: Sequence[SemaphoreArray], schedule_of: Schedules) -> bool:
    """Whether each semaphore is awaited until all that post it have."""
    awaited = set()
    posts = {array.first: Counter(array.table.semaphore_of_tile) for array in arrays}
    for stage in pipeline.stages:
        schedule = schedule_of(stage)
        if schedule is None:
            continue
        inputs = [array for array, _ in StageLinks.of(stage.name, tuple(arrays)).inputs]
        for _, number, x, y in schedule.steps[schedule.steps[:, 1] >= 0].tolist():
            table = inputs[number].table
            tile = y * pipeline.stage(inputs[number].producer).grid.x + x
            semaphore = table.semaphore_of_tile[tile]
            if table.value_of_tile[tile] == posts[inputs[number].first][semaphore]:
                awaited.add(inputs[number].first + semaphore)
    return len(awaited) == sum(array.table.count for array in arrays)
