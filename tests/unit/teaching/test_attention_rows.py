"""Why short rows first: the schedule by hand, and the exercises of notebook 16."""

from wavesim.plan.order import Reversed, RowMajor
from wavesim.teaching.attention_rows import units

SHORT, LONG = RowMajor(), Reversed(RowMajor())


def test_alone_long_rows_first_win_and_with_an_output_product_short_rows_do():
    assert [units(order, overlaps=False) for order in (SHORT, LONG)] == [8, 7]
    assert [units(order, overlaps=True) for order in (SHORT, LONG)] == [6, 7]
