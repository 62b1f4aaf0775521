"""Solutions to notebook 10."""

ANSWERS = {
    # 4 x 24 x 2 and 4 x 48 x 1 are 192 blocks each, on 80 slots: 3 waves each, and 2.4 + 2.4.
    "10.1": (6, 4.8),
    # 192 tiles are 2.4 waves of work, and the last 32 take a whole tile time.
    "10.2": 3,
    # +0.7 predicted, -4.1 published, and no constant was fitted to it.
    "10.3": (2048, "tile"),
}
