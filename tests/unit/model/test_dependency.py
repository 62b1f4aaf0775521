"""The language of dependencies: what it says, and what it refuses with the first offending tile."""

from itertools import pairwise

import pytest

from wavesim.errors import DescriptionError, UnneededStageWarning
from wavesim.model.dependency import Dependency, Index, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import shown
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows

BLOCK = Block(threads=128)


def stage(name: str, columns: int, rows: int = 1) -> Stage:
    return Stage(name, Kernel(name, Grid(columns, rows), BLOCK))


def reads(dependency: Dependency, tile: tuple[int, int]) -> list[tuple[int, int]]:
    """Producer tiles of one consumer tile; of one producer."""
    return [producer_tile for _, producer_tile in dependency.producer_tiles(*tile)]


# --- what it says ---


def test_a_colon_is_all_of_a_dimension_in_the_order_of_the_k_loop():
    first, second = stage("first", 3, 2), stage("second", 4, 2)
    dependency = Dependency(second[x, y], [first[:, y]])
    assert reads(dependency, (2, 1)) == [(0, 1), (1, 1), (2, 1)]
    assert str(dependency) == "second[x, y] needs first[:, y]"


def test_attention_reads_two_tiles_a_stride_apart():
    qkv, scores = stage("qkv", 36, 4), stage("scores", 12, 4)
    dependency = Dependency(scores[x, y], [qkv[x, y], qkv[x + 12, y]])
    assert reads(dependency, (5, 2)) == [(5, 2), (17, 2)]


