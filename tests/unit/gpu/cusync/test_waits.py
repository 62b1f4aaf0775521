"""The lists that the device follows say what the policies and dependencies say."""

import numpy as np
import pytest
from small_pipelines import SMALL, SQUARE, chain, fork, pair

from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.coverage import Precedence
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.resolved import resolve
from wavesim.plan.semaphores import semaphore_arrays
from wavesim.safety.hang.mirror import ERRORS
from wavesim.trace.placing import slots
from wavesim.work.gemm import Gemm
from wavesim_gpu.cusync.layout import SYNC_PARAMS, stage_params
from wavesim_gpu.cusync.sync_state import counter_name, require_fit
from wavesim_gpu.cusync.waits import LAST, wait_schedule


def schedule(pipeline, policy):
    arrays = semaphore_arrays(pipeline, SemaphoreSync(policy))
    return wait_schedule(
        Precedence(Accesses(pipeline)), pipeline.stages[1], {a.producer: a for a in arrays}, by_tile=False
    )


def lists(table):
    """Per row and slice: [(chunk, input, x, y), ...] up to the closing step."""
    result = []
    for first in table.first:
        end = first + int(np.argmax(table.steps[first:, 0] == LAST))
        assert tuple(table.steps[end, 1:]) == (-1, 0, 0)
        result.append([tuple(map(int, step)) for step in table.steps[first:end]])
    return result


def test_under_tile_semaphores_each_producer_column_is_awaited_where_k_enters_it():
    assert lists(schedule(pair(m=128), TileSync())) == [
        [(2 * column, 0, column, row) for column in range(5)] for row in range(2)
    ]


def test_under_row_semaphores_a_row_is_awaited_once():
    assert lists(schedule(pair(m=128), RowSync())) == [[(0, 0, 0, row)] for row in range(2)]


def test_a_taller_consumer_tile_awaits_all_the_rows_it_reads():
    found = lists(schedule(pair(m=200, hidden=128, n=128, tiles=(SMALL, SQUARE)), RowSync()))
    assert found == [[(0, 0, 0, 0), (0, 0, 0, 1)], [(0, 0, 0, 2), (0, 0, 0, 3)]]


def test_a_split_k_slice_awaits_only_its_own_k_range():
    found = lists(schedule(pair(m=64, split_k=(1, 2)), TileSync()))
    assert found == [
        [(0, 0, 0, 0), (2, 0, 1, 0), (4, 0, 2, 0)],
        [(5, 0, 2, 0), (6, 0, 3, 0), (8, 0, 4, 0)],
    ]


def test_columns_of_a_half_filled_tile_are_awaited_where_k_enters_them():
    """288 columns in tiles of 64: the fifth tile is half full, and chunk 8 of 9 reads it."""
    assert [step[0] for step in lists(schedule(pair(m=64, hidden=288), TileSync()))[0]] == [0, 2, 4, 6, 8]


def test_simulator_and_device_wait_for_the_same_tiles_in_the_same_order():
    pipeline = pair(m=200, hidden=640, split_k=(1, 2))
    for policy in (TileSync(), RowSync()):
        program = resolve(pipeline, SemaphoreSync(policy)).stages[1]
        found = lists(schedule(pipeline, policy))
        for position, (column, row, z) in enumerate(program.blocks):
            if column == 0:
                waits = [(wait.tile, wait.done / wait.of) for wait in program.waits(position)]
                # Two slices of 10 chunks: the simulator counts in shares of a slice, the device in chunks.
                steps = [((step[2], step[3]), (step[0] - 10 * z) / 10) for step in found[2 * row + z]]
                assert steps == waits


def test_a_fork_shares_semaphores_under_one_policy_and_has_its_own_under_two():
    names = ("gemm1", "gemm2", "gemm3")
    shared = semaphore_arrays(fork(), SemaphoreSync(TileSync()))
    assert [(array.edges, array.first) for array in shared] == [((("gemm1", "gemm2"), ("gemm1", "gemm3")), 0)]
    own = semaphore_arrays(fork(), SemaphoreSync(TileSync(), policies={("gemm1", "gemm3"): RowSync()}))
    assert [array.first for array in own] == [0, 20]
    assert counter_name(own, names, 0) == "start of gemm1"
    assert counter_name(own, names, 4 + 3) == "gemm1 tile[3]"
    assert counter_name(own, names, 4 + 20 + 3) == "gemm1 row[3]"


def test_more_stages_or_producers_than_the_device_takes_are_refused():
    with pytest.raises(DescriptionError, match="at most 16"):
        require_fit(chain(64, [64] * 18, [SMALL] * 17))


def test_a_dependency_that_misses_rows_the_gemm_reads_is_refused():
    first = Stage("gemm1", Gemm("gemm1", 128, 128, 64, *SMALL))
    second = Stage("gemm2", Gemm("gemm2", 128, 64, 128, *SMALL))
    pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[0, y]])])
    with pytest.raises(DescriptionError, match="not among its needs"):
        schedule(pipeline, TileSync())


def test_a_dependency_on_the_consumers_column_is_refused():
    first = Stage("gemm1", Gemm("gemm1", 128, 128, 64, *SMALL))
    second = Stage("gemm2", Gemm("gemm2", 128, 128, 128, *SMALL))
    pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[x, y]])])
    with pytest.raises(DescriptionError, match="waits for A only"):
        schedule(pipeline, TileSync())


def test_host_structures_have_the_sizes_that_the_device_asserts():
    assert (SYNC_PARAMS.itemsize, ERRORS.itemsize) == (104, 2636)
    assert [stage_params(sizes).itemsize for sizes in (0, 3, 6, 9)] == [112, 120, 128, 144]


def test_slots_are_the_lowest_free_ones():
    sm = np.array([0, 0, 1, 0, 0])
    start = np.array([0, 1, 0, 10, 12])
    end = np.array([10, 12, 5, 20, 20])
    assert slots(sm, start, end).tolist() == [0, 1, 0, 0, 1]
