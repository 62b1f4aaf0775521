"""Scheduling rules, one test each: placement, carve-outs, launch order, split-K, wait-kernels, costs."""

import numpy as np
import pytest
from toy_schedules import HALF_SM, THIRD_SM, TOY, UNIT_NS, pair, run, schedule, stage, waves

from wavesim.errors import DeadlockError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import ColumnMajor
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows

H200 = load("h200")
TWO_PER_SM = Block(threads=256, registers=64, dynamic_shared_bytes=100 * 1024)
ONE_PER_SM = Block(threads=256, registers=64, dynamic_shared_bytes=150 * 1024)
SIDE_BY_SIDE = SemaphoreSync(wait_kernel=False)


def alone(*stages: Stage) -> Pipeline:
    """Stages that need nothing of each other."""
    return Pipeline("independent", stages)


# --- placement ---


def test_132_blocks_of_a_two_per_sm_kernel_land_one_on_each_of_132_sms():
    trace = run(alone(stage("a", 132, block=TWO_PER_SM)), StreamSync(), device=H200)
    assert sorted(trace.sm) == list(range(132))


def test_198_blocks_of_a_two_per_sm_kernel_leave_66_sms_with_two_and_66_with_one():
    trace = run(alone(stage("a", 198, block=TWO_PER_SM)), StreamSync(), device=H200)
    assert trace.makespan_ns == UNIT_NS
    assert np.bincount(np.bincount(trace.sm)).tolist() == [0, 66, 66]
    assert set(trace.slot[:132]) == {0}
    assert set(trace.slot[132:]) == {1}


def test_a_block_goes_to_the_sm_with_the_fewest_blocks_not_to_the_lowest():
    first = stage("a", 5, block=HALF_SM)  # two on SM 0, one on SMs 1 to 3
    second = stage("b", 3, block=HALF_SM)
    trace = run(alone(first, second), SIDE_BY_SIDE)
    assert trace.sm.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert trace.slot.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_blocks_of_different_size_share_an_sm_while_threads_last():
    small = Block(threads=256, registers=32)
    trace = run(alone(stage("a", 4, block=HALF_SM), stage("b", 9, block=small)), SIDE_BY_SIDE)
    assert [row[1:] for row in schedule(trace, "b")] == [(i % 4, 0, 1) for i in range(8)] + [(0, 1, 2)]
    assert trace.slot[trace.rows_of("b")].tolist() == [1] * 4 + [2] * 4 + [0]


def test_the_lowest_free_slot_is_used_again():
    trace = run(alone(stage("a", 9, block=HALF_SM)), StreamSync(), {"a": [1, 1, 1, 1, 3, 3, 3, 3, 1]})
    assert (trace.sm[8], trace.slot[8], trace.issue_ns[8]) == (0, 0, 1_000)


# --- launch order ---


def test_the_second_of_two_streams_fills_the_first_ones_last_wave_as_on_the_h200():
    stages = (stage("a", 198, block=ONE_PER_SM), stage("b", 198, block=ONE_PER_SM))
    streams = run(alone(*stages), SIDE_BY_SIDE, 50, device=H200)
    assert streams.makespan_ns == 150_000  # measured: 151 us
    assert np.unique(streams.issue_ns[streams.rows_of("b")], return_counts=True)[1].tolist() == [66, 132]
    assert run(alone(*stages), StreamSync(), 50, device=H200).makespan_ns == 200_000


def test_a_kernel_that_does_not_fit_holds_back_all_that_were_launched_after_it():
    narrow = Block(threads=256, registers=32)
    stages = (stage("a", 4, block=HALF_SM), stage("whole", 1), stage("small", 1, block=narrow))
    trace = run(alone(*stages), SIDE_BY_SIDE)
    assert schedule(trace, "whole") == [((0, 0), 0, 1, 2)]
    assert schedule(trace, "small") == [((0, 0), 1, 1, 2)]  # there was room at 0, but not at its turn


