"""Solutions to notebook 16."""

ANSWERS = {
    # One tile of Q; K and V of KV head 1 in row 0 alone, or in rows 0 to 3.
    "16.1": (3, 9),
    # Short rows first: rows are whole at 1, 2 and 4; output tiles run beside the long row.
    "16.2": (6, 7),
}
