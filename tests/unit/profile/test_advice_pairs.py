"""The advice on pairs that were measured afterwards: the shipped table is what the shipped profiles give."""

from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[3] / "gpu" / "results" / "advice"


@pytest.fixture
def advice_table(monkeypatch):
    monkeypatch.syspath_prepend(str(RESULTS.parents[1] / "examples"))
    import advice_table

    return advice_table


def test_the_table_is_current(advice_table):
    assert (RESULTS / "table.md").read_text() == advice_table.page(), "run gpu/examples/advice_table.py"


def test_the_advice_is_inside_its_interval_for_eight_of_ten_pairs(advice_table):
    rows = advice_table.rows()
    assert len(rows) >= 10
    assert sum(row.is_inside for row in rows) >= 0.8 * len(rows)


def test_the_intervals_are_not_so_wide_that_they_say_nothing(advice_table):
    for row in advice_table.rows():
        assert row.high_ns - row.low_ns < 0.15 * row.stream_ns, row.name