def test_all_completions_of_an_instant_come_before_any_placement():
    trace = run(alone(stage("a", 8, block=HALF_SM), stage("b", 4)), SIDE_BY_SIDE)
    assert schedule(trace, "b") == [((i, 0), i, 1, 2) for i in range(4)]


def test_under_stream_sync_launch_and_boundary_costs_come_between_kernels():
    trace = run(alone(stage("a", 1), stage("b", 1)), StreamSync(), boundary_ns=50, launch_ns=400)
    assert trace.issue_ns.tolist() == [0, 1_050]
    late = run(alone(stage("a", 1), stage("b", 1)), StreamSync(), boundary_ns=50, launch_ns=4_000)
    assert late.issue_ns.tolist() == [0, 4_050]
    assert [(e.name, e.stage, e.start_ns, e.end_ns) for e in trace.events] == [
        ("kernel boundary", "b", 1_000, 1_050)
    ]


# --- carve-outs ---


def test_a_150_kb_block_with_the_default_carve_out_keeps_20_kb_blocks_away_a_whole_wave():
    big = Block(threads=256, registers=64, dynamic_shared_bytes=150 * 1024)
    small = Block(threads=128, registers=32, dynamic_shared_bytes=20 * 1024)
    stages = (stage("big", 132, block=big, carveout="default"), stage("small", 132, block=small))
    trace = run(alone(*stages), SIDE_BY_SIDE, device=H200)
    assert set(trace.issue_ns[trace.rows_of("small")]) == {UNIT_NS}
    full = run(alone(stage("big", 132, block=big), stages[1]), SIDE_BY_SIDE, device=H200)
    assert set(full.issue_ns[full.rows_of("small")]) == {0}


def test_a_100_kb_block_shares_its_sm_with_a_50_kb_block_at_once():
    small = Block(threads=128, registers=32, dynamic_shared_bytes=50 * 1024)
    stages = (stage("big", 132, block=TWO_PER_SM, carveout="default"), stage("small", 132, block=small))
    trace = run(alone(*stages), SIDE_BY_SIDE, device=H200)
    assert set(trace.issue_ns) == {0}


# --- split-K ---


def test_the_last_split_k_slice_posts_the_tile_and_earlier_ones_only_occupy():
    first, second = stage("a", 1, slices=3), stage("b", 1)
    trace = run(pair(first, second), SemaphoreSync(TileSync()), {"a": [1, 3, 2], "b": 1})
    assert trace.end_ns.tolist() == [1_000, 3_000, 2_000, 4_000]
    assert (trace.issue_ns[3], trace.wait_ns[3]) == (0, 3_000)


def test_a_split_k_consumer_waits_only_for_its_own_range_of_k():
    first, second = stage("a", 2), stage("b", 1, slices=2)
    trace = run(pair(first, second), SemaphoreSync(TileSync()), {"a": [1, 3], "b": 1})
    assert trace.end_ns[trace.rows_of("b")].tolist() == [2_000, 4_000]


# --- wait-kernels ---


def test_a_wait_kernel_holds_a_slot_until_the_producer_has_started():
    one_sm = TOY.with_sm_count(1)
    first, second = stage("a", 2), stage("b", 1)
    trace = run(pair(first, second), SemaphoreSync(), device=one_sm, wait_ns=100)
    kernel = next(event for event in trace.events if event.name == "wait-kernel")
    assert (kernel.start_ns, kernel.end_ns) == (2_000, 2_100)  # the only slot, once a has no more blocks
    assert trace.issue_ns.tolist() == [0, 1_000, 2_100]


