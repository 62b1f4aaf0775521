"""Traces go to a file and come back the same; what is not a whole trace is refused with file and field."""

import contextlib
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_schedules import run

from wavesim.errors import RecordingError
from wavesim.plan.order import ColumnMajor
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.trace import trace_file
from wavesim.trace.header import COSTS
from wavesim.trace.trace import COLUMNS, Trace
from wavesim.workloads.figure_one import toy


@pytest.fixture
def trace() -> Trace:
    return run(toy(), SemaphoreSync(TileSync(), order=ColumnMajor()))


@pytest.fixture
def path(trace, tmp_path) -> Path:
    return trace.save(tmp_path / "case.npz")


def rewritten(path: Path, **changes) -> Path:
    """The file with arrays put in, or left out where the value is None."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays = {name: array for name, array in (arrays | changes).items() if array is not None}
    np.savez_compressed(path, **arrays)
    return path


def with_header(path: Path, **changes) -> Path:
    with np.load(path) as archive:
        head = json.loads(archive["header"].tobytes())
    head = {key: value for key, value in (head | changes).items() if value is not ...}
    return rewritten(path, header=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8))


def refusal(path: Path) -> str:
    with pytest.raises(RecordingError) as caught:
        Trace.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


# --- there and back ---


def test_a_trace_comes_back_from_its_file_with_header_waits_and_events(trace, path):
    loaded = Trace.load(path)
    assert loaded.header == replace(trace.header, parameters=dict(trace.header.parameters))
    assert loaded.events == trace.events
    assert trace.events
    for name in COLUMNS:
        assert (getattr(loaded, name) == getattr(trace, name)).all(), name
    for name in ("block", "dependency", "semaphore", "start_ns", "end_ns"):
        assert getattr(loaded.waits, name).tolist() == getattr(trace.waits, name).tolist()
    assert len(loaded.waits.block) == 1


def test_cycles_and_measured_fields_come_back_too(trace, tmp_path):
    header = replace(
        trace.header,
        source="measured",
        timer_step_ns=32,
        rounds_ns=(4_010, 3_990, 4_000),
        clock_mhz=1_410.5,
        power_w=611.0,
    )
    measured = replace(
        trace, header=header, cycles=trace.end_ns * 2, wait_cycles=trace.wait_ns * 2, waits=None
    )
    loaded = Trace.load(measured.save(tmp_path / "measured.npz"))
    assert loaded.header == header
    assert loaded.time_ns == 4_000
    assert loaded.makespan_ns == 3_500
    assert loaded.cycles.tolist() == (trace.end_ns * 2).tolist()
    assert loaded.wait_cycles.tolist() == (trace.wait_ns * 2).tolist()
    assert loaded.waits is None


def test_times_beyond_32_bits_survive(trace, tmp_path):
    late = replace(trace, issue_ns=trace.issue_ns, end_ns=trace.end_ns + 2**40)
    assert Trace.load(late.save(tmp_path / "late.npz")).end_ns.tolist() == late.end_ns.tolist()


def test_costs_in_the_header_of_an_older_writer_are_read_by_their_names_of_today(trace, path):
    old = {before: trace.header.costs.get(now) for before, now in COSTS.items()}
    rest = {name: value for name, value in trace.header.costs.items() if name not in COSTS.values()}
    costs = Trace.load(with_header(path, costs={**rest, **old})).header.costs
    assert dict(costs) == Trace.load(trace.save(path)).header.costs
    assert set(COSTS.values()) <= set(costs)
    assert not set(COSTS) & set(costs)


def test_unknown_header_fields_of_a_newer_writer_are_left_out(trace, path):
    stages = [
        {"name": s.name, "grid": s.grid, "blocks_per_sm": 1, "threads": 1024, "colour": "red"}
        for s in trace.header.stages
    ]
    loaded = Trace.load(with_header(path, weather="fine", stages=stages))
    assert [stage.name for stage in loaded.header.stages] == ["gemm1", "gemm2"]


def test_a_trace_shows_itself_in_one_line_whatever_its_names_hold(trace, path):
    loaded = Trace.load(with_header(path, workload="a\x1b[31m\nb"))
    assert repr(loaded).isprintable()
    assert "a?[31m?b" in repr(loaded)


def test_columns_of_unequal_length_are_no_trace(trace):
    with pytest.raises(RecordingError, match=r"column end_ns has shape \(3,\); stage has \(12,\)"):
        replace(trace, end_ns=trace.end_ns[:3])


def test_asking_for_an_unknown_stage_lists_the_known_ones(trace):
    with pytest.raises(KeyError, match=r"it has \['gemm1', 'gemm2'\]"):
        trace.rows_of("gemm3")


# --- files from outside ---


def test_a_missing_file_is_named(tmp_path):
    assert "cannot be read: No such file" in refusal(tmp_path / "nowhere.npz")


def test_a_truncated_file_is_refused(path):
    path.write_bytes(path.read_bytes()[:-200])
    assert "not a trace, or truncated" in refusal(path)


def test_foreign_files_are_refused(tmp_path):
    text = tmp_path / "notes.npz"
    text.write_text("not a trace at all")
    assert "not a trace, or truncated" in refusal(text)
    other = tmp_path / "other.npz"
    np.savez(other, a=np.arange(3))
    assert "field 'header' is missing" in refusal(other)
    np.savez(other, header=np.frombuffer(b'{"format": "something"}', dtype=np.uint8))
    assert "field 'header.format' is not 'wavesim-trace'" in refusal(other)
    assert "not a regular file" in refusal(tmp_path)


def test_pickled_objects_are_never_unpacked(tmp_path):
    path = tmp_path / "pickle.npz"
    np.savez(path, header=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert "damaged: Object arrays cannot be loaded" in refusal(path)


def test_an_oversized_file_is_refused_unread(path, monkeypatch):
    monkeypatch.setattr(trace_file, "MAX_UNPACKED_BYTES", 1_000)
    assert "at most 1000 are read" in refusal(path)


def test_columns_of_bytes_that_unpack_to_eight_times_as_much_are_refused(path, monkeypatch):
    monkeypatch.setattr(trace_file, "MAX_UNPACKED_BYTES", 20_000)
    assert "holds more than 2500 integers" in refusal(rewritten(path, sm=np.zeros(9_000, dtype=np.int8)))


@pytest.mark.timeout(60)
def test_a_fifo_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "x.npz")
    assert "not a regular file" in refusal(tmp_path / "x.npz")


def test_a_newer_version_asks_for_an_update(path):
    assert "field 'header.version' is 99; this wavesim reads 1 to 1. Update wavesim" in refusal(
        with_header(path, version=99)
    )


def with_one(name: str, row: int, value: int):
    """The column with another value in one row."""

    def changed(trace: Trace) -> dict[str, np.ndarray]:
        column = getattr(trace, name).copy()
        column[row] = value
        return {name: column}

    return changed


def at(time: int):
    return lambda _: dict.fromkeys(("issue_ns", "start_ns", "end_ns"), np.full(12, time))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (lambda _: {"end_ns": None}, "column 'end_ns' is missing"),
        (lambda _: {"sm": np.zeros((2, 2), dtype=int)}, "field 'sm' has shape (2, 2)"),
        (lambda _: {"sm": np.zeros(12)}, "type float64; expected integers"),
        (with_one("sm", 5, 4), "field 'sm', row 5: 4 is outside 0 to 3"),
        (with_one("end_ns", 2, -1), "field 'end_ns', row 2: before start_ns"),
        (with_one("slot", 3, 2**31 - 1), "field 'slot', row 3: 2147483647 is outside 0 to 262143"),
        (with_one("x", 3, 2), "field 'x', row 3: 2 is outside 0 to 1"),
        (with_one("y", 3, -1), "field 'y', row 3: -1 is outside 0 to 2"),
        (with_one("z", 3, 1), "field 'z', row 3: 1 is outside 0 to 0"),
        (lambda _: {"waits_block": np.array([99])}, "field 'waits_block', row 0: 99 is outside 0 to 11"),
        (lambda _: {"waits_block": np.array([0, 1])}, "have different lengths"),
        (lambda _: {"waits_semaphore": np.array([-1])}, "'waits_semaphore', row 0: -1 is outside 0 to 5"),
        (lambda _: {"waits_semaphore": np.array([6])}, "'waits_semaphore', row 0: 6 is outside 0 to 5"),
        (at(2**63 - 1), "field 'issue_ns', row 0: over a century"),
        (at(-(2**63)), "field 'issue_ns', row 0: over a century"),
        (at(2**60), "field 'issue_ns', row 0: over a century"),
    ],
)
def test_rows_that_no_device_could_have_written_are_named_by_field_and_position(trace, path, changes, words):
    assert words in refusal(rewritten(path, **changes(trace)))


def test_a_part_of_a_tile_may_be_numbered_up_to_its_k_iterations(trace, path):
    parts = {"k_first": trace.z, "k_upto": trace.z + 1, "k_of": trace.z + 4}
    z = trace.z.copy()
    z[3] = 3
    assert Trace.load(rewritten(path, z=z, **parts)).z[3] == 3
    z[3] = 4
    assert "field 'z', row 3: 4 is outside 0 to 3" in refusal(rewritten(path, z=z, **parts))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stages": 5}, "field 'header.stages' is 5; expected a list"),
        ({"events": 5}, "field 'header.events' is 5; expected a list"),
        ({"stages": [7]}, "field 'header.stages' holds 7; expected an object"),
        ({"stages": [{"name": "a"}]}, "field 'header.stages.grid' is missing; expected a list"),
        ({"events": [{"name": 1}]}, "field 'header.events.name' is 1; expected"),
        ({"device": {}}, "field 'header.device' lacks an integer 'sm_count'"),
        ({"device": {"sm_count": 2**31}}, "field 'header.device.sm_count' is 2147483648; expected 1 to"),
        ({"device": 3}, "field 'header.device' is 3; expected"),
        ({"timer_step_ns": "32"}, "field 'header.timer_step_ns' is '32'; expected"),
        ({"rounds_ns": [1, "2"]}, "field 'header.rounds_ns' is [1, '2']; expected"),
        ({"source": "dreamt"}, "field 'header.source' is 'dreamt'; expected"),
        ({"workload": ...}, "field 'header.workload' is missing; expected a text"),
        ({"plan": 3}, "field 'header.plan' is 3; expected a text"),
        ({"plan_data": ["row"]}, "field 'header.plan_data' is ['row']; expected an object"),
        ({"orders": {"gemm1": ["row"]}}, "field 'header.orders' is {'gemm1': ['row']}; expected an object"),
        ({"source": "seen"}, "field 'header.source' is 'seen'; expected 'simulated' or 'measured'"),
        ({"clock_mhz": "fast"}, "field 'header.clock_mhz' is 'fast'; expected a number or null"),
        ({"version": True}, "field 'header.version' is True; this wavesim reads 1 to 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_wrong_header_field_is_named(path, changes, words):
    said = refusal(with_header(path, **changes))
    assert words in said
    assert said.count(str(path)) == 1
    assert not any(word in said for word in ("typing", "<class", "__init__"))


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_in_the_file_raises_a_recording_error_or_nothing(trace, path, data):
    whole = trace.save(path).read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(
        damaged[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else damaged
    )
    with contextlib.suppress(RecordingError):
        Trace.load(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_json_in_any_header_field_raises_a_recording_error_or_nothing(trace, path, data):
    trace.save(path)
    with np.load(path) as archive:
        names = sorted(json.loads(archive["header"].tobytes()))
    changed = with_header(path, **{data.draw(st.sampled_from(names)): data.draw(JSON)})
    with contextlib.suppress(RecordingError):
        Trace.load(changed)


def test_deeply_nested_json_is_refused(path):
    nested = np.frombuffer(b"[" * 100_000, dtype=np.uint8)
    assert "field 'header': not JSON" in refusal(rewritten(path, header=nested))


def test_a_file_that_claims_a_huge_array_is_refused(path):
    with zipfile.ZipFile(path, "a") as archive:
        header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,), }"
        header += b" " * (117 - len(header)) + b"\n"
        archive.writestr("extra.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert "damaged" in refusal(path)
