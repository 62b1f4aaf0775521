"""Solutions to notebook 9."""

ANSWERS = {
    # 96 x 4 = 384 blocks are 2.91 waves; 1, 2 and 3 slices all leave 27 % of the slots empty.
    "9.1": 4,
    # 192 x 192 / 132 = 279.3; somebody takes the rest.
    "9.2": 280,
}
