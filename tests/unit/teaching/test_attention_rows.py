"""Why short rows first: the schedule by hand, and the exercises of notebook 16."""

import pytest

from wavesim.plan.order import Reversed, RowMajor
from wavesim.teaching.attention_rows import run, units
from wavesim.teaching.exercises import WrongAnswer, check

SHORT, LONG = RowMajor(), Reversed(RowMajor())


def test_alone_long_rows_first_win_and_with_an_output_product_short_rows_do():
    assert [units(order, overlaps=False) for order in (SHORT, LONG)] == [8, 7]
    assert [units(order, overlaps=True) for order in (SHORT, LONG)] == [6, 7]


def test_short_rows_first_fill_every_sm_until_the_end():
    trace = run(SHORT, overlaps=True)
    assert trace.wait_ns.sum() == 0
    assert int((trace.end_ns - trace.start_ns).sum()) == 4 * trace.makespan_ns


@pytest.mark.parametrize(
    ("number", "answer", "hint"),
    [
        ("16.1", (3, 12), "12 for row block 3"),
        ("16.1", (9, 9), "9 for row block 0"),
        ("16.2", (7, 7), "7 with short rows first"),
        ("16.2", (6, 6), "6 with long rows first"),
    ],
)
def test_a_wrong_answer_gets_a_hint(number, answer, hint):
    with pytest.raises(WrongAnswer, match=hint):
        check(number, answer)
