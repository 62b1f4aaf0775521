"""Policies: semaphores and ready values on whole grids, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_pipelines import POLICIES

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid
from wavesim.plan.policy import CustomPolicy, GridSync, RowSync, TileSync, parse_policy

GRID = Grid(2, 3)


def test_row_sync_has_one_semaphore_per_row_ready_when_the_row_is():
    table = RowSync().table(GRID)
    assert table.count == 3
    assert table.semaphore_of_tile == (0, 0, 1, 1, 2, 2)
    assert table.value_of_tile == (2,) * 6


def test_tile_sync_has_one_semaphore_per_tile_ready_at_one():
    table = TileSync().table(GRID)
    assert table.count == 6
    assert table.semaphore_of_tile == (0, 1, 2, 3, 4, 5)
    assert table.value_of_tile == (1,) * 6


def test_grid_sync_has_one_semaphore_ready_when_every_tile_is():
    table = GridSync().table(GRID)
    assert table.count == 1
    assert set(table.semaphore_of_tile) == {0}
    assert set(table.value_of_tile) == {6}


@given(policy=st.sampled_from(POLICIES), columns=st.integers(1, 9), rows=st.integers(1, 9))
def test_every_semaphore_awaits_as_many_posts_as_it_gets(policy, columns, rows):
    table = policy.table(Grid(columns, rows))
    for semaphore, value in zip(table.semaphore_of_tile, table.value_of_tile, strict=True):
        assert value == table.semaphore_of_tile.count(semaphore)


def test_a_policys_name_reads_back_and_an_unknown_one_lists_the_known():
    assert parse_policy("row") == RowSync()
    assert parse_policy("tile") == TileSync()
    assert parse_policy("grid") == GridSync()
    with pytest.raises(DescriptionError, match="policy is 'column'; known are tile, row, grid"):
        parse_policy("column")


@pytest.mark.parametrize(
    ("semaphore", "value", "words"),
    [
        (
            0,
            7,
            "tile (0, 0) awaits value 7 of semaphore 0, which gets 6 posts, so its consumer waits for ever",
        ),
        (
            0,
            5,
            "which gets 6 posts, so its consumer may read a tile before it is written. Await 6",
        ),
        (-1, 6, "semaphore -1 on the grid 2 x 3; indices must be 0 to 5"),
        (6, 6, "semaphore 6 on the grid 2 x 3; indices must be 0 to 5"),
        (0.5, 6, "gave 0.5 for tile (0, 0); it must be an integer"),
        (None, 6, "gave None for tile (0, 0); it must be an integer"),
        (True, 6, "gave True for tile (0, 0); it must be an integer"),
        (0, "6", "gave '6' for tile (0, 0); it must be an integer"),
    ],
    ids=str,
)
def test_a_users_policy_that_cannot_work_is_refused(semaphore, value, words):
    policy = CustomPolicy("mine", lambda x, y, grid: semaphore, lambda x, y, grid: value)
    with pytest.raises(DescriptionError) as caught:
        policy.table(GRID)
    assert "policy mine" in str(caught.value)
    assert words in str(caught.value)


def test_a_users_policy_that_raises_is_named_with_tile_and_error():
    policy = CustomPolicy("mine", lambda x, y, grid: 1 // x, lambda x, y, grid: 1)
    with pytest.raises(DescriptionError, match=r"policy mine failed on tile \(0, 0\) .*ZeroDivisionError"):
        policy.table(GRID)
