"""The simulator's speed: ratios are asserted as they are, milliseconds at three times theirs."""

import gc

import pytest

from wavesim.bench.simulator_speed import (
    TOKENS_10K,
    TOKENS_100K,
    TOKENS_600,
    simpy_over_oracle,
    simulation_ms,
)


@pytest.mark.alone
def test_simpy_takes_at_most_six_times_the_oracles_time():
    assert simpy_over_oracle() <= 6


@pytest.mark.alone
def test_a_tile_takes_at_most_1_3_times_as_long_among_100_000_as_among_10_000():
    def ratio() -> float:
        few_ms, few = simulation_ms(TOKENS_10K, rounds=5)
        many_ms, many = simulation_ms(TOKENS_100K, rounds=1)
        assert (few, many) == (10_008, 100_008)
        return (many_ms / many) / (few_ms / few)

    # What tests before have left is not gone through at every collection of the long run; other work on the
    # machine can only lengthen it, for seconds at times.
    gc.collect()
    gc.freeze()
    try:
        assert any(ratio() <= 1.3 for _ in range(8))
    finally:
        gc.unfreeze()


@pytest.mark.alone
def test_600_tiles_take_15_ms_and_10_000_take_100_ms_on_an_idle_core():
    assert simulation_ms(TOKENS_600)[0] <= 3 * 15
    assert simulation_ms(TOKENS_10K)[0] <= 3 * 100
