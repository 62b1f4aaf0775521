"""Figure 1 and its variants on 4 SMs, as whole schedules that can be checked by hand.

Two GEMMs of 3 tile rows x 2 tile columns, unit tile time, one block per SM, nothing else costs
time. A consumer tile works in two halves, each after its own wait for one producer tile.
Entries are (tile (x, y), SM, issue, end).
"""

import pytest
from toy_schedules import TOY, run, schedule, waves

from wavesim.errors import DeadlockError
from wavesim.plan.order import ColumnMajor, Reversed
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.trace.metrics import metrics_of
from wavesim.workloads.figure_one import toy

PRODUCER_IN_ROWS = [
    ((0, 0), 0, 0, 1),
    ((1, 0), 1, 0, 1),
    ((0, 1), 2, 0, 1),
    ((1, 1), 3, 0, 1),
    ((0, 2), 0, 1, 2),
    ((1, 2), 1, 1, 2),
]
PRODUCER_IN_COLUMNS = [
    ((0, 0), 0, 0, 1),
    ((0, 1), 1, 0, 1),
    ((0, 2), 2, 0, 1),
    ((1, 0), 3, 0, 1),
    ((1, 1), 0, 1, 2),
    ((1, 2), 1, 1, 2),
]
BOTH = [TileSync(), RowSync()]


def lost_race(blocks: int) -> SemaphoreSync:
    return SemaphoreSync(TileSync(), wait_kernel=False, head_start=blocks)


def test_stream_sync_takes_four_waves_and_keeps_the_sms_75_percent_busy():
    trace = run(toy(), StreamSync())
    assert schedule(trace, "gemm1") == PRODUCER_IN_ROWS
    assert schedule(trace, "gemm2") == [
        ((0, 0), 0, 2, 3),
        ((1, 0), 1, 2, 3),
        ((0, 1), 2, 2, 3),
        ((1, 1), 3, 2, 3),
        ((0, 2), 0, 3, 4),
        ((1, 2), 1, 3, 4),
    ]
    assert metrics_of(trace).waves == 4
    assert metrics_of(trace).busy_utilisation == 0.75


@pytest.mark.parametrize("policy", BOTH, ids=str)
def test_semaphores_take_three_waves_and_keep_the_sms_fully_busy(policy):
    trace = run(toy(), SemaphoreSync(policy))
    assert schedule(trace, "gemm1") == PRODUCER_IN_ROWS
    assert schedule(trace, "gemm2") == [
        ((0, 0), 2, 1, 2),
        ((1, 0), 3, 1, 2),
        ((0, 1), 0, 2, 3),
        ((1, 1), 1, 2, 3),
        ((0, 2), 2, 2, 3),
        ((1, 2), 3, 2, 3),
    ]
    assert metrics_of(trace).waves == 3
    assert metrics_of(trace).busy_utilisation == 1
    assert not trace.wait_ns.any()


@pytest.mark.parametrize("policy", BOTH, ids=str)
def test_a_consumer_in_reversed_order_takes_four_waves(policy):
    trace = run(toy(), SemaphoreSync(policy, orders={"gemm2": Reversed()}))
    assert schedule(trace, "gemm1") == PRODUCER_IN_ROWS
    assert schedule(trace, "gemm2") == [
        ((1, 2), 2, 1, 3),  # spins from 1 to 2
        ((0, 2), 3, 1, 3),
        ((1, 1), 0, 2, 3),
        ((0, 1), 1, 2, 3),
        ((1, 0), 0, 3, 4),
        ((0, 0), 1, 3, 4),
    ]
    assert trace.wait_ns.sum() == 2_000
    assert waves(trace) == 4
    assert metrics_of(trace).resident_utilisation > metrics_of(trace).busy_utilisation


def test_both_column_major_takes_three_and_a_half_waves_under_tile_sync():
    trace = run(toy(), SemaphoreSync(TileSync(), order=ColumnMajor()))
    assert schedule(trace, "gemm1") == PRODUCER_IN_COLUMNS
    assert schedule(trace, "gemm2") == [
        ((0, 0), 2, 1, 2),
        ((0, 1), 3, 1, 2.5),  # half, spins from 1.5 to 2 for gemm1 (1, 1), the other half
        ((0, 2), 0, 2, 3),
        ((1, 0), 1, 2, 3),
        ((1, 1), 2, 2, 3),
        ((1, 2), 3, 2.5, 3.5),
    ]
    assert waves(trace) == 3.5


