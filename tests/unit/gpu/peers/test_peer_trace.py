"""Stamps of two GPUs on one time axis: clocks aligned, SMs and devices told apart, kept in a file."""

import numpy as np
import pytest

from wavesim.model.device import load
from wavesim.trace.trace import Trace
from wavesim.view.perfetto import write_perfetto
from wavesim_gpu.peers.clock_offset import ClockOffset
from wavesim_gpu.peers.peer_trace import SAME_CLOCK, RankRecords, joined
from wavesim_gpu.record.layout import RECORD

ABOUT = {"workload": "toy", "plan": "stores", "plan_label": "stores, 2 ranks"}
AHEAD = 10**12


def tiles(start, sm):
    """Two tiles one after the other on an SM, 1,000 ns each; the second waits for 100."""
    found = np.zeros(2, RECORD)
    found["start_ns"], found["end_ns"] = (start, start + 1000), (start + 1000, start + 2000)
    found["x"], found["wait_ns"], found["sm"], found["threads"] = (0, 1), (0, 100), sm, 384
    return found


@pytest.fixture
def parts():
    return [
        RankRecords("gemm@0", 0, tiles(5_000, 3)),
        RankRecords("gemm.sum@0", 0, tiles(5_500, 3)),
        RankRecords("gemm@1", 1, tiles(AHEAD + 5_200, 3)),
    ]


def test_times_of_the_other_gpu_are_on_the_first_one_s_clock_and_its_sms_come_after(parts, tmp_path):
    trace = joined(parts, [SAME_CLOCK, ClockOffset(AHEAD, 700)], load("h200"), ABOUT)
    assert trace.start_ns.tolist() == [0, 1000, 500, 1500, 200, 1200]
    assert trace.device.tolist() == [0, 0, 0, 0, 1, 1]
    assert trace.sm.tolist() == [3, 3, 3, 3, 135, 135]
    assert trace.slot.tolist() == [0, 0, 1, 1, 0, 0]
    assert (trace.header.device_count, trace.header.sm_count) == (2, 264)
    assert trace.header.parameters["clock_error_ns"] == 700
    assert "within 700 ns" in trace.header.note
    again = Trace.load(trace.save(tmp_path / "two.npz"))
    np.testing.assert_array_equal(again.device, trace.device)
    assert [info.name for info in again.header.stages] == ["gemm@0", "gemm.sum@0", "gemm@1"]
    text = write_perfetto(tmp_path / "two.json", again).read_text()
    assert "GPU 0 SM 3" in text
    assert "GPU 1 SM 3" in text


def test_ranks_on_one_gpu_keep_its_clock_and_the_trace_says_that_there_was_no_link(parts):
    shared = [RankRecords(part.name, 0, tiles(5_000, number)) for number, part in enumerate(parts)]
    trace = joined(shared, [SAME_CLOCK], load("h200"), ABOUT)
    assert trace.makespan_ns == 2000
    assert (trace.header.device_count, set(trace.device.tolist())) == (1, {0})
    assert "no link" in trace.header.note
