"""The SM clock by how many SMs compute: what it does to a schedule, and its share taken out again."""

from dataclasses import replace

import numpy as np
import pytest

from wavesim.costs.calibration import calibrate
from wavesim.costs.clock import busy_share, clock_factors
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.plan.plan import StreamSync
from wavesim.sim.simulation import simulate
from wavesim.workloads.mlps import gpt3_mlp

H200 = load("h200")
COSTS = CostModel({"gemm1": 200_000, "gemm2": 100_000})


def stream(tokens: int, gain: float = 0.0, tile: tuple[int, int] = (128, 256)):
    costs = replace(COSTS, clock_gain=gain, sharing=(1.0, 0.57) if tile == (128, 128) else (1.0,))
    return simulate(gpt3_mlp(tokens, tile), StreamSync(), H200, costs)


def test_a_full_wave_keeps_all_sms_busy_and_a_tail_of_12_blocks_keeps_12():
    trace = stream(768)  # 144 and 288 blocks on 132 SMs: waves of 132, 12; 132, 132, 24
    found = busy_share(trace)
    of_gemm1 = found[trace.stage == 0]
    assert of_gemm1[:132] == pytest.approx(1.0)
    assert of_gemm1[132:] == pytest.approx(12 / 132)


def test_an_sm_with_two_blocks_is_as_busy_as_one_with_a_single_block():
    trace = stream(512, tile=(128, 128))  # 192 blocks of the first GEMM: 60 SMs with two, 72 with one
    alone = np.isin(trace.sm, np.flatnonzero(np.bincount(trace.sm[trace.stage == 0]) == 1))
    assert busy_share(trace)[alone & (trace.stage == 0)] == pytest.approx(1.0)


def test_a_spinning_block_does_not_count():
    trace = stream(768)
    spun = replace(trace, wait_ns=np.where(trace.stage == 0, (trace.end_ns - trace.start_ns) // 2, 0))
    assert busy_share(spun)[:12] == pytest.approx(1.0)
    first = np.array(trace.start_ns == 0)
    idle = replace(spun, wait_ns=np.where(first, trace.end_ns - trace.start_ns, 0))
    assert busy_share(idle)[132:144] == pytest.approx(12 / 132)


def test_few_blocks_run_at_a_higher_clock_and_a_full_device_at_the_given_one():
    trace = stream(768, gain=0.05)
    took = (trace.end_ns - trace.start_ns)[trace.stage == 0]
    assert took[:132] == pytest.approx(200_000, abs=2)
    assert took[132:] == pytest.approx(200_000 / (1 + 0.05 * 120 / 132), abs=40)
    assert clock_factors(trace, 0.0).tolist() == [1.0] * len(trace)


def test_calibration_gives_back_the_tile_times_of_a_busy_device():
    found = calibrate(stream(768, gain=0.05), clock_gain=0.05)
    assert found.clock_gain == 0.05
    assert found.tile_ns["gemm1"] == pytest.approx(200_000, rel=0.001)
    assert calibrate(stream(768, gain=0.05)).tile_ns["gemm1"] < 199_500


def test_a_gain_that_is_no_share_is_refused():
    with pytest.raises(DescriptionError, match=r"clock_gain is 1\.5; it must be 0 to 1"):
        replace(COSTS, clock_gain=1.5)


def test_only_kernels_of_which_cycles_were_recorded_have_one():
    assert [costs_of("h200").gain(1), costs_of("h200").gain(2), costs_of("v100").gain(1)] == [
        0.05,
        0.0,
        0.0,
    ]
