"""Dropout's random words are Philox-4x32-10's, and depend on nothing but seed, head, query and key."""

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.kernels.attention.dropout import dropout_params, kept, philox, threshold_of

# Published with the generator (Random123, kat_vectors): counter, key, words.
KNOWN = [
    ((0,) * 4, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        0x299F31D0_A4093822,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "seed", "words"), KNOWN)
def test_the_words_are_those_published_with_the_generator(counter, seed, words):
    arrays = tuple(np.array([one], np.uint64) for one in counter)
    assert tuple(int(one[0]) for one in philox(arrays, seed)) == words


def test_a_mask_does_not_depend_on_how_many_heads_rows_and_keys_there_are():
    large = kept(np, 3, 0.4, heads=5, rows=6, keys=23)
    assert np.array_equal(kept(np, 3, 0.4, heads=2, rows=4, keys=9), large[:2, :4, :9])
    assert not np.array_equal(kept(np, 4, 0.4, heads=5, rows=6, keys=23), large)
    assert not np.array_equal(kept(np, 3 + 2**32, 0.4, heads=5, rows=6, keys=23), large)


def test_each_weight_has_a_word_of_its_own():
    mask = kept(np, 11, 0.5, heads=4, rows=64, keys=256).reshape(-1)
    # Of 65,536 fair coins, five standard deviations about the half; neighbours agree as often as not.
    assert abs(int(mask.sum()) - 32768) < 5 * 128
    for apart in (1, 2, 4, 256, 64 * 256):
        assert abs(np.mean(mask[apart:] == mask[:-apart]) - 0.5) < 0.02


def test_the_share_dropped_is_the_share_asked_for_and_none_at_zero():
    assert kept(np, 1, 0.0, heads=2, rows=8, keys=64).all()
    assert abs(1.0 - kept(np, 1, 0.1, heads=4, rows=64, keys=256).mean() - 0.1) < 0.006


def test_a_kernel_gets_the_seed_in_two_words_the_threshold_and_the_scale():
    assert dropout_params(0x1_0000_0002, 0.5).tolist() == (2, 1, 2**31, 2.0)
    assert threshold_of(1.0 - 2.0**-32) == 2**32 - 1


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, float("nan")])
def test_a_share_outside_of_zero_to_one_is_refused(p):
    with pytest.raises(DescriptionError, match="at least 0 and below 1"):
        dropout_params(0, p)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_over_64_bits_is_refused(seed):
    with pytest.raises(DescriptionError, match="64 bits"):
        dropout_params(seed, 0.1)
