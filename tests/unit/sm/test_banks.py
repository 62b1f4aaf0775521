"""Wavefronts, counted: against a slow count by hand, in closed form, and for wide accesses."""

from math import gcd
from random import Random

import pytest

from wavesim.errors import DescriptionError
from wavesim.sm.banks import wavefronts, words_by_bank


def test_lanes_a_stride_apart_meet_as_often_as_stride_and_banks_have_factors_in_common():
    """So a column of a tile is free of conflicts where its rows are odd."""
    found = [wavefronts([lane * stride for lane in range(32)]) for stride in range(65)]
    assert found == [gcd(stride, 32) if stride else 1 for stride in range(65)]


def test_any_access_takes_as_many_wavefronts_as_its_fullest_bank_has_words():
    chance = Random(3)
    for _ in range(200):
        lanes = [chance.choice([None, chance.randrange(200)]) for _ in range(32)]
        words = {word for word in lanes if word is not None}
        by_hand = max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0)
        assert wavefronts(lanes) == by_hand


def test_wide_accesses_are_served_by_half_and_quarter_warps():
    assert wavefronts(range(32), 4) == 1
    assert wavefronts(range(32), 8) == 2
    assert wavefronts(range(32), 16) == 4
    assert wavefronts([0] * 32, 16) == 4
    assert wavefronts([2 * lane for lane in range(32)], 8) == 4
    assert [len(words) for words in words_by_bank(range(32), 16)] == [32] * 4
    # A column of a 32 x 32 tile of doubles, as it is and padded by one.
    assert [wavefronts([row * length for row in range(32)], 8) for length in (32, 33)] == [32, 2]


def test_idle_lanes_take_none():
    assert wavefronts([None] * 32) == 0
    assert wavefronts([]) == 0


@pytest.mark.parametrize(
    ("elements", "size", "said"),
    [
        (range(33), 4, "33 lanes access shared memory; a warp has 32"),
        ([-1], 4, "element -1"),
        ([1.5], 4, "element 1.5"),
        (range(32), 12, "4, 8 or 16 bytes"),
    ],
)
def test_what_no_warp_can_access_is_refused(elements, size, said):
    with pytest.raises(DescriptionError, match=said):
        wavefronts(list(elements), size)
