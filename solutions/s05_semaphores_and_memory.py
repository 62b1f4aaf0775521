"""Solutions to notebook 5."""

from wavesim.teaching.litmus import fence, load, post, store, wait

ANSWERS = {
    # Both tiles post.
    "5.1": 2,
    # The writer is in order, but the reader may have loaded X before it looked at Y.
    "5.2": {(1, 2), (10, 2), (10, 20), (1, 20)},
    # The tile before the post, and the post's sight before the read.
    "5.3": (
        [store("tile", 42), fence(), post("semaphore", release=False)],
        [wait("semaphore", 1, acquire=False), fence(), load("read", "tile")],
    ),
}
