"""WaveRNN's five tests simulated: as added up where each block has an SM, longer where two share one."""

import pytest

from wavesim.labs.wavernn import (
    OWN_CUT,
    PUBLISHED_CUT,
    WAYS,
    StepCosts,
    estimated_costs,
    first_cycles,
    five_tests,
    simulated_ns,
    trace_of,
)
from wavesim.model.device import load

H200, T4 = load("h200"), load("t4")
PARTS = StepCosts(1000, 600, 900, 400, 2000, 1600, 300, 200, 1800, 1200, throughput_share=0.5)


@pytest.mark.parametrize("way", WAYS)
def test_with_an_sm_for_each_block_the_simulated_time_is_the_sum_of_cycles(way):
    assert simulated_ns(way, H200, PARTS, OWN_CUT) == PARTS.total_ns(way, 32)


def test_on_40_sms_a_cycle_waits_for_the_two_sms_that_have_two_blocks_of_r():
    """42 blocks of R on 40 SMs: two pairs, each at 1 / 1.5 of its speed."""
    trace = trace_of(first_cycles("both", 1), "both", T4, PARTS, PUBLISHED_CUT)
    assert trace.makespan_ns == pytest.approx(900 * 1.5, abs=2)
    assert simulated_ns("both", T4, PARTS, PUBLISHED_CUT, steps=2) > PARTS.total_ns("both", 2)


def test_between_two_cycles_lies_the_barrier():
    trace = trace_of(first_cycles("both", 2), "both", H200, PARTS)
    assert trace.makespan_ns == 900 + 600 + 900


@pytest.mark.parametrize("dtype", ["int8", "fp16"])
def test_staying_and_pipelining_together_is_the_fastest_and_staying_alone_the_slowest(dtype):
    """A barrier for each product of each batch costs more than a launch for all batches."""
    found = five_tests(H200, dtype)
    assert min(found, key=found.get) == "both"
    assert max(found, key=found.get) == "persistent"
    assert found["library"] == estimated_costs(H200, dtype).total_ns("library", 32)