def test_both_column_major_takes_four_waves_under_row_sync():
    trace = run(toy(), SemaphoreSync(RowSync(), order=ColumnMajor()))
    assert schedule(trace, "gemm1") == PRODUCER_IN_COLUMNS
    assert schedule(trace, "gemm2") == [
        ((0, 0), 2, 1, 2),
        ((0, 1), 3, 1, 3),  # spins from 1 to 2 for row 1
        ((0, 2), 0, 2, 3),
        ((1, 0), 1, 2, 3),
        ((1, 1), 2, 2, 3),
        ((1, 2), 0, 3, 4),
    ]
    assert waves(trace) == 4


def test_without_a_wait_kernel_nothing_changes_if_the_producer_wins_the_race():
    assert waves(run(toy(), lost_race(0))) == 3


@pytest.mark.parametrize("blocks", [1, 2])
def test_one_or_two_consumer_blocks_first_take_four_waves(blocks):
    assert waves(run(toy(), lost_race(blocks))) == 4


def test_three_consumer_blocks_first_take_five_waves_with_one_sm_left_to_the_producer():
    trace = run(toy(), lost_race(3))
    assert schedule(trace, "gemm1") == [
        ((0, 0), 3, 0, 1),
        ((1, 0), 3, 1, 2),
        ((0, 1), 3, 2, 3),
        ((1, 1), 0, 2.5, 3.5),
        ((0, 2), 1, 2.5, 3.5),
        ((1, 2), 3, 3, 4),
    ]
    assert schedule(trace, "gemm2") == [
        ((0, 0), 0, 0, 2.5),  # a half after gemm1 (0, 0) at 1, a half after gemm1 (1, 0) at 2
        ((1, 0), 1, 0, 2.5),
        ((0, 1), 2, 0, 4),  # a half after 3, a half after 3.5
        ((1, 1), 0, 3.5, 4.5),
        ((0, 2), 1, 3.5, 4.5),
        ((1, 2), 2, 4, 5),
    ]
    assert waves(trace) == 5


@pytest.mark.parametrize("blocks", [4, 5, 6])
def test_four_or_more_consumer_blocks_first_deadlock_and_the_error_says_all(blocks):
    with pytest.raises(DeadlockError) as caught:
        run(toy(), lost_race(blocks))
    error = caught.value
    assert [(w.stage, w.tile, w.sm, w.slot, w.semaphore, w.seen, w.awaited) for w in error.waiters] == [
        ("gemm2", (0, 0, 0), 0, 0, "gemm1 tile[0]", 0, 1),
        ("gemm2", (1, 0, 0), 1, 0, "gemm1 tile[0]", 0, 1),
        ("gemm2", (0, 1, 0), 2, 0, "gemm1 tile[2]", 0, 1),
        ("gemm2", (1, 1, 0), 3, 0, "gemm1 tile[2]", 0, 1),
    ]
    held = "because waiting blocks hold SM 0 slot 0, SM 1 slot 0, SM 2 slot 0, SM 3 slot 0"
    assert f"gemm1: 6 of its blocks, {held}" in error.starved
    message = str(error)
    assert "deadlock: 4 blocks wait for semaphores that will not be posted" in message
    assert "gemm2 block (0, 1, 0) on SM 2 slot 0 waits for gemm1 tile[2]: seen 0, awaited 1" in message
    assert "never issued: gemm1: 6 of its blocks" in message


def test_a_fifth_sm_ends_the_deadlock():
    assert waves(run(toy(), lost_race(4), device=TOY.with_sm_count(5))) > 0


def test_two_runs_of_one_case_are_equal_in_every_column():
    first, second = (run(toy(), SemaphoreSync(order=ColumnMajor()), block_ns=3, wait_ns=7) for _ in "ab")
    for column in ("stage", "x", "y", "sm", "slot", "issue_ns", "start_ns", "wait_ns", "end_ns"):
        assert (getattr(first, column) == getattr(second, column)).all()
