"""Solutions to notebook 24."""

ANSWERS = {
    # 2 × 2048² + 2 × 2048 × 512 + 3 × 2048 × 8192 = 60.8 million weights of two bytes; 4.4 MB a microsecond.
    "24.1": (121.6, 27.6),
    # (57.4 - 28.8) / 7, and 4.4 MB in each microsecond of it.
    "24.2": (4.1, 18),
    # 33.3 KB a microsecond, for 1.07 µs on their way and 2 µs of waiting.
    "24.3": 102,
    # 5 × 2 µs of 17.5 and of 113.8.
    "24.4": (57, 8.8),
}
