"""The wait lists of stages whose tiles each have one: attention's, as the device walks them."""

import numpy as np
from attention_layers import attention, layer

from wavesim.model.accesses import Accesses
from wavesim.plan.coverage import Precedence
from wavesim.plan.parsing import parse_plan
from wavesim.plan.semaphores import semaphore_arrays
from wavesim_gpu.cusync.waits import LAST, WINDOW, wait_schedule


def schedule(pipeline, plan, stage="attention"):
    arrays = semaphore_arrays(pipeline, parse_plan(plan))
    inputs = {array.producer: array for array in arrays if any(edge[1] == stage for edge in array.edges)}
    order = Precedence(Accesses(pipeline))
    return wait_schedule(order, pipeline.stage(stage), inputs, by_tile=stage == "attention")


def steps_of(table, entry):
    first = table.first[entry]
    end = first + int(np.argmax(table.steps[first:, 0] == LAST))
    return [tuple(map(int, step)) for step in table.steps[first:end]]


def test_each_tile_of_attention_has_a_list_of_its_own_in_the_order_of_its_key_blocks():
    pipeline = layer(attention(length=384, cached=0))
    grid = pipeline.stage("attention").grid
    table = schedule(pipeline, "tile")
    assert len(table.first) == grid.tiles
    for tile_x, tile_y in grid:
        steps = steps_of(table, tile_y * grid.x + tile_x)
        assert [step[0] for step in steps] == sorted(step[0] for step in steps)
        named = {tile for _, tile in pipeline.dependency_of("attention").producer_tiles(tile_x, tile_y)}
        assert {step[2:] for step in steps} == named
        assert max(step[0] for step in steps) == tile_y % pipeline.stage("attention").work.row_blocks


def test_under_row_semaphores_a_tile_awaits_each_row_of_keys_once():
    pipeline = layer(attention(length=384, cached=0))
    columns = pipeline.stage("attention").grid.x
    table = schedule(pipeline, "row")
    assert [(step[0], step[3]) for step in steps_of(table, 2 * columns + 1)] == [(0, 2), (0, 0), (1, 1)]
    assert len(table.steps) % WINDOW == 0
