"""Two clocks from posts to and fro: the bounds hold, and narrow with the rounds."""

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.peers.clock_offset import ClockOffset, offset_of


def test_one_round_gives_the_bounds_of_the_docstring():
    found = offset_of(*(np.array([ns], np.uint64) for ns in (1_000, 4_000, 51_000)))
    assert found == ClockOffset(48_500, 1_500 + 32)


@pytest.mark.parametrize("ahead", [-10_000_000, 0, 123_456])
def test_the_true_offset_lies_within_the_error_and_rounds_narrow_it(ahead):
    rng = np.random.default_rng(0)
    posted = np.cumsum(rng.integers(5_000, 9_000, 200)) + 2**40
    there = posted + rng.integers(900, 3_000, 200)
    answered = there + rng.integers(900, 3_000, 200)
    seen = there + ahead
    errors = []
    for rounds in (1, 200):
        found = offset_of(*(times[:rounds].astype(np.uint64) for times in (posted, answered, seen)))
        assert abs(found.ns - ahead) <= found.error_ns
        errors.append(found.error_ns)
    assert errors[1] < min(errors[0], 1_100)


def test_clocks_of_two_rates_are_refused():
    posted = np.arange(1, 100, dtype=np.uint64) * 1_000_000
    with pytest.raises(DescriptionError, match="one clock runs faster"):
        offset_of(posted, posted + 2_000, posted * 2)
