"""Solutions to notebook 13."""

ANSWERS = {
    # Row 5 of `up` has 4096 / 256 tiles.
    "13.1": (5, 16),
    # 33 tile rows: 33 * 16 = 4 * 132 and 33 * 24 = 6 * 132.
    "13.2": 33 * 128,
}
