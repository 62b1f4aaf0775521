"""Calibration gives back the costs a trace was made with, from the stream-sync run alone."""

import pytest

from wavesim.errors import RecordingError
from wavesim.model.device import load
from wavesim.model.plan import SemaphoreSync, StreamSync
from wavesim.model.policy import RowSync
from wavesim.sim.calibration import calibrate
from wavesim.sim.cost import CostModel
from wavesim.sim.simulation import simulate
from wavesim.workloads.gpt3 import gpt3_mlp


def test_one_block_per_sm_gives_back_tile_times_and_kernel_boundary():
    costs = CostModel({"gemm1": 151_000, "gemm2": 80_500}, boundary_ns=1_700)
    found = calibrate(simulate(gpt3_mlp(1024), StreamSync(), load("h200"), costs))
    assert found.tile_ns == {"gemm1": 151_000, "gemm2": 80_500}
    assert (found.boundary_ns, found.sharing) == (1_700, (1.0,))


@pytest.mark.parametrize("speed", [0.55, 0.7, 0.9])
def test_two_blocks_per_sm_give_back_the_speed_on_a_shared_sm(speed: float):
    costs = CostModel({"gemm1": 100_000, "gemm2": 52_000}, sharing=(1.0, speed))
    pipeline = gpt3_mlp(1024, (128, 128))
    found = calibrate(simulate(pipeline, StreamSync(), load("h200"), costs))
    assert found.sharing == pytest.approx((1.0, speed), abs=0.002)
    assert found.tile_ns["gemm1"] == pytest.approx(100_000, rel=0.002)


def test_an_overlapped_run_is_refused_because_it_is_what_is_to_be_predicted():
    costs = CostModel({"gemm1": 151_000, "gemm2": 80_500})
    trace = simulate(gpt3_mlp(512), SemaphoreSync(RowSync()), load("h200"), costs)
    with pytest.raises(RecordingError, match="plan 'row'; calibrate on a stream-sync trace"):
        calibrate(trace)
