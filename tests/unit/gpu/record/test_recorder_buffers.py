"""Buffers as a GPU would leave them become ordinary traces; damaged ones are refused with one clear line."""

import json

import numpy as np
import pytest
from trace_invariants import violations

from wavesim.costs.calibration import calibrate
from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.predict.prediction import replay
from wavesim.sim.simulation import simulate
from wavesim.trace.difference import explain_difference
from wavesim.trace.header import StageInfo
from wavesim.trace.metrics import metrics_of
from wavesim.trace.trace import Trace
from wavesim.view.comparison import predicted_and_measured
from wavesim.view.figure import figure_html
from wavesim.view.perfetto import write_perfetto
from wavesim.view.timeline_figure import timeline
from wavesim.workloads.mlps import gpt3_mlp
from wavesim_gpu.record import Recording, records_of, trace_of
from wavesim_gpu.record.layout import HEADER, MAX_CAPACITY, RECORD, WORD, recording_bytes, recording_header

PIPELINE, DEVICE = gpt3_mlp(512, (128, 256)), load("h200")
TILES_NS = {"gemm1": 150_016, "gemm2": 84_992}
COSTS = CostModel(TILES_NS)
PLANS = (StreamSync(), SemaphoreSync(RowSync()))
EPOCH_NS = 1_790_000_000_000_000_000  # %globaltimer is near the Unix time


