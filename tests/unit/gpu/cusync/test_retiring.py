"""Where only the last stage's blocks retire, no post comes after the counters are back at zero."""

from random import Random

import pytest
from conv_cases import conv, conv_chain, residual_block

from wavesim.model.accesses import Accesses
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.parsing import parse_plan
from wavesim.plan.resolved import resolve
from wavesim.work.convolution.reads import conv_rows
from wavesim_gpu.cusync.waits import LAST, retiring_stages, wait_schedule


class Run:
    """A block for each tile, in a random order in which some are held back as long as others can go on."""

    def __init__(self, pipeline, words):
        self.pipeline, self.resolved = pipeline, resolve(pipeline, parse_plan(words))
        self.order = Precedence(Accesses(pipeline))

    def schedule(self, stage):
        inputs = self.inputs(stage)
        return wait_schedule(self.order, stage, inputs, by_tile=True) if inputs else None

    def inputs(self, stage):
        return self.resolved.inputs(stage.name)

    @property
    def retiring(self):
        return retiring_stages(self.resolved, self.schedule)

    def blocks(self, stage):
        """(stage, what it awaits, what it posts) of each tile, semaphores by number."""
        schedule, inputs = self.schedule(stage), list(self.inputs(stage).values())
        outputs = self.resolved.outputs(stage.name)
        for tile in range(stage.grid.tiles):
            awaited = []
            at = schedule.first[tile] if schedule else None
            while schedule and schedule.steps[at][0] != LAST:
                _, number, x, y = schedule.steps[at].tolist()
                array = inputs[number]
                made = y * self.pipeline.stage(array.producer).grid.x + x
                table = array.table
                awaited.append((array.first + table.semaphore_of_tile[made], table.value_of_tile[made]))
                at += 1
            yield stage.name, awaited, [one.first + one.table.semaphore_of_tile[tile] for one in outputs]

    def left_over(self, retiring, seed):
        """What the counters hold when all have ended, the last retiring block having put them to zero."""
        random = Random(seed)
        waiting = [block for stage in self.pipeline.stages for block in self.blocks(stage)]
        random.shuffle(waiting)
        held = waiting[: len(waiting) // 4]
        counters = [0] * sum(array.table.count for array in self.resolved.arrays)
        left = sum(name in retiring for name, _, _ in waiting)
        while waiting:
            ready = [one for one in waiting if all(counters[at] >= value for at, value in one[1])]
            if not left:
                ready = waiting  # the counters are zero: whoever still waited would wait for ever
            chosen = random.choice([one for one in ready if one not in held] or ready)
            waiting.remove(chosen)
            for at in chosen[2]:
                counters[at] += 1
            if chosen[0] in retiring:
                left -= 1
                counters = counters if left else [0] * len(counters)
        return counters


@pytest.mark.parametrize("words", ["pdl+row", "pdl+tile"])
@pytest.mark.parametrize("make", [conv_chain, lambda: conv_chain(4, images=3), residual_block])
def test_the_last_block_to_retire_leaves_zeros_behind_whatever_the_order(make, words):
    run = Run(make(), words)
    assert len(run.retiring) < len(run.pipeline.stages)
    for seed in range(20):
        assert not any(run.left_over(run.retiring, seed))


def test_it_would_not_where_a_post_is_awaited_by_nobody():
    # A tile is a row of pixels, and of 64 rows a stride of 2 leaves the last unread.
    works = conv(1, 64, 64, 64, "first"), conv(1, 64, 64, 64, "second", kernel_size=1, stride=2)
    stages = [Stage(work.name, work) for work in works]
    run = Run(Pipeline("pair", stages, [conv_rows(*stages)]), "pdl+row")
    assert run.retiring == ("first", "second")
    assert not any(any(run.left_over(run.retiring, seed)) for seed in range(20))
    assert any(any(run.left_over(("second",), seed)) for seed in range(20))
