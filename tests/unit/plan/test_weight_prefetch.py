"""Weights loaded before the first wait: how many there is room for, and what that saves a spinning block."""

from dataclasses import replace

import pytest
from both_simulators import check_equal

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.resolved import resolve
from wavesim.sim.simulation import simulate
from wavesim.work.gemm import Gemm
from wavesim.workloads.figure_one import TILE_NS, toy
from wavesim.workloads.mlps import gpt3_mlp

V100, TOY = load("v100"), load("toy")
# GPT-3's second GEMM at 4 tokens as cuSync's authors ran it: 32 x 128 tiles, two stages of 32, K in three.
SMALL = Gemm("gemm2", 4, 12_288, 6_144, 32, 128, split_k=3, block=Block(128, dynamic_shared_bytes=20_480))


def test_a_block_has_room_for_as_much_of_its_slice_as_its_stages_hold():
    assert SMALL.prefetch_share(V100) == pytest.approx(64 / 2_048 * 128 / 160)


def test_more_stages_hold_more_and_never_more_than_all_weights():
    twice = replace(SMALL, block=Block(128, dynamic_shared_bytes=40_960))
    assert twice.prefetch_share(V100) == pytest.approx(2 * SMALL.prefetch_share(V100))
    shallow = replace(SMALL, k=64, split_k=1, block=Block(128, dynamic_shared_bytes=90_000))
    assert shallow.prefetch_share(V100) == pytest.approx(128 / 160)


def test_a_compute_bound_kernel_hides_its_loads_and_gains_nothing():
    large = SMALL.with_m(2_048)
    assert (SMALL.is_memory_bound(V100), large.is_memory_bound(V100)) == (True, False)
    assert large.prefetch_share(V100) == 0.0


@pytest.mark.parametrize("policy", [RowSync(), TileSync()])
def test_a_block_that_spins_saves_what_it_loaded_meanwhile(policy):
    """A row of 2 tiles on 4 SMs: consumers of 100 spin while producers of 100 compute, and have 10 done."""
    pipeline, costs = toy(rows=1), CostModel({"gemm1": TILE_NS, "gemm2": TILE_NS})
    without = simulate(pipeline, SemaphoreSync(policy), TOY, costs).makespan_ns
    found = simulate(pipeline, SemaphoreSync(policy, prefetch=0.1), TOY, costs).makespan_ns
    assert without - found == pytest.approx(0.1 * TILE_NS)


def test_a_block_that_never_spins_saves_nothing():
    pipeline, costs = gpt3_mlp(2_048), CostModel({"gemm1": 200_000, "gemm2": 100_000})
    plans = (SemaphoreSync(RowSync()), SemaphoreSync(RowSync(), prefetch=0.02))
    ends = [simulate(pipeline, plan, load("h200"), costs).makespan_ns for plan in plans]
    assert ends[0] == ends[1]


def test_no_wait_comes_before_the_prefetched_share_and_later_ones_stay():
    program = resolve(toy(), SemaphoreSync(TileSync(), prefetch=0.25)).stages[1]
    assert [wait.done / wait.of for wait in program.waits(0)] == [0.25, 0.5]


@pytest.mark.parametrize("sharing", [(1.0,), (1.0, 0.6)])
def test_engine_and_oracle_agree_with_prefetched_weights(sharing):
    pipeline, device = gpt3_mlp(640, (128, 128)), load("h200")
    costs = CostModel({"gemm1": 100_003, "gemm2": 50_021}, sharing=sharing, wait_ns=7)
    plan = SemaphoreSync(TileSync(), prefetch=0.03)
    check_equal((pipeline, plan, device, costs))


@pytest.mark.parametrize("share", [-0.1, 1.5, "some"])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(DescriptionError, match="it is a share of the work, from 0 to 1"):
        SemaphoreSync(prefetch=share)


def test_a_plan_that_prefetches_says_so():
    assert SemaphoreSync(RowSync(), prefetch=0.025).label == "Row semaphores, 2.5 % prefetched"
