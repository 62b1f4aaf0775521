"""Dependencies: which producer tiles a consumer tile reads and when, and reads outside a grid."""

import pytest
from toy_schedules import HALF_SM, stage

from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, gemm_rows, x, y
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Stage

FIRST, SECOND = stage("first", 4, 3), stage("second", 2, 3)


def gemm(name: str, m: int, n: int, k: int, tile_m: int) -> Stage:
    return Stage(name, Gemm(name, m=m, n=n, k=k, tile_m=tile_m, tile_n=64, block=HALF_SM))


def tiles(needs, cx: int, cy: int) -> list[tuple[int, int]]:
    return [tile for _, tile in Dependency(SECOND[x, y], needs).producer_tiles(cx, cy)]


def test_a_slice_names_the_whole_row():
    assert tiles([FIRST[:, y]], 1, 2) == [(0, 2), (1, 2), (2, 2), (3, 2)]


def test_expressions_add_multiply_divide_and_cut_off():
    assert tiles([FIRST[x + 2, y]], 1, 0) == [(3, 0)]
    assert tiles([FIRST[2 * x - 0, y // 2]], 1, 2) == [(2, 1)]
    assert tiles([FIRST[1 + x * 2, (y + 1).at_most(2)]], 0, 2) == [(1, 2)]
    assert tiles([FIRST[2 * x : 2 * x + 2, y]], 1, 1) == [(2, 1), (3, 1)]


def test_the_tiles_of_several_needs_come_in_the_order_they_are_read():
    other = stage("other", 2, 3)
    dependency = Dependency(SECOND[x, y], [FIRST[:, y], other[:, y]])
    assert dependency.producer_tiles(0, 1) == [
        ("first", (0, 1)),
        ("other", (0, 1)),
        ("first", (1, 1)),
        ("first", (2, 1)),
        ("other", (1, 1)),
        ("first", (3, 1)),
    ]
    assert dependency.producers == ("first", "other")


def test_a_slice_is_walked_in_step_with_the_work_and_a_plain_index_is_needed_at_the_start():
    row = FIRST[:, y]
    assert list(row.walk(row.box(0, 1))) == [(0, 4, (0, 1)), (1, 4, (1, 1)), (2, 4, (2, 1)), (3, 4, (3, 1))]
    tile = FIRST[x, y]
    assert list(tile.walk(tile.box(1, 1))) == [(0, 1, (1, 1))]


def test_a_dependency_reads_like_the_maths():
    assert str(Dependency(SECOND[x, y], [FIRST[:, y], FIRST[x + 1, 0]])) == (
        "second[x, y] needs first[:, y], first[(x + 1), 0]"
    )


# --- GEMM rows ---


def test_gemms_of_equal_tile_height_depend_row_by_row():
    dependency = gemm_rows(gemm("a", 256, 128, 64, 128), gemm("b", 256, 64, 128, 128))
    assert [tile for _, tile in dependency.producer_tiles(0, 1)] == [(0, 1), (1, 1)]


@pytest.mark.parametrize(
    ("heights", "rows"),
    [((100, 150), [[0, 1], [1, 2]]), ((150, 100), [[0], [0, 1], [1]]), ((64, 300), [[0, 1, 2, 3, 4]])],
    ids=str,
)
def test_gemms_of_unequal_tile_height_depend_on_the_rows_that_overlap(heights, rows):
    first, second = gemm("a", 300, 64, 64, heights[0]), gemm("b", 300, 64, 64, heights[1])
    dependency = gemm_rows(first, second)
    read = [[ty for _, (_, ty) in dependency.producer_tiles(0, cy)] for cy in range(second.grid.y)]
    assert read == rows


def test_gemms_that_do_not_fit_together_are_refused():
    with pytest.raises(
        DescriptionError, match=r"b reads A \(256, 64\) but a makes \(256, 128\); they must be equal"
    ):
        gemm_rows(gemm("a", 256, 128, 64, 128), gemm("b", 256, 64, 64, 128))
    with pytest.raises(DescriptionError, match="stage first is a Kernel, not a Gemm"):
        gemm_rows(FIRST, gemm("b", 256, 64, 64, 128))


# --- what cannot be ---


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (FIRST[x + 3, y], "first[(x + 3), y] for consumer tile (1, 0): x from 4 up to 5, outside 0 to 4"),
        (FIRST[x, y + 1], "first[x, (y + 1)] for consumer tile (0, 2): y from 3 up to 4, outside 0 to 3"),
        (FIRST[x - 1, y], "for consumer tile (0, 0): x from -1 up to 0, outside 0 to 4"),
        (FIRST[:, 7], "for consumer tile (0, 0): y from 7 up to 8, outside 0 to 3"),
        (FIRST[0:5, y], "for consumer tile (0, 0): x from 0 up to 5, outside 0 to 4"),
        (FIRST[3:2, y], "for consumer tile (0, 0): x from 3 up to 2"),
    ],
    ids=str,
)
def test_a_read_outside_the_producers_grid_names_the_first_consumer_tile(needs, words):
    with pytest.raises(DescriptionError) as caught:
        Dependency(SECOND[x, y], [needs])
    assert words in str(caught.value)
    assert "of the producer's grid 4 x 3. Correct the index or the grids" in str(caught.value)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: FIRST[x], "a tile has two indices, [x, y]"),
        (lambda: FIRST[x, "a"], "tile index is 'a'; use x, y, integers, or slices of them"),
        (lambda: FIRST[x, 1.5], "tile index is 1.5"),
        (lambda: FIRST[x // 0, 0], "the divisor must be an integer of at least 1"),
        (lambda: Dependency(SECOND[x, y], []), "second: needs is empty; name the producer tiles it reads"),
        (lambda: Dependency(SECOND[x, y], [SECOND[x, y]]), "stage second cannot need its own tiles"),
    ],
    ids=range(6),
)
def test_an_index_or_dependency_that_means_nothing_is_refused(build, words):
    with pytest.raises(DescriptionError) as caught:
        build()
    assert words in str(caught.value)
