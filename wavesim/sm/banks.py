"""Shared memory's banks: how many wavefronts an access of a warp takes, exactly, from what its lanes touch.

Example: 32 lanes that read words 0, 2, 4, ... 62 meet in 16 banks, two words in each: two wavefronts. At a
stride of 33 words each lane has a bank of its own, and one is enough. Lanes that read the same word share it.
"""

from collections.abc import Sequence

from wavesim.errors import DescriptionError
from wavesim.model.kernel import WARP_SIZE

BANKS, WORD_BYTES = 32, 4
# Lanes whose access is served together: as many as have 128 bytes, so a half or a quarter of a warp.
GROUPS = {4: 1, 8: 2, 16: 4}


def wavefronts(elements: Sequence[int | None], lane_bytes: int = WORD_BYTES) -> int:
    """Wavefronts of one access: lane i touches element `elements[i]`, of `lane_bytes`; None: it is idle.

    Raises `DescriptionError` for more lanes than a warp has, an element below 0, or other sizes.
    """
    return sum(max(map(len, words), default=0) for words in words_by_bank(elements, lane_bytes))


def words_by_bank(elements: Sequence[int | None], lane_bytes: int = WORD_BYTES) -> list[list[set[int]]]:
    """For each group of lanes that is served together, the distinct words touched in each of the 32 banks."""
    _require(elements, lane_bytes)
    lanes = WARP_SIZE // GROUPS[lane_bytes]
    return [
        _words(elements[first : first + lanes], lane_bytes // WORD_BYTES)
        for first in range(0, len(elements), lanes)
    ]


def _words(elements: Sequence[int | None], words_each: int) -> list[set[int]]:
    banks: list[set[int]] = [set() for _ in range(BANKS)]
    for element in elements:
        if element is not None:
            for word in range(element * words_each, (element + 1) * words_each):
                banks[word % BANKS].add(word)
    return banks


def _require(elements: Sequence[int | None], lane_bytes: int) -> None:
    if lane_bytes not in GROUPS:
        raise DescriptionError(f"lane_bytes is {lane_bytes!r}; a lane accesses 4, 8 or 16 bytes")
    if len(elements) > WARP_SIZE:
        raise DescriptionError(f"{len(elements)} lanes access shared memory; a warp has {WARP_SIZE}")
    wrong = [
        element
        for element in elements
        if element is not None and (not isinstance(element, int) or element < 0)
    ]
    if wrong:
        raise DescriptionError(f"a lane accesses element {wrong[0]!r}; elements are whole numbers from 0")
