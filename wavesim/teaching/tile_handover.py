"""A tile handed from one block to another, as litmus tests of PTX: all that the reader may read.

Example: `tiles_read(handover(poll="ld.relaxed.gpu"))` is {0, 42}: the tile as it was before is allowed.
"""

from collections.abc import Mapping

from wavesim.litmus import LitmusTest, LitmusThread, outcomes
from wavesim.safe_io.annotated import typed

TILE = 42
SAME_BLOCK, OTHER_BLOCK, OTHER_GPU = "gpu0.cta0", "gpu0.cta1", "gpu1.cta0"
# Where the reader may be, by a word: the exercise asks for the narrowest scope that serves each.
READERS: Mapping[str, str] = {"same block": SAME_BLOCK, "other block": OTHER_BLOCK, "other GPU": OTHER_GPU}


@typed
def handover(
    *, post: str = "st.release.gpu", poll: str = "ld.acquire.gpu", fence: str = "", reader: str = OTHER_BLOCK
) -> LitmusTest:
    """A block stores 42 and posts; a thread at `reader` polls, fences if asked to, and reads the tile.

    Raises `DescriptionError` for instructions or places that the enumerator does not know.
    """
    producer = (f"st.weak [tile], {TILE}", f"{post} [flag], 1")
    fences = (fence,) if fence else ()
    consumer = (f"wait {poll} [flag] >= 1", *fences, "ld.weak r, [tile]")
    return LitmusTest(
        (LitmusThread("producer", SAME_BLOCK, producer), LitmusThread("consumer", reader, consumer))
    )


@typed
def tiles_read(test: LitmusTest) -> set[int]:
    """What the consumer's register may hold in the end: 0 is the tile before it was written."""
    return {dict(outcome)["r"] for outcome in outcomes(test)}
