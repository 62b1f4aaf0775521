"""Tile orders: what each one is, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_pipelines import ORDERS

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid
from wavesim.plan.order import ColumnMajor, CustomOrder, Grouped, Interleaved, Reversed, RowMajor, parse_order

GRID = Grid(2, 3)


@given(order=st.sampled_from(ORDERS), columns=st.integers(1, 9), rows=st.integers(1, 9))
def test_every_order_lists_every_tile_once(order, columns, rows):
    grid = Grid(columns, rows)
    assert sorted(order.sequence(grid)) == sorted(grid)


def test_row_major_goes_along_x_and_column_major_along_y():
    assert RowMajor().sequence(GRID) == ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    assert ColumnMajor().sequence(GRID) == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))


def test_grouped_goes_down_the_columns_of_a_few_rows_at_a_time():
    assert Grouped(2).sequence(GRID) == ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2))
    assert Grouped(3).sequence(GRID) == ColumnMajor().sequence(GRID)
    assert Grouped(1).sequence(GRID) == RowMajor().sequence(GRID)


def test_interleaved_takes_the_first_row_of_each_run_then_the_second():
    grid = Grid(1, 5)
    assert [y for _, y in Interleaved(2).sequence(grid)] == [0, 2, 4, 1, 3]
    assert [y for _, y in Interleaved(3).sequence(grid)] == [0, 3, 1, 4, 2]
    assert Interleaved(8).sequence(GRID) == RowMajor().sequence(GRID)


def test_reversed_is_the_other_order_backwards():
    assert Reversed(ColumnMajor()).sequence(GRID) == ColumnMajor().sequence(GRID)[::-1]


WORDS = "row column grouped:8 interleaved:3 reversed:column reversed:interleaved:8 slices-last:grouped:4"


@pytest.mark.parametrize("word", WORDS.split())
def test_a_name_reads_back_as_its_order(word):
    assert parse_order(word).name == word


@pytest.mark.parametrize(
    "word", ["diagonal", "interleaved:", "interleaved", "grouped:x", "grouped:²", "row:2", "grouped:-1", ""]
)
def test_an_unknown_order_lists_the_known_ones(word):
    with pytest.raises(DescriptionError) as caught:
        parse_order(word)
    assert f"order is {word!r}; known are row, column, grouped:ROWS, interleaved:ROWS," in str(caught.value)


def test_an_order_is_a_text():
    with pytest.raises(DescriptionError, match=r"order is \['row'\]; write row, column"):
        parse_order(["row"])


@pytest.mark.parametrize("rows", [0, -1, 1.5, True])
def test_a_group_has_at_least_one_row(rows):
    with pytest.raises(DescriptionError, match=r"Grouped: rows is .*; it must be an integer of at least 1"):
        Grouped(rows)
    with pytest.raises(DescriptionError, match="Interleaved: rows is"):
        Interleaved(rows)


@pytest.mark.parametrize(
    ("tiles", "words"),
    [
        ([(0, 0), (0, 0)], "tile (0, 0) comes twice, again at position 1"),
        ([(0, 0), (1, 0)], "2 tiles for a grid of 6; (0, 1) is missing. List every tile once"),
        ([(0, 0), (2, 0)], "position 1 is (2, 0), outside the grid 2 x 3"),
        ([(0, 0), (0, -1)], "position 1 is (0, -1), outside the grid 2 x 3"),
        ([(0, 0), 3], "position 1 is 3, outside the grid 2 x 3"),
        ([(0.0, 0.0)], "position 0 is (0.0, 0.0), outside the grid 2 x 3"),
        ([[0, 0]], "position 0 is [0, 0], outside the grid 2 x 3"),
        (None, "failed on the grid 2 x 3: TypeError"),
        (7, "failed on the grid 2 x 3: TypeError"),
    ],
    ids=str,
)
def test_a_users_order_that_is_no_permutation_is_refused_with_the_first_fault(tiles, words):
    with pytest.raises(DescriptionError) as caught:
        CustomOrder("mine", lambda grid: tiles).sequence(GRID)
    assert "order mine" in str(caught.value)
    assert words in str(caught.value)


def test_a_users_order_that_raises_is_named_with_its_error():
    def broken(grid):
        raise KeyError("swizzle")

    with pytest.raises(DescriptionError, match=r"order mine failed on the grid 2 x 3: KeyError\('swizzle'\)"):
        CustomOrder("mine", broken).sequence(GRID)
