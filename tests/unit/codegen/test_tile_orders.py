"""Tile orders from dependencies: permutations that make consumers ready in the order they are taken."""

import random

import pytest
from generated_cuda import random_pipeline

from wavesim.codegen.orders import order_sets, orders_backward, orders_forward, ready_positions
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import ColumnMajor, Grouped, Reversed, RowMajor
from wavesim.workloads.catalogue import workload

BLOCK = Block(256, 64)


def stage(name, columns, rows):
    return Stage(name, Kernel(name, Grid(columns, rows), BLOCK))


def strided():
    """An attention score (x, y) reads tiles x, x + 3 and x + 6."""
    first, second = stage("first", 9, 2), stage("second", 3, 2)
    return Pipeline(
        "strided", [first, second], [Dependency(second[x, y], [first[x + k, y] for k in (0, 3, 6)])]
    )


def test_the_producers_of_one_consumer_tile_are_consecutive():
    tiles = orders_backward(strided())["first"].sequence(Grid(9, 2))
    assert tiles[:6] == ((0, 0), (3, 0), (6, 0), (1, 0), (4, 0), (7, 0))


def test_the_papers_printed_order_is_no_permutation():
    def printed(tile_y, linear, a, b):
        group = next((i for i in range(len(a)) if tile_y % a[i] <= b[i]), 0)
        return linear // len(a) + group

    grid, a, b = Grid(1, 6), (1, 1), (0, 3)  # consumer y needs producers y and y + 3
    numbers = [printed(tile_y, tile_y, a, b) for _, tile_y in grid]
    assert sorted(numbers) != list(range(6))


def test_row_readers_need_no_order_of_their_own():
    assert orders_backward(workload("gpt3-mlp")) == {"gemm1": RowMajor(), "gemm2": RowMajor()}


def test_column_readers_give_a_column_major_producer():
    first, second = stage("first", 4, 3), stage("second", 4, 3)
    pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[x, :]])])
    assert orders_backward(pipeline)["first"] == ColumnMajor()


def test_a_chain_is_worked_from_the_last_consumer_to_the_first_producer():
    a, b, c = stage("a", 2, 4), stage("b", 2, 4), stage("c", 2, 4)
    needs = [Dependency(b[x, y], [a[:, y]]), Dependency(c[x, y], [b[:, 3 - y]])]
    orders = orders_backward(Pipeline("chain", [a, b, c], needs))
    assert [tile[1] for tile in orders["b"].sequence(b.grid)] == [3, 3, 2, 2, 1, 1, 0, 0]
    assert [tile[1] for tile in orders["a"].sequence(a.grid)] == [3, 3, 2, 2, 1, 1, 0, 0]


def test_tiles_that_nobody_reads_come_last():
    first, second = stage("first", 4, 1), stage("second", 2, 1)
    pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[x + 2, y]])])
    assert orders_backward(pipeline)["first"].sequence(first.grid) == ((2, 0), (3, 0), (0, 0), (1, 0))


def test_consumers_follow_a_given_producer_order():
    pipeline = workload("gpt3-mlp", 1024)
    orders = orders_forward(pipeline, Reversed(RowMajor()))
    assert [tile[1] for tile in orders["gemm2"].sequence(Grid(48, 8))][::48] == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("seed", range(60))
def test_every_derived_order_is_a_permutation_and_consumers_become_ready_in_order(seed):
    pipeline = random_pipeline(random.Random(seed))
    for orders in order_sets(pipeline).values():
        for each in pipeline.stages:
            assert sorted(orders[each.name].sequence(each.grid)) == sorted(each.grid)
    for orders in (orders_backward(pipeline), orders_forward(pipeline, Grouped(2))):
        ready = ready_positions(pipeline, "second", orders)
        positions = [ready[tile] for tile in orders["second"].sequence(pipeline.stages[1].grid)]
        assert positions == sorted(positions)


def test_order_sets_hold_no_two_alike():
    sets = order_sets(workload("gpt3-mlp", 1024))
    sequences = [tuple(order.sequence(Grid(24, 8)) for order in orders.values()) for orders in sets.values()]
    assert {"row", "grouped:4", "grouped:8"} <= set(sets)
    assert "column" not in sets  # eight rows: the same as grouped:8
    assert len(set(sequences)) >= 4


def test_a_derived_order_is_refused_on_another_grid():
    order = orders_backward(strided())["first"]
    with pytest.raises(DescriptionError, match="was derived for the grid 9 x 2, not 4 x 2"):
        order.sequence(Grid(4, 2))


def test_a_dependency_too_large_to_list_is_refused(monkeypatch):
    monkeypatch.setattr("wavesim.codegen.reads.MAX_READS", 100)
    with pytest.raises(DescriptionError, match="too many to derive orders and policies from"):
        orders_backward(workload("gpt3-mlp", 1024))
