"""Solutions to notebook 18."""

ANSWERS = {
    # The long tasks first: no short one is worth waiting for.
    "18.1": (5, 5, 1, 1, 1, 1, 1, 1),
    # 32 steps x 5 products x 5 batches; 160 entries into the pipeline and 4 cycles to empty it.
    "18.2": (800, 164),
    # A launch of 1,080 ns and 339 ns to load R's weights again.
    "18.3": 1418,
    # 28 blocks of R. Of 50 blocks from 38 on: 12 small ones, the 28 of R, 10 small ones beside the first.
    "18.4": (96, 38),
}
