"""Solutions to notebook 3."""

ANSWERS = {
    # 288 tiles: two full waves, 264 tiles, make 11 rows; 48 gemm2 tiles read each.
    "3.1": 11 * 48,
    # What is not busy: 1 less the busy utilisation.
    "3.2": 17.3,
    # 11 rows: 264 tiles are two waves of 132, 528 are four.
    "3.3": 11 * 128,
}
