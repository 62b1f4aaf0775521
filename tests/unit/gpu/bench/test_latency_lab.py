"""The latency lab's host side: which points, how much shared memory keeps others away, which peak."""

import pytest

from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.occupancy import occupancy_of
from wavesim_gpu.bench.labs.latency import (
    CHASE_ROUNDS,
    CHASE_STEP_BYTES,
    POOL_BYTES,
    THREADS,
    loops,
    peak_of,
    rounds_of,
)


@pytest.mark.parametrize("name", ["h200", "a100-80gb", "t4"])
def test_shared_memory_lets_exactly_the_loops_warps_on_an_sm(name):
    device, seen = load(name), []
    for loop, shared in loops(device):
        found = occupancy_of(device, Block(THREADS, 32, dynamic_shared_bytes=shared))
        assert found.blocks_per_sm * THREADS // 32 == loop.warps
        seen.append(loop)
    assert len(set(seen)) == len(seen) >= 12


def test_a_point_reads_the_pool_once_and_the_chase_stays_in_its_half():
    device = load("h200")
    for loop, _ in loops(device):
        moved = rounds_of(loop, device.sm_count, POOL_BYTES) * device.sm_count * loop.in_flight_bytes
        assert 0.99 * POOL_BYTES < moved <= POOL_BYTES
    assert CHASE_ROUNDS * CHASE_STEP_BYTES < POOL_BYTES // 2
    assert POOL_BYTES // 16 < 2**32  # addresses are counted in 32 bits of 16 bytes


def test_the_peak_is_the_device_files_and_none_of_the_points():
    peak, source = peak_of(load("h200"))
    assert peak == 4.439e12
    assert "panels" in source
