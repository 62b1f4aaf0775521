"""Solutions to notebook 6."""

from wavesim import Grouped

ANSWERS = {
    # Row by row: the first 24. In one group of 8 rows: 23 whole columns, and the first tile of the last.
    "6.1": (24, 23 * 8 + 1),
    # Rows become ready in two halves, and a wave touches 4 to 6 row panels and a third of the columns.
    "6.2": Grouped(4),
}