def recorded(trace: Trace, capacity: int | None = None) -> np.ndarray:
    """The words that a GPU would have written had it run as simulated, at 1.5 GHz."""
    capacity = capacity or len(trace)
    words = np.zeros(recording_bytes(capacity) // WORD, np.int32)
    words[: HEADER.itemsize // WORD] = recording_header(capacity)
    words[2] = len(trace)
    records = words[HEADER.itemsize // WORD :].view(RECORD)[: len(trace)]
    for name, values in {
        "start_ns": trace.start_ns + EPOCH_NS,
        "end_ns": trace.end_ns + EPOCH_NS,
        "start_cycles": trace.start_ns * 3 // 2 + 77,
        "end_cycles": trace.end_ns * 3 // 2 + 77,
        "stage": trace.stage,
        "x": trace.x,
        "y": trace.y,
        "z": trace.z,
        "wait_ns": trace.wait_ns,
        "wait_cycles": trace.wait_ns * 3 // 2,
        "sm": trace.sm,
        "threads": np.full(len(trace), 256),
    }.items():
        records[name] = values
    return words


def recording_of(trace: Trace, stages=PIPELINE) -> Recording:
    """A recording over a buffer in the host's memory, filled as if by the run."""
    words = recorded(trace)
    recording = Recording(stages, capacity=len(trace), buffer=np.zeros_like(words))
    recording.buffer[:] = words
    return recording


@pytest.fixture(scope="module", params=PLANS, ids=lambda plan: plan.name)
def plan(request):
    return request.param


@pytest.fixture(scope="module")
def simulated(plan) -> Trace:
    return simulate(PIPELINE, plan, DEVICE, COSTS)


@pytest.fixture(scope="module")
def measured(simulated, plan) -> Trace:
    return recording_of(simulated).trace(plan=plan, device="h200")


def test_rows_are_those_of_the_run(simulated, measured):
    for name in ("stage", "x", "y", "z", "sm", "wait_ns"):
        assert (getattr(measured, name) == getattr(simulated, name)).all(), name
    first = simulated.start_ns.min()
    assert (measured.start_ns == simulated.start_ns - first).all()
    assert (measured.end_ns == simulated.end_ns - first).all()
    assert measured.header.clock_mhz == pytest.approx(1500, rel=1e-3)


def test_it_breaks_no_invariant_and_survives_a_file(measured, tmp_path):
    assert violations(measured, PIPELINE) == []
    loaded = Trace.load(measured.save(tmp_path / "recorded.npz"))
    assert loaded.header.dependencies == measured.header.dependencies
    assert loaded.header.device["name"] == "h200"
    assert (loaded.end_ns == measured.end_ns).all()


def test_metrics_and_differences_are_those_of_the_run(simulated, measured):
    assert metrics_of(measured).busy_utilisation == pytest.approx(
        metrics_of(simulated).busy_utilisation, abs=0.01
    )
    difference = explain_difference(simulated, measured)
    assert (
        abs(difference.total_ns) <= simulated.start_ns.min()
    )  # what the plan is charged for before it starts
    assert sum(difference.reasons.values()) == pytest.approx(difference.total_ns, abs=2)


def test_every_view_draws_it(simulated, measured):
    assert timeline([simulated, measured]).data
    assert predicted_and_measured([(simulated, measured)]).data


def test_it_is_exported_as_any_trace(simulated, measured, tmp_path):
    path = tmp_path / "both.json"
    write_perfetto(path, simulated, measured)
    events = json.loads(path.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) >= 2 * len(measured)
    page = figure_html(timeline([measured]))
    assert "plotly-graph-div" in page
    assert "gemm2" in page


def test_calibration_and_replay_take_a_stream_sync_recording_and_no_other(measured, plan):
    if plan.name == "stream":
        assert calibrate(measured).tile_ns == pytest.approx(TILES_NS, rel=0.01)
        assert replay(PIPELINE, measured, DEVICE).makespan_ns == pytest.approx(measured.makespan_ns, rel=0.01)
    else:
        with pytest.raises(RecordingError, match="stream-sync"):
            calibrate(measured)


def test_names_alone_do_and_the_grid_is_read_off(simulated):
    trace = recording_of(simulated, ["first", "second"]).trace(device=DEVICE, workload="mine")
    assert [info.grid for info in trace.header.stages] == [(24, 4, 1), (48, 4, 1)]
    assert [(info.blocks_per_sm, info.threads) for info in trace.header.stages] == [(1, 256), (1, 256)]
    assert (trace.header.plan, trace.header.workload) == ("recorded", "mine")
    assert violations(trace) == []


def refused(words: np.ndarray, match: str, stages=("a", "b"), device=DEVICE) -> None:
    with pytest.raises(RecordingError, match=match) as caught:
        trace_of(records_of(words), stages, device)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def whole() -> np.ndarray:
    return recorded(simulate(PIPELINE, StreamSync(), DEVICE, COSTS))


@pytest.fixture
def words(whole) -> np.ndarray:
    return whole.copy()


def records(words: np.ndarray) -> np.ndarray:
    return words[HEADER.itemsize // WORD :].view(RECORD)


def test_tiles_over_the_capacity_are_counted_and_reported(words):
    words[2] += 5
    refused(
        words, "293 tiles began, there was room for 288; 5 were counted and not written. Use capacity=293"
    )


def test_an_empty_buffer_and_one_without_a_header_are_refused(words):
    refused(np.zeros(8, np.int32), "32 bytes")
    refused(np.zeros_like(words), "no header of a recording")
    words[2] = 0
    refused(words, "no tile began")


@pytest.mark.parametrize("capacity", [0, -1, MAX_CAPACITY + 1])
def test_a_header_with_an_impossible_capacity_is_refused(words, capacity):
    words[1] = capacity
    refused(words, "no header of a recording")


def test_a_buffer_cut_short_is_refused(words):
    refused(words[:-16], "cut short")


def test_a_tile_that_never_ended_is_named(words):
    records(words)["end_ns"][7] = 0
    refused(words, "1 of 288 tiles began and never ended, the first in record 7")


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("end_ns", 5, "'end_ns' of record 3 is 5"),
        ("end_cycles", 5, "'end_cycles' of record 3"),
        ("sm", 5000, "'sm' of record 3 is 5000"),
        ("sm", 140, "SM 140; h200 has 132"),
        ("x", -1, "'x' of record 3 is -1"),
        ("y", -(2**31), "'y' of record 3"),
        ("stage", 2, "record 3 is of stage 2; stages are 0 to 1"),
        ("stage", -1, "record 3 is of stage -1"),
        ("x", 2**31 - 1, "tiles of stage a"),
    ],
)
def test_a_value_that_no_finished_tile_has_is_named(words, field, value, match):
    records(words)[field][3] = value
    refused(words, match)


def test_a_tile_recorded_twice_is_named(words):
    records(words)["x"][3] = records(words)["x"][4]
    refused(words, r"tile \(\d+, 0, 0\) of stage a is there 2 times. reset\(\) before every run")


def test_a_stage_without_tiles_and_a_missing_tile_are_named(words):
    refused(words, "stage c .number 2. has no tiles", stages=("a", "b", "c"))
    grids = (StageInfo("a", (24, 5, 1), 1, 256), StageInfo("b", (48, 4, 1), 1, 256))
    refused(words, "96 of the 120 tiles of stage a", stages=grids)
    grids = (StageInfo("a", (23, 4, 1), 1, 256), StageInfo("b", (48, 4, 1), 1, 256))
    refused(words, r"tile \(23, 0, 0\) of stage a is outside its grid", stages=grids)


def test_any_bytes_at_all_become_a_trace_or_one_clear_line(whole):
    for seed in range(200):
        words, generator = whole.copy(), np.random.default_rng(seed)
        raw = words.view(np.uint8)
        places = generator.integers(0 if seed % 2 else HEADER.itemsize, raw.size, generator.integers(1, 20))
        raw[places] = generator.integers(0, 256, places.size)
        told = ""
        try:
            trace = trace_of(records_of(words), ("a", "b"), DEVICE)
        except RecordingError as error:
            told = str(error)
        assert told.startswith("recording: ") or len(trace) == 288, seed
        assert "\n" not in told


def test_a_buffer_of_another_kind_or_size_is_refused():
    with pytest.raises(DescriptionError, match="float32"):
        Recording(["a"], capacity=4, buffer=np.zeros(80, np.float32))
    with pytest.raises(DescriptionError, match=r"must have \(80,\) or more"):
        Recording(["a"], capacity=4, buffer=np.zeros(79, np.int32))
    with pytest.raises(DescriptionError, match="capacity is 0"):
        Recording(["a"], capacity=0, buffer=np.zeros(80, np.int32))
    with pytest.raises(DescriptionError, match="contiguous"):
        Recording(["a"], capacity=4, buffer=np.zeros(160, np.int32)[::2])
    with pytest.raises(DescriptionError, match="library is 'jax'"):
        Recording(["a"], capacity=4, library="jax")


def test_reset_empties_it():
    trace = simulate(PIPELINE, StreamSync(), DEVICE, COSTS)
    recording = recording_of(trace)
    assert len(recording.records()) == len(trace)
    recording.reset()
    with pytest.raises(RecordingError, match="no tile began"):
        recording.records()


def test_the_plans_maps_are_in_the_header(simulated, plan, measured):
    assert measured.header.dependencies == simulated.header.dependencies
    assert measured.header.orders == simulated.header.orders
