"""Capacity, every tile once, no read before the post, work conserved: on random pipelines; each breach."""

from dataclasses import replace

import numpy as np
import pytest
from random_pipelines import cases, kernel_plan_cases
from toy_schedules import HALF_SM, TOY, pair, run, stage
from trace_invariants import violations

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DeadlockError
from wavesim.model.kernel import MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.plan.stream_k import StreamK
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.figure_one import toy


@pytest.mark.slow
def test_no_simulated_trace_of_any_pipeline_breaks_an_invariant():
    for pipeline, plan, device, costs in cases(0, 1_000):
        # After a lost race the rest of a consumer is launched later: SMs may then be empty in between.
        if plan.launch.head_start and costs.launch_ns:
            continue
        try:
            trace = simulate(pipeline, plan, device, costs)
        except DeadlockError:
            continue
        assert violations(trace, pipeline) == []


@pytest.mark.slow
def test_nor_does_a_trace_of_dependent_launch_stream_k_or_persistent_kernels():
    for case in kernel_plan_cases(0, 700):
        assert violations(simulate(*case), case[0]) == []


@pytest.fixture
def trace() -> Trace:
    return run(toy(), SemaphoreSync(TileSync(), wait_kernel=False, head_start=1))


def tampered(trace: Trace, column: str, row: int, value: int) -> Trace:
    changed = getattr(trace, column).copy()
    changed[row] = value
    return replace(trace, **{column: changed})


def said(trace: Trace, words: str) -> bool:
    return any(words in violation for violation in violations(trace, toy()))


def test_the_untouched_trace_is_clean(trace):
    assert violations(trace, toy()) == []


def test_a_block_that_is_issued_into_a_held_slot_is_seen(trace):
    row = next(i for i in range(len(trace)) if trace.issue_ns[i] == 1_000)
    early = tampered(trace, "issue_ns", row, 500)
    assert said(early, f"is issued to SM {trace.sm[row]} slot 0 at 500 ns, while gemm1 block")


def test_more_residents_than_fit_are_seen(trace):
    moved = tampered(tampered(trace, "sm", 1, int(trace.sm[0])), "slot", 1, 1)
    assert said(moved, "holds 2 blocks of gemm1; 1 fit")


def test_a_tile_computed_twice_and_one_left_out_are_seen(trace):
    twice = tampered(trace, "x", 0, 1)
    assert said(twice, "gemm1 block (0, 0, 0): 0 times instead of once")
    assert said(twice, "gemm1 block (1, 0, 0): 2 times instead of once")
    assert said(tampered(trace, "y", 0, 9), "gemm1 block (0, 9, 0): outside the grid")


def test_times_out_of_order_and_impossible_waits_are_seen(trace):
    assert said(tampered(trace, "start_ns", 0, 5_000), "gemm1 block (0, 0, 0): end_ns is before start_ns")
    assert said(tampered(trace, "wait_ns", 0, 5_000), "gemm1 block (0, 0, 0): waits 5000 ns of 1000 ns")


def test_a_block_that_computes_too_little_is_seen(trace):
    assert said(
        tampered(trace, "wait_ns", 0, 300), "gemm1 block (0, 0, 0) computes 700 ns; its work is 1000 ns"
    )


def test_a_pipeline_fills_up_anew_once_a_wait_at_most():
    pipeline = pair(stage("a", 2), stage("b", 1))
    loops = {"b": MainLoop(4, "block-barrier", False, 1, False)}
    costs = CostModel({"a": 1_000, "b": 1_000}, ready_poll_ns=10, refill_ns=50, main_loops=loops)
    trace = simulate(pipeline, SemaphoreSync(TileSync(), wait_kernel=False), TOY, costs)
    assert violations(trace, pipeline) == []
    row = int(np.flatnonzero(trace.rows_of("b"))[0])
    assert trace.end_ns[row] - trace.start_ns[row] - trace.wait_ns[row] == 1_050
    late = tampered(trace, "end_ns", row, int(trace.end_ns[row]) + 51)
    assert violations(late, pipeline) == ["b block (0, 0, 0) computes 1101 ns; its work is 1000 ns"]


def test_a_wait_that_ends_before_the_post_is_seen(trace):
    early = replace(trace, waits=replace(trace.waits, end_ns=trace.waits.end_ns - 400))
    assert said(
        early, "gemm2 block (0, 0, 0) stops waiting for gemm1[0] at 600 ns, before its last post at 1000 ns"
    )


