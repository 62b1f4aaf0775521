"""Dispatch tables: which way from where on, on hand-made gains."""

from dataclasses import dataclass, replace

from wavesim.predict.forecast import Forecast
from wavesim.tuning.crossover.gains import ComparedPlan, recommended, ways_of
from wavesim.tuning.crossover.table import table_of

STREAM, ROW, TILE = ways_of(("stream", "pdl+row", "pdl+tile"))


@dataclass(frozen=True)
class Size:
    """Gains in points of ROW and TILE over 128 rows."""

    m_from: int
    m_to: int
    gains: dict
    asked: ComparedPlan | None = None

    @property
    def best(self):
        return self.asked or recommended(self.gains)


def sizes(*points):
    return [
        Size(
            128 * i + 1,
            128 * (i + 1),
            {
                way: Forecast(value, value - 1, value + 1, kind="of these tests")
                for way, value in zip((STREAM, ROW, TILE), (0.0, *both), strict=True)
            },
        )
        for i, both in enumerate(points)
    ]


def ranges(*points, margin=0.5):
    rows = table_of(sizes(*points), 1, 128 * len(points), margin)
    return [(row.m_from, row.m_to, row.way) for row in rows]


def test_the_way_that_gains_most_is_taken_from_where_it_does():
    assert ranges((-1, -1), (12, 3), (12, 3), (-1, 8)) == [
        (1, 128, STREAM),
        (129, 384, ROW),
        (385, 512, TILE),
    ]


def test_a_gain_smaller_than_the_margin_does_not_change_the_way():
    points = (3.0, 3.8), (3.9, 3.0), (2.9, 3.8)
    assert ranges(*points, margin=2.0) == [(1, 384, TILE)]
    assert len(ranges(*points, margin=0.0)) == 3


def test_of_ways_that_are_as_good_the_simpler_one_is_taken():
    assert ranges((3.0, 3.2), (3.1, 3.0), (2.9, 3.1), margin=0.0) == [(1, 384, ROW)]


def test_the_size_at_which_the_kernels_were_described_has_what_is_recommended_for_them():
    first, second = sizes((12, 3), (12, 3))
    rows = table_of([first, replace(second, asked=TILE)], 1, 256)
    assert [(row.m_from, row.way) for row in rows] == [(1, ROW), (129, TILE)]


def test_next_to_nothing_is_not_worth_leaving_stream_sync():
    assert ranges((0.3, 0.2), (0.4, 0.3)) == [(1, 256, STREAM)]


def test_a_row_has_its_mean_gain_and_the_ends_of_all_intervals():
    (row,) = table_of(sizes((10, 0), (14, 0)), 1, 256)
    assert (row.gain_points, row.low, row.high) == (12, 9, 15)


def test_a_row_ends_where_the_next_simulated_size_begins():
    far = sizes((12, 3), (12, 3), (12, 3), (-1, -1))
    rows = table_of([far[0], far[3]], 1, 512)
    assert [(row.m_from, row.m_to) for row in rows] == [(1, 384), (385, 512)]