def test_a_slice_with_a_step_reads_every_nth_tile():
    qkv, fused = stage("qkv", 36, 4), stage("fused", 12, 4)
    dependency = Dependency(fused[x, y], [qkv[x::12, y]])
    assert reads(dependency, (5, 2)) == [(5, 2), (17, 2), (29, 2)]
    need = dependency.needs[0]
    assert [(j, n) for j, n, _ in need.walk(need.box(5, 2))] == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("index", "tile", "expected"),
    [
        (2 * x + 1, (3, 0), (7, 0)),
        (x // 2, (3, 0), (1, 0)),
        (5 - x, (3, 0), (2, 0)),
        (-x + 5, (3, 0), (2, 0)),
        (x - x // 4 * 4, (6, 0), (2, 0)),
        ((x - 1).at_least(0), (0, 0), (0, 0)),
        ((x + 3).at_most(7), (6, 0), (7, 0)),
        (y, (3, 2), (2, 0)),
        (4, (3, 2), (4, 0)),
    ],
)
def test_an_index_is_an_affine_function_with_floor_division(index, tile, expected):
    producer, consumer = stage("producer", 16), stage("consumer", max(tile[0] + 1, 1), 3)
    assert reads(Dependency(consumer[x, y], [producer[index, 0]]), tile) == [expected]


def test_ranges_may_move_with_the_consumer_and_stop_at_the_edge():
    first, second = stage("first", 1, 6), stage("second", 1, 6)
    dependency = Dependency(second[x, y], [first[0, (y - 1).at_least(0) : (y + 2).at_most(6)]])
    assert reads(dependency, (0, 0)) == [(0, 0), (0, 1)]
    assert reads(dependency, (0, 3)) == [(0, 2), (0, 3), (0, 4)]
    assert reads(dependency, (0, 5)) == [(0, 4), (0, 5)]


def test_one_consumer_may_read_several_producers_each_in_step_with_its_work():
    gate, value, down = stage("gate", 2, 1), stage("value", 2, 1), stage("down", 1, 1)
    dependency = Dependency(down[x, y], [gate[:, y], value[:, y]])
    assert dependency.producers == ("gate", "value")
    assert dependency.producer_tiles(0, 0) == [
        ("gate", (0, 0)),
        ("value", (0, 0)),
        ("gate", (1, 0)),
        ("value", (1, 0)),
    ]


# --- other ways to name the consumer ---


def test_a_transposed_consumer_swaps_the_coordinates():
    keys, scores = stage("keys", 3, 5), stage("scores", 5, 3)
    assert reads(Dependency(scores[y, x], [keys[x, y]]), (4, 2)) == [(2, 4)]


def test_a_consumer_counted_from_the_other_end_mirrors_the_coordinate():
    first, second = stage("first", 1, 4), stage("second", 1, 4)
    assert reads(Dependency(second[x, 3 - y], [first[x, y]]), (0, 0)) == [(0, 3)]


def test_a_run_of_consumer_tiles_shares_one_need():
    first, second = stage("first", 3), stage("second", 6)
    dependency = Dependency(second[2 * x : 2 * x + 2, y], [first[x, y]])
    assert [reads(dependency, (column, 0)) for column in range(6)] == [
        [(column // 2, 0)] for column in range(6)
    ]
    assert str(dependency) == "second[x, y] needs first[(x // 2), y]"


def test_a_colon_in_the_consumer_says_the_same_of_a_whole_row():
    first, second = stage("first", 3, 2), stage("second", 6, 2)
    assert reads(Dependency(second[:, y], [first[:, y]]), (5, 1)) == [(0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("consumer", "message"),
    [
        (lambda s: s[2 * x, y], "must name each of its tiles once.*[2 * x : 2 * x + 2]"),
        (lambda s: s[x, x], "x stands for its column and its row"),
        (lambda s: s[x // 2, y], "must be one of x and y with a scale and an offset"),
        (lambda s: s[x + y, y], "must be one of x and y with a scale and an offset"),
        (lambda s: s[0, y], "must be one of x and y with a scale and an offset"),
        (lambda s: s[4 * x : 4 * x + 4, y], "runs of 4 tiles do not fill its grid 6 x 6"),
        (lambda s: s[:, y], r"first\[x, y\]: x is not an index of the consumer"),
    ],
)
def test_a_consumer_that_does_not_name_each_tile_once_is_refused(consumer, message):
    with pytest.raises(
        DescriptionError, match=message.replace("[2 * x : 2 * x + 2]", r"\[2 \* x : 2 \* x \+ 2\]")
    ):
        Dependency(consumer(stage("second", 6, 6)), [stage("first", 6, 6)[x, y]])


# --- what it refuses ---


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: x * y, "is not affine; multiply by an integer"),
        (lambda: x * 2.0, "is not affine; multiply by an integer"),
        (lambda: x % 4, r"% is not affine.*x % n is x - x // n \* n"),
        (lambda: x / 2, "/ is not affine.*Use //"),
        (lambda: x**2, r"\*\* is not affine"),
        (lambda: 6 // x, "division by a coordinate is not affine"),
        (lambda: x // y, "the divisor must be an integer of at least 1"),
        (lambda: x // 0, "the divisor must be an integer of at least 1"),
        (lambda: x + 0.5, "tile index is 0.5"),
        (lambda: x and y, "a coordinate is no condition"),
        (lambda: stage("s", 2)["x", y], "tile index is 'x'"),
        (lambda: stage("s", 2)[x], "a tile has two indices"),
        (lambda: stage("s", 2)[x, y, 0], "a tile has two indices"),
        (lambda: stage("s", 2)[x::0, y], "step 0; it must be an integer of at least 1"),
        (lambda: stage("s", 2)[x :: x + 1, y], "it must be an integer of at least 1"),
    ],
)
def test_an_index_that_is_not_affine_is_refused_where_it_is_written(write, message):
    with pytest.raises(DescriptionError, match=message):
        write()


@pytest.mark.parametrize(
    ("need", "tile", "found", "bound"),
    [
        (lambda s: s[x, y], (4, 0), "column 4", "0 to 3"),
        (lambda s: s[x - 1, 0], (0, 0), "column -1", "0 to 3"),
        (lambda s: s[2 * x, 0], (2, 0), "column 4", "0 to 3"),
        (lambda s: s[0, y], (0, 3), "row 3", "0 to 2"),
        (lambda s: s[:, y : y + 2], (0, 2), "rows 2 to 3", "0 to 2"),
        (lambda s: s[x // 2 : x // 2 + 3, 0], (4, 0), "columns 2 to 4", "0 to 3"),
        (lambda s: s[0, 2 - y], (0, 3), "row -1", "0 to 2"),
        (lambda s: s[7, 0], (0, 0), "column 7", "0 to 3"),
        (lambda s: s[x::5, 0], (4, 0), "no column (from 4 up to 4)", "0 to 3"),
        (lambda s: s[x:2, 0], (2, 0), "no column (from 2 up to 2)", "0 to 3"),
        (lambda s: s[3:1, 0], (0, 0), "no column (from 3 up to 1)", "0 to 3"),
    ],
)
def test_the_first_consumer_tile_outside_the_producers_grid_is_named_with_index_and_bound(
    need, tile, found, bound
):
    producer, consumer = stage("producer", 4, 3), stage("consumer", 6, 5)
    with pytest.raises(DescriptionError) as caught:
        Dependency(consumer[x, y], [need(producer)])
    assert f"for consumer tile {tile} reads {found};" in str(caught.value)
    assert f"s of the producer's grid 4 x 3 are {bound}." in str(caught.value)


def test_a_second_need_is_checked_as_well():
    producer, consumer = stage("producer", 4), stage("consumer", 4)
    with pytest.raises(DescriptionError, match=r"producer\[\(x \+ 1\), y\] for consumer tile \(3, 0\)"):
        Dependency(consumer[x, y], [producer[x, y], producer[x + 1, y]])


def test_a_consumer_that_needs_nothing_is_refused():
    with pytest.raises(DescriptionError, match="needs is empty"):
        Dependency(stage("consumer", 4)[x, y], [])


def test_a_stage_cannot_need_its_own_tiles():
    consumer = stage("consumer", 4)
    with pytest.raises(DescriptionError, match="cannot need its own tiles"):
        Dependency(consumer[x, y], [consumer[x, y]])


def test_something_that_is_no_tile_set_is_refused():
    with pytest.raises(DescriptionError, match="name tiles as"):
        Dependency(stage("consumer", 4)[x, y], [stage("producer", 4)])


def test_needs_are_a_list_or_anything_that_makes_one():
    producer, consumer = stage("producer", 4), stage("consumer", 2)
    many = Dependency(consumer[x, y], (producer[x + shift, y] for shift in (0, 2)))
    assert reads(many, (1, 0)) == [(1, 0), (3, 0)]
    with pytest.raises(DescriptionError, match=r"it is a list: needs=\[producer\[:, y\]\]"):
        Dependency(consumer[x, y], producer[:, y])


def test_grids_and_reads_too_many_to_enumerate_are_refused_with_the_bound():
    small, large = stage("small", 1, 1), stage("large", 2**11, 2**10)
    for consumer, producer in ((small, large), (large, small)):
        with pytest.raises(DescriptionError, match=r"2,097,152 blocks.*at most 262,144"):
            Dependency(consumer[x, y], [producer[:, :]])
    wide, tall = stage("wide", 2**14), stage("tall", 1, 2**13)
    with pytest.raises(DescriptionError, match=r"134,217,728 reads .*; at most 67,108,864"):
        Dependency(tall[x, y], [wide[:, :]])


def test_gemms_of_different_heights_read_the_rows_that_overlap_and_no_more():
    up = Stage("up", Gemm("up", 640, 256, 128, 128, 256))
    down = Stage("down", Gemm("down", 640, 256, 256, 192, 256))
    dependency = gemm_rows(up, down)
    for row in range(down.grid.y):
        read = {py for _, py in reads(dependency, (0, row))}
        assert read == {
            py
            for py in range(up.grid.y)
            if py * 128 < min(640, (row + 1) * 192) and (py + 1) * 128 > row * 192
        }


def test_gemms_that_do_not_fit_together_are_refused():
    up = Stage("up", Gemm("up", 512, 256, 128, 128, 256))
    with pytest.raises(DescriptionError, match=r"reads A \(512, 300\) but up makes \(512, 256\)"):
        gemm_rows(up, Stage("down", Gemm("down", 512, 256, 300, 128, 256)))


# --- pipelines ---


def test_chains_forks_and_joins_are_pipelines():
    a, b, c, d = (stage(name, 2) for name in "abcd")
    links = [
        Dependency(b[x, y], [a[x, y]]),
        Dependency(c[x, y], [a[x, y]]),
        Dependency(d[x, y], [b[x, y], c[x, y]]),
    ]
    diamond = Pipeline("diamond", [a, b, c, d], links)
    assert diamond.consumers_of("a") == ("b", "c")
    assert diamond.unread_tiles() == {}


def test_a_cycle_is_named_stage_by_stage():
    a, b, c = (stage(name, 2) for name in "abc")
    links = [Dependency(after[x, y], [before[x, y]]) for before, after in pairwise([a, b, c, a])]
    with pytest.raises(DescriptionError, match="'b' needs 'a' needs 'c' needs 'b', a cycle that cannot run"):
        Pipeline("circle", [a, b, c], links)


def test_a_producer_listed_after_its_consumer_is_refused():
    a, b = stage("a", 2), stage("b", 2)
    with pytest.raises(DescriptionError, match="'b' needs 'a', which is listed after it"):
        Pipeline("backwards", [b, a], [Dependency(b[x, y], [a[x, y]])])


def test_a_stage_that_neither_reads_nor_is_read_is_warned_of():
    a, b, c = (stage(name, 2) for name in "abc")
    with pytest.warns(UnneededStageWarning, match="nobody needs the tiles of stage 'c'"):
        Pipeline("loose end", [a, b, c], [Dependency(b[x, y], [a[x, y]])])


def test_unread_tiles_of_a_producer_are_listed():
    a, b = stage("a", 4), stage("b", 2)
    assert Pipeline("half", [a, b], [Dependency(b[x, y], [a[x, y]])]).unread_tiles() == {
        "a": ((2, 0), (3, 0))
    }


def test_slices_of_k_count_as_the_blocks_that_they_are():
    deep = Stage("deep", Kernel("deep", Grid(2**10, 2**7, 4), BLOCK))
    with pytest.raises(DescriptionError, match="524,288 blocks"):
        Dependency(stage("one", 1)[x, y], [deep[:, :]])


@pytest.mark.parametrize("count", [65, 400, 100_000])
def test_an_index_of_many_terms_is_refused_while_it_is_written(count: int):
    def sum_of_zeros() -> Index:
        index = x
        for _ in range(count - 1):
            index = index + 0
        return index

    with pytest.raises(DescriptionError, match="a tile index has more than 64 terms"):
        sum_of_zeros()


def test_an_index_of_as_many_terms_as_are_allowed_is_evaluated():
    index = x
    for _ in range(63):
        index = index + 1
    assert index.evaluate(5, 0) == 68


@pytest.mark.parametrize("value", [2**31, -(2**31), 10**400, 1 << 100_000], ids=shown)
def test_an_index_with_an_integer_beyond_32_bits_is_refused_in_one_short_line(value: int):
    for build in (
        lambda: x + value,
        lambda: x * value,
        lambda: stage("s", 2)[value, y],
        lambda: x.at_most(value),
    ):
        with pytest.raises(DescriptionError, match="tile index has") as caught:
            build()
        assert len(str(caught.value)) < 200