def test_a_dropped_wait_is_seen_from_the_dependency_alone():
    wavefront = run(pair(stage("a", 2), stage("b", 1)), SemaphoreSync(TileSync()), {"a": [1, 3], "b": 1})
    row = int(np.flatnonzero(wavefront.rows_of("b"))[0])
    # The second half of b's tile must follow a's tile (1, 0), which ends at 3: 3.4 is too soon.
    early = replace(tampered(tampered(wavefront, "end_ns", row, 3_400), "wait_ns", row, 2_400), waits=None)
    found = violations(early, pair(stage("a", 2), stage("b", 1)))
    words = "b block (0, 0, 0) ends at 3400 ns, too soon after a tile (1, 0), "
    assert found == [words + "which it reads and which ends at 3000 ns"]


def test_an_sm_left_empty_while_blocks_wait_for_issue_is_seen():
    crowded = run(pair(stage("a", 8), stage("b", 1)), StreamSync())
    late = replace(crowded, **{c: getattr(crowded, c).copy() for c in ("issue_ns", "start_ns", "end_ns")})
    for column in (late.issue_ns, late.start_ns, late.end_ns):
        column[7:] += 500
    assert violations(late) == ["SM 3 is empty from 1000 to 1500 ns while a has blocks to issue"]


def test_measured_traces_may_be_off_by_a_clock_step(trace):
    header = replace(trace.header, source="measured", timer_step_ns=32, costs={})
    row = next(i for i in range(len(trace)) if trace.issue_ns[i] == 1_000)
    for early, is_clean in ((968, True), (960, False)):
        shifted = tampered(tampered(trace, "issue_ns", row, early), "start_ns", row, early)
        assert (violations(replace(shifted, header=header), toy()) == []) is is_clean


def test_a_fork_of_half_sm_blocks_is_checked_per_consumer():
    pipeline = pair(stage("a", 4, block=HALF_SM), stage("b", 4, block=HALF_SM))
    assert violations(run(pipeline, SemaphoreSync(), sharing=(1.0, 0.5)), pipeline) == []


def test_an_iteration_left_out_or_computed_twice_is_seen():
    trace = run(toy(), Plan(StreamK(waves=1)))
    row = int(np.flatnonzero(trace.z == 1)[0])
    assert said(tampered(trace, "k_first", row, 40), "block (0, 2, 1): iterations 40 to 96 after 48")
    assert said(tampered(trace, "k_upto", row, 90), "gemm1 tile (0, 2): 90 of 96 iterations are computed")


def test_partial_sums_that_nobody_adds_up_are_seen():
    split = run(pair(stage("a", 1, slices=2), stage("b", 1)), StreamSync(), partial_ns=100, fixup_ns=50)
    assert split.end_ns.tolist()[:2] == [1_100, 1_150]
    assert violations(split) == []
    said = "a tile (0, 0): its parts spend [100, 0] ns on sums"
    assert violations(tampered(split, "end_ns", 1, 1_000)) == [said]
    cut = run(Pipeline("three", [stage("a", 3)]), Plan(StreamK()), partial_ns=100, fixup_ns=50)
    assert violations(cut) == []
    (row,) = np.flatnonzero((cut.x == 0) & (cut.z == 0))  # three quarters of a tile, and the other's sums
    (said,) = violations(tampered(cut, "end_ns", row, 750))
    assert said.startswith("a tile (0, 0): its parts spend")


@pytest.mark.parametrize("share", [0.1234567, 0.7654328])
def test_a_block_that_prefetched_a_share_of_long_work_reads_right_after_the_post(share):
    """The share of 10 ms is kept in millionths, which is nanoseconds off."""
    pipeline = pair(stage("a", 1), stage("b", 1))
    costs = CostModel({"a": 12_345_678, "b": 10_000_000})
    trace = simulate(pipeline, SemaphoreSync(TileSync(), prefetch=share), TOY, costs)
    assert trace.wait_ns.max() > 0
    assert violations(trace, pipeline) == []
    reader = int(np.flatnonzero(trace.rows_of("b"))[0])
    early = tampered(trace, "end_ns", reader, int(trace.end_ns[reader]) - 10)
    assert any("too soon after a tile" in words for words in violations(early, pipeline))
