"""What is assumed of kernels whose author has not said how they wait, and what else could be the case."""

from dataclasses import replace

import pytest

from wavesim.costs.cost_model import CostModel
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel, MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.predict.scenarios import scenarios_of, usual_loop
from wavesim.sim.simulation import simulate
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.mlps import gpt3_mlp

H200 = load("h200")
COSTS = CostModel({"up": 80_000, "down": 80_000}, ready_poll_ns=300, refill_ns=400, tma_refill_ns=1_100)


def pair(loop: MainLoop, threads: int = 256) -> Pipeline:
    block = Block(threads, 128, dynamic_shared_bytes=150_000)
    up, down = (
        Stage(name, Gemm(name, 1_024, 4_096, 4_096, 128, 256, 64, block=block), main_loop=loop)
        for name in ("up", "down")
    )
    return Pipeline("pair", [up, down], [gemm_rows(up, down)])


@pytest.mark.parametrize(
    ("loop", "unknown"),
    [
        (MainLoop(3, "block-barrier", False, tests_each_k_block=True), []),
        (MainLoop(None, "block-barrier", False, tests_each_k_block=False), []),
        (MainLoop(3, "block-barrier", is_persistent=False), ["tests_each_k_block"]),
        (MainLoop(None, "producer-warp", is_persistent=True), ["pipeline_depth", "pipeline_depth"]),
        (MainLoop(3, None, is_persistent=False), ["wait_place", "wait_place", "tests_each_k_block"]),
        (MainLoop(3, "before-main-loop"), ["is_persistent"]),
        (MainLoop(), ["wait_place", "wait_place", "tests_each_k_block", "is_persistent"]),
    ],
)
def test_each_fact_that_was_not_said_is_one_or_two_scenarios_and_they_are_at_most_five(loop, unknown):
    found = scenarios_of(pair(loop), H200, COSTS)
    assert [one.unknown for one in found] == ["", *unknown]
    assert len({one.label for one in found}) == len(found)


def test_scenarios_span_what_the_kernels_turn_out_to_be():
    plan = SemaphoreSync(TileSync())
    times = [
        simulate(pair(MainLoop()), plan, H200, one.costs).time_ns
        for one in scenarios_of(pair(MainLoop()), H200, COSTS)
    ]
    for place in ("producer-warp", "block-barrier", "before-main-loop"):
        said = pair(MainLoop(4, place, is_persistent=False, tests_each_k_block=False))
        found = scenarios_of(said, H200, COSTS)
        assert len(found) == 1
        assert min(times) <= simulate(said, plan, H200, found[0].costs).time_ns <= max(times)
    assert max(times) > min(times)


def test_the_first_is_what_is_most_common_for_such_a_kernel():
    assert usual_loop(pair(MainLoop()).stages[0], H200).wait_place == "block-barrier"
    assert usual_loop(pair(MainLoop(), 384).stages[0], H200).wait_place == "producer-warp"
    assert usual_loop(pair(MainLoop(), 384).stages[0], load("a100-80gb")).wait_place == "block-barrier"
    ours = replace(pair(MainLoop()).stages[0], backend="hopper")
    assert usual_loop(ours, H200).wait_place == "prefetched"


def test_what_was_assumed_before_stays_assumed():
    costs = replace(COSTS, main_loops={"down": MainLoop(4, "before-main-loop", is_persistent=False)})
    found = scenarios_of(pair(MainLoop()), H200, costs)
    assert found[0].costs.main_loops["down"].wait_place == "before-main-loop"
    assert "before-main-loop" not in {one.costs.main_loops["down"].wait_place for one in found[1:3]}


def test_a_bare_grid_is_of_the_blocks_that_were_launched():
    stage = Stage("k", Kernel("k", Grid(300), Block(256, 64)))
    found = scenarios_of(Pipeline("one", [stage], []), H200, CostModel({"k": 1_000}))
    assert [one.label for one in found] == ["nothing waits"]


def test_our_own_kernels_are_known():
    costs = CostModel({"gemm1": 80_000, "gemm2": 80_000})
    assert len(scenarios_of(gpt3_mlp(1_024), H200, costs)) == 1
