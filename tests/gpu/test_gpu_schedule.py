"""The tables that the device follows say what the policies and dependencies say."""

import numpy as np
import pytest
from small_pipelines import SMALL, SQUARE, fork, pair

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline, Stage
from wavesim.model.plan import SemaphoreSync, StreamSync
from wavesim.model.policy import RowSync, TileSync
from wavesim_gpu.layout import BLOCK_RECORD, ERROR_BUFFER, STAGE_PARAMS
from wavesim_gpu.schedule import LAST, links, semaphore_name, wait_schedule
from wavesim_gpu.stamps import slots


def schedule(pipeline, policy):
    found = links(pipeline, SemaphoreSync(policy))
    dependency = pipeline.dependencies[0]
    return wait_schedule(
        pipeline.stages[1], dependency, {(link.producer, link.consumer): link for link in found}
    )


def lists(table):
    """Per row and slice: [(chunk, semaphore, awaited), ...] up to the closing step."""
    result = []
    for first in table.first:
        end = first + int(np.argmax(table.steps[first:, 0] == LAST))
        result.append([tuple(map(int, step[:3])) for step in table.steps[first:end]])
    return result


def test_under_tile_semaphores_each_producer_column_is_awaited_where_k_enters_it():
    assert lists(schedule(pair(m=128), TileSync())) == [
        [(2 * column, 5 * row + column, 1) for column in range(5)] for row in range(2)
    ]


def test_under_row_semaphores_a_row_is_awaited_once():
    assert lists(schedule(pair(m=128), RowSync())) == [[(0, row, 5)] for row in range(2)]


def test_a_taller_consumer_tile_awaits_all_the_rows_it_reads():
    found = lists(schedule(pair(m=200, hidden=128, n=128, tiles=(SMALL, SQUARE)), RowSync()))
    assert found == [[(0, 0, 2), (0, 1, 2)], [(0, 2, 2), (0, 3, 2)]]


def test_a_split_k_slice_awaits_only_its_own_k_range():
    found = lists(schedule(pair(m=64, split_k=(1, 2)), TileSync()))
    assert found == [[(0, 0, 1), (2, 1, 1), (4, 2, 1)], [(5, 2, 1), (6, 3, 1), (8, 4, 1)]]


def test_a_fork_has_semaphores_of_its_own_for_each_consumer():
    found = links(fork(), SemaphoreSync(TileSync()))
    assert [(link.consumer, link.first) for link in found] == [("gemm2", 0), ("gemm3", 20)]
    assert semaphore_name(found, ("gemm1", "gemm2", "gemm3"), 23) == "gemm1 tile[3]"
    assert semaphore_name(found, ("gemm1", "gemm2", "gemm3"), -1) == "start of gemm1"


def test_stream_sync_has_no_semaphores():
    assert links(pair(), StreamSync()) == ()


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
    assert (STAGE_PARAMS.itemsize, BLOCK_RECORD.itemsize, ERROR_BUFFER.itemsize) == (152, 48, 2632)


def test_slots_are_the_lowest_free_ones():
    sm = np.array([0, 0, 1, 0, 0])
    start = np.array([0, 1, 0, 10, 12])
    end = np.array([10, 12, 5, 20, 20])
    assert slots(sm, start, end).tolist() == [0, 1, 0, 0, 1]