def test_a_spinning_wait_kernel_can_starve_the_producer_it_waits_for_and_the_error_says_so():
    first, second, third = stage("a", 1), stage("b", 1), stage("c", 1)
    chain = Pipeline(
        "chain",
        [first, second, third],
        [Dependency(second[x, y], [first[x, y]]), Dependency(third[x, y], [second[x, y]])],
    )
    assert waves(run(chain, SemaphoreSync(), device=TOY.with_sm_count(2))) == 3
    with pytest.raises(DeadlockError) as caught:
        run(chain, SemaphoreSync(), device=TOY.with_sm_count(1))
    (waiter,) = caught.value.waiters
    assert (waiter.stage, waiter.semaphore, waiter.sm, waiter.slot) == (
        "wait-kernel of c",
        "start of b",
        0,
        1,
    )
    assert caught.value.starved == (
        "b: 1 of its blocks, because waiting blocks hold SM 0 slot 1",
        "c: all 1 blocks, because its wait-kernel has not ended",
    )


# --- chains, forks, unequal tiles ---


def test_a_chain_of_three_runs_its_last_stage_while_the_first_is_still_running():
    stages = first, second, third = stage("a", 1, 6), stage("b", 1, 6), stage("c", 1, 6)
    needs = [Dependency(second[x, y], [first[x, y]]), Dependency(third[x, y], [second[x, y]])]
    trace = run(Pipeline("chain", stages, needs), SemaphoreSync())
    assert [row[2] for row in schedule(trace, "a")] == [0, 0, 0, 0, 1, 1]
    assert [row[2] for row in schedule(trace, "b")] == [1, 1, 2, 2, 2, 2]
    assert [row[2] for row in schedule(trace, "c")] == [3, 3, 3, 3, 4, 4]
    assert waves(trace) == 5
    assert waves(run(Pipeline("chain", stages, needs), StreamSync())) == 6


def test_a_fork_runs_both_consumers_behind_one_producer():
    stages = first, left, right = stage("a", 2), stage("left", 2), stage("right", 2)
    needs = [Dependency(left[x, y], [first[:, y]]), Dependency(right[x, y], [first[:, y]])]
    trace = run(Pipeline("fork", stages, needs), SemaphoreSync())
    assert schedule(trace, "left") == [((0, 0), 2, 0, 2), ((1, 0), 3, 0, 2)]
    assert schedule(trace, "right") == [((0, 0), 0, 1, 2), ((1, 0), 1, 1, 2)]


def test_waits_name_their_dependency_though_two_consumers_share_one_semaphore_array():
    stages = first, left, right, last = stage("a", 2), stage("left", 1), stage("right", 1), stage("last", 1)
    needs = [Dependency(left[x, y], [first[:, y]]), Dependency(right[x, y], [first[:, y]])]
    needs.append(Dependency(last[x, y], [left[x, y], right[x, y]]))
    trace = run(Pipeline("diamond", stages, needs), SemaphoreSync(), device=TOY.with_sm_count(8))
    infos = [trace.header.dependencies[number] for number in trace.waits.dependency]
    edges = [(info.producer, info.consumer) for info in infos]
    assert edges == [("a", "left"), ("a", "right"), ("left", "last")]
    assert [trace.header.stages[trace.stage[row]].name for row in trace.waits.block] == [e[1] for e in edges]


def test_with_unequal_tile_heights_a_tile_waits_for_all_rows_it_overlaps():
    first = Stage("a", Gemm("a", m=300, n=64, k=64, tile_m=100, tile_n=64, block=HALF_SM))
    second = Stage("b", Gemm("b", m=300, n=64, k=64, tile_m=150, tile_n=64, block=HALF_SM))
    plan = SemaphoreSync(RowSync())
    trace = run(
        Pipeline("heights", [first, second], [gemm_rows(first, second)]), plan, {"a": [1, 2, 4], "b": 1}
    )
    assert trace.end_ns[trace.rows_of("b")].tolist() == [3_000, 5_000]


# --- costs and sharing ---


