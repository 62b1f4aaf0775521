"""What follows from raw results: each constant from results whose answer is known."""

import numpy as np
import pytest

from wavesim_gpu.characterise import backends, clock, dispatch, memory, semaphores, sharing

MB = 1 << 20


def values(found):
    return {one.name: one.value for one in found}


@pytest.mark.parametrize("held_mb", [24, 36])
def test_the_l2s_capacity_is_what_dram_did_not_have_to_serve(held_mb: int):
    rate = {size: 4e12 / (1 - held_mb / size) for size in (128, 192, 256, 4096)}
    rates = {str(size): [one, one] for size, one in rate.items()}
    (first, second) = memory.capacities(rates, 60 * MB)
    assert first == second == pytest.approx(held_mb * MB, rel=0.1)


def test_near_and_far_lines_are_told_apart():
    chance = np.random.default_rng(0)
    lines = [chance.normal(280, 5, 64), chance.normal(320, 5, 64)]
    near, far = memory.near_and_far([list(one) for one in lines])
    assert (near, far) == (pytest.approx(280, abs=3), pytest.approx(320, abs=3))
    assert memory.near_and_far([[]]) == (0.0, 0.0)
    assert memory.near_and_far([[300.0, 310.0]]) == (305.0, 305.0)


def test_the_clocks_gain_is_that_of_no_sm_at_work():
    assert clock.gain([1.7, 1.7 * 1.045], 0.1) == pytest.approx(0.05)


def test_fetch_poll_and_post_are_told_apart_by_a_chain_of_three():
    fetch, poll, post = 300.0, 500.0, 200.0
    stream = [[10_000.0, 10_000.0, 10_000.0]]
    row = [[10_000 + fetch + post, 10_000 + fetch + poll + post, 10_000 + fetch + poll]]
    found = values(backends.constants({"portable": {"stream": stream, "row": row}}))
    assert found == {
        "backends.portable.tile.tile_fetch_ns": fetch,
        "backends.portable.tile.poll_ns": poll,
        "backends.portable.tile.post_ns": post,
    }


def test_parts_of_a_block_are_what_its_rounds_take_longer():
    rounds = {"none": [1000.0, 1010.0, 990.0], "partial": [3000.0] * 3, "fixup": [3000.0] * 3}
    rounds |= {part: [1400.0, 1410.0, 1390.0] for part in ("fetch", "poll", "post")}
    found = values(semaphores.constants({"one_way_ns": {"1": [600.0], "66": [640.0]}, "rounds_ns": rounds}))
    assert found["semaphore.latency_ns"] == 620
    assert found["overheads.post_ns"] == 400
    assert found["overheads.partial_ns"] == 2000


def test_dispatch_is_yes_only_if_every_repeat_showed_it():
    raw = {
        "oldest_first": [True, False],
        "blocks_per_sm_in_half_a_wave": [1, 1],
        "joined": {"default": [0, 0], "full": [4, 3]},
        "large_bytes": 150_000,
        "sm_count": 4,
    }
    found = values(dispatch.constants(raw))
    assert found["dispatch.oldest_first"] is False
    assert found["dispatch.breadth_first"] is True
    assert found["dispatch.joins_default"] is found["dispatch.joins_full"] is False


def test_speeds_are_of_one_block_over_that_of_one_alone():
    assert sharing.speeds([[40.0], [36.0, 8.0]]) == [1.0, 0.55]
    spinning = {name: {sharing.GEMM: [[40.0, 39.2]]} for name in sharing.SPINNERS}
    rates = {kind: [[[40.0], [20.0, 20.0], [15.0] * 3, [10.0] * 4]] for kind in sharing.KINDS}
    found = values(sharing.constants({"rates": rates, "light_ghz": [1.98], "beside_spinning": spinning}))
    assert found["sharing.tensor_speeds"] == [1.0, 0.5, 0.375, 0.25]
    assert found["sharing.spin_share"] == pytest.approx(0.02)
