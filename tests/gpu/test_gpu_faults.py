"""`mlp` under co-tenants, threads, replays and limits that are too short: right, or NaN and reported."""

import time

import pytest

from wavesim_gpu.layers.calls import FailedCallsError, check, process_log

pytestmark = pytest.mark.gpu


@pytest.fixture
def scenarios(runner):
    from faults import scenarios

    return scenarios


def new_judge():
    from faults.judged_calls import Judge

    return Judge(64)


@pytest.mark.parametrize("name", ["injected", "threads"])
def test_calls_that_are_held_up_longer_than_they_may_wait_give_nan_and_are_named(scenarios, name):
    found = scenarios.SCENARIOS[name](2000)
    assert found["faults"] == 0, found
    assert found["nan_reported"] > 0
    assert found["right"] + found["nan_reported"] == 2000


def test_replays_of_graphs_at_once_are_right_or_nan_and_counted(scenarios):
    found = scenarios.replays(2000)
    assert found["faults"] == 0, found
    assert sum(graph["reported"] for graph in found["graphs"]) > 0


def test_the_failure_names_the_line_and_the_next_call_is_right(scenarios):
    judge = new_judge()
    scenarios.Cotenant().hold_back(0.01)  # otherwise the producer may have ended when the consumer begins
    judge.call(0, limit_s=2e-6)
    number = process_log().latest
    with pytest.raises(FailedCallsError) as caught:
        check()
    assert [failure.call.number for failure in caught.value.failures] == [number]
    assert "made at " in str(caught.value)
    assert "judged_calls.py:" in str(caught.value)
    assert "time limit of 2e-06 s" in str(caught.value)
    assert "gemm1" in str(caught.value)
    judge.note(caught.value)
    check()
    for index in range(1, 64):
        judge.call(index)
    found = judge.counts()
    assert (found["right"], found["nan_reported"]) == (63, 1), found


def test_a_co_tenant_that_keeps_the_producer_out_delays_calls_and_makes_none_fail(scenarios):
    """What waits is issued after all blocks of what it waits for: they have had room by then."""
    judge = new_judge()
    scenarios.Cotenant().block_producers(0.1)
    time.sleep(0.01)  # until its blocks are there
    for index in range(64):
        judge.call(index, limit_s=0.02)
    found = judge.counts()
    assert (found["right"], found["nan_reported"]) == (64, 0), found


def test_a_co_tenant_that_holds_sms_for_seconds_costs_time_and_nothing_else(scenarios):
    judge = new_judge()
    began = time.monotonic()
    scenarios.Cotenant().block_producers(2.5)
    for index in range(64):
        judge.call(index)
    found = judge.counts()
    assert time.monotonic() - began > 2.0
    assert found["right"] == 64, found