def test_block_wait_and_post_costs_add_up_in_the_order_of_a_blocks_life():
    trace = run(pair(stage("a", 2), stage("b", 1)), SemaphoreSync(), block_ns=10, wait_ns=20, post_ns=30)
    assert trace.start_ns.tolist() == [10, 10, 40]  # b behind its wait-kernel, which saw a start at 10
    assert trace.end_ns.tolist() == [1_040, 1_040, 1_040 + 20 + 1_000]  # nobody awaits b: no post
    assert trace.wait_ns.tolist() == [0, 0, 1_000 + 20]
    waits = trace.waits
    assert (waits.block.tolist(), waits.semaphore.tolist()) == ([2], [0])
    assert (waits.start_ns.tolist(), waits.end_ns.tolist()) == ([40], [1_040])


def test_two_blocks_on_an_sm_slow_each_other_down_and_a_lone_one_runs_at_full_speed():
    trace = run(alone(stage("a", 5, block=HALF_SM)), StreamSync(), sharing=(1.0, 0.5))
    assert trace.end_ns.tolist() == [2_000, 1_000, 1_000, 1_000, 2_000]


def test_a_block_speeds_up_as_soon_as_its_neighbour_ends():
    one_sm = TOY.with_sm_count(1)
    trace = run(alone(stage("a", 2, block=HALF_SM)), StreamSync(), {"a": [1, 3]}, one_sm, sharing=(1.0, 0.5))
    assert trace.end_ns.tolist() == [2_000, 4_000]  # 1 of 3 units done by 2, the other 2 alone


def test_of_three_blocks_on_an_sm_the_eldest_runs_ahead_and_the_youngest_falls_as_far_behind():
    one_sm = TOY.with_sm_count(1)
    speeds = {"sharing": (1.0, 0.5, 0.4), "oldest_first_bias": (0.0, 0.0, 0.5)}
    trace = run(alone(stage("a", 3, block=THIRD_SM)), StreamSync(), {"a": [6, 4, 6]}, one_sm, **speeds)
    # 0.6, 0.4 and 0.2 per us up to 10 us; then the third has 4 left, and all of the SM.
    assert trace.end_ns.tolist() == [10_000, 10_000, 14_000]


def test_blocks_of_an_sm_draw_one_tile_after_the_other_where_blockidx_would_deal_them_out():
    pipeline = pair(stage("a", 3, 2, block=HALF_SM), stage("b", 1, block=HALF_SM))
    drawn = run(pipeline, SemaphoreSync(order=ColumnMajor()))
    for plan, costs in (
        (SemaphoreSync(), {}),
        (SemaphoreSync(order=ColumnMajor()), {"fetches_by_sm": False}),
    ):
        dealt = run(pipeline, plan, **costs)
        assert dealt.sm[dealt.stage == 0].tolist() == [0, 1, 2, 3, 0, 1]
    assert drawn.sm[drawn.stage == 0].tolist() == [0, 0, 2, 1, 1, 3]


def test_a_spinning_block_takes_no_share_of_its_sm():
    one_sm = TOY.with_sm_count(1)
    stages = stage("a", 1, block=HALF_SM), stage("b", 1, block=HALF_SM)
    trace = run(pair(*stages), SemaphoreSync(), device=one_sm, sharing=(1.0, 0.5))
    assert trace.issue_ns.tolist() == [0, 0]
    assert trace.end_ns.tolist() == [1_000, 2_000]


def test_waits_that_are_over_cost_a_block_on_a_shared_sm_no_time_not_even_by_rounding():
    pipeline = pair(stage("a", 7, block=HALF_SM), stage("b", 2, block=HALF_SM))
    times = {"a": 0.001, "b": 1}  # b's seven waits come in steps of 143 ns at a third of the speed
    ends = [
        run(pipeline, SemaphoreSync(policy), times, TOY.with_sm_count(1), sharing=(1.0, 0.333)).end_ns.max()
        for policy in (TileSync(), RowSync())
    ]
    assert ends[0] == ends[1]
