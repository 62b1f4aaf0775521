"""Solutions to notebook 25."""

from wavesim.teaching.expert_rows import gains

ANSWERS = {
    # 3 + 1 + 1 + 0 blocks of up to 64 rows; the last expert has no row, and its weights stay where they are.
    "25.1": (5, 3),
    # 8 × 112 = 896 tiles and 9 × 112 = 1,008, over 132.
    "25.2": (7, 8),
    # 1, 1 to t = 1, then 2, 2 to t = 3, then 4; or 4 beside 2 + 2, then 1 beside 1.
    "25.3": (7, 5),
    # 1,536 / 128 tile columns; 2,048 / 128 of them times 128 blocks of rows.
    "25.4": (12, 2048),
    "25.5": 100 * sum(gain.measured > 0 for gain in gains()) / 96,
}
