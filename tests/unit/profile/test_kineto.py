"""Kineto traces: everything imported, occupancy as the profiler has it, every field trap said."""

import codecs
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kineto_traces import H100, REAL, kernel, profile_of, raw_kernels, write_trace

from wavesim.errors import DescriptionError, RecordingError
from wavesim.profile.advice import advise
from wavesim.profile.advice_json import advice_document
from wavesim.profile.advice_text import summary_text
from wavesim.profile.kernel_facts import facts_of
from wavesim.profile.kineto import load_kineto, profile_of_trace
from wavesim.profile.profile import Profile
from wavesim.profile.profile_file import load_profile

each_trace = pytest.mark.parametrize("name", REAL)


@pytest.fixture(scope="module")
def profiles() -> dict[str, Profile]:
    return {name: profile_of(path) for name, path in REAL.items()}


@each_trace
def test_every_kernel_is_imported_and_the_totals_are_the_traces_own(name: str, profiles: dict[str, Profile]):
    raw = raw_kernels(REAL[name])
    assert profiles[name].kernel_count == len(raw)
    assert profiles[name].compute_ns == sum(round(1000 * event["dur"]) for event in raw)
    counts = Counter(event["name"] for event in raw)
    rows = profiles[name].launches
    shapes = rows.shape[rows.is_kernel].tolist()
    assert Counter(profiles[name].shapes[shape].name for shape in shapes) == counts


@each_trace
def test_occupancy_is_kinetos_within_two_points_where_kineto_knows_it(
    name: str, profiles: dict[str, Profile]
):
    compared = 0
    for shape in profiles[name].shapes:
        facts = facts_of(shape, profiles[name].devices[shape.device], 1, 1)
        assert facts.occupancy is not None
        sms = profiles[name].devices[shape.device].sm_count
        if shape.blocks >= facts.occupancy.blocks_per_sm * sms and shape.shared_bytes <= 48 * 1024:
            assert 100 * facts.occupancy.fraction == pytest.approx(shape.profiler_occupancy, abs=2)
            compared += 1
    assert compared > 5


def test_gemm_shapes_come_from_the_operator_that_launched_the_kernel(profiles: dict[str, Profile]):
    gemms = {shape.grid: shape.gemm for shape in profiles["h100"].shapes if shape.gemm}
    assert gemms[132, 1, 1] == (8944, 2816, 1024)


def test_a_device_outside_the_catalogue_has_its_own_name_and_sm_count(profiles: dict[str, Profile]):
    assert profiles["v100"].device_name == "Tesla V100-DGXS-32GB"
    assert profiles["a100"].devices[0].sm_count == 108


def test_whole_microseconds_are_said(profiles: dict[str, Profile]):
    assert profiles["v100"].timer_step_ns == 1000
    assert any("whole microseconds" in note for note in profiles["v100"].notes)
    assert not profiles["h100"].notes


def test_sixteen_digit_stamps_keep_their_nanoseconds(tmp_path: Path):
    text = json.dumps({"deviceProperties": [H100], "traceEvents": [kernel("a", 1, 2), kernel("b", 3, 4)]})
    text = text.replace('"ts": 1,', '"ts": 1751410836000000.123,').replace(
        '"ts": 3,', '"ts": 1751410836000002.456,'
    )
    path = tmp_path / "t.json"
    path.write_text(text)
    assert load_profile(path).launches.start_ns.tolist() == [0, 2333]


def test_amd_traces_without_registers_and_grid_are_totalled_and_said(tmp_path: Path):
    amd = {
        "id": 0,
        "name": "AMD Instinct MI300X",
        "computeMajor": 9,
        "computeMinor": 4,
        "numSms": 304,
        "warpSize": 64,
    }
    bare = {"registers_per_thread": None, "shared_memory": None, "grid": [0, 0, 0], "block": None}
    events = [kernel("Cijk_gemm", 0.5, 10, **bare), kernel("ew", 11.5, 10, **bare)]
    advice = advise(load_profile(write_trace(tmp_path, events, [amd])))
    assert advice_document(advice)["blind_share"] == 1.0
    assert (advice.compute_ns, advice.launch_gap_ns) == (20_000, 1_000)
    assert "AMD" in summary_text(advice)


def test_the_sm_count_is_inferred_where_there_are_no_device_properties(tmp_path: Path):
    events = [kernel("a", 0.5, 10, blocks_per_SM=1.5)]
    profile = load_profile(write_trace(tmp_path, events, []))
    assert profile.devices[0].sm_count == 132
    assert "132 SMs" in profile.notes[0]
    assert load_profile(write_trace(tmp_path, events, []), "a100-80gb").device_name == "a100-80gb"


def test_without_any_hint_of_the_device_everything_is_blind_and_the_option_is_named(tmp_path: Path):
    advice = advise(load_profile(write_trace(tmp_path, [kernel("a", 0.5, 10)], [])))
    assert advice.blind_share == 1.0
    assert any("--device" in note for note in advice.profile.notes)


def test_mixed_devices_and_ranks_keep_their_streams_apart(tmp_path: Path):
    a100 = {**H100, "id": 1, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "numSms": 108}
    events = [kernel("a", 0.5, 10), kernel("b", 11.5, 10, device=1), {**kernel("c", 12.5, 10), "pid": 9}]
    advice = advise(load_profile(write_trace(tmp_path, events, [H100, a100])))
    assert len(advice.profile.lanes) == 3
    assert not advice.pairs
    assert advice.launch_gap_ns == 0
    assert advice.profile.device_name == "NVIDIA H100 80GB HBM3 + NVIDIA A100-SXM4-80GB"


def test_negative_gaps_are_overlap_and_not_a_launch_gap(tmp_path: Path):
    events = [kernel("a", 0.5, 10), kernel("b", 9.5, 10), kernel("c", 21.5, 10)]
    advice = advise(load_profile(write_trace(tmp_path, events)))
    assert {pair.producer.shape.name: pair.overlapped for pair in advice.pairs} == {"a": 1, "b": 0}
    assert advice.launch_gap_ns == 2_000


def test_graph_replays_are_recognised_by_their_launch(tmp_path: Path):
    call = {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaGraphLaunch",
        "ts": 0.1,
        "dur": 1,
        "args": {"correlation": 5},
    }
    events = [kernel("a", 0.5, 10, correlation=5), call, kernel("b", 11.5, 10, correlation=5)]
    profile = load_profile(write_trace(tmp_path, events))
    assert profile.launches.is_replayed.all()
    assert any("CUDA graphs" in note for note in profile.notes)


def test_events_in_any_order_give_the_same_profile(tmp_path: Path):
    events = [kernel(f"k{i}", 0.5 + 12 * i, 10) for i in range(9)]
    there = advice_document(advise(load_profile(write_trace(tmp_path, events))))
    back = advice_document(advise(load_profile(write_trace(tmp_path, events[::-1]))))
    assert sorted(map(str, there.pop("pairs"))) == sorted(map(str, back.pop("pairs")))
    assert there == back


def test_device_properties_may_follow_the_events(tmp_path: Path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [kernel("a", 0.5, 10)], "deviceProperties": [H100]}))
    assert load_profile(path).devices[0].sm_count == 132


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_no_part_of_a_trace(tmp_path: Path, pack: Callable[[bytes], bytes]):
    path = write_trace(tmp_path, [kernel("a", 0.5, 10)])
    path.write_bytes(pack(codecs.BOM_UTF8 + path.read_bytes()))
    assert load_profile(path).devices[0].sm_count == 132


BAD = {
    "a byte order mark alone": (codecs.BOM_UTF8, "not JSON near byte"),
    "empty": (b"", "is empty"),
    "not JSON": (b"hello", "not JSON near byte 0"),
    "a secret": (b"password=hunter2", "not JSON near byte 0"),
    "truncated": (b'{"traceEvents": [{"ph": "X"', "not JSON.*EOF"),
    "no kernels": (b'{"traceEvents": []}', "no GPU kernels"),
    "truncated gzip": (gzip.compress(b'{"traceEvents": []}' * 99)[:-9], "damaged gzip"),
    "deep": (b'{"traceEvents": [' + b"[" * 200_000, "nested deeper than 100"),
    "deep outside": (b'{"x": ' + b'{"a":' * 200_000, "nested deeper than 100"),
    "digits": (b'{"traceEvents": [{"ts": ' + b"9" * 5000 + b"}]}", "hundreds of digits"),
    "long text": (b'{"a": "' + b"x" * (4 << 20), "one text of more than"),
    "long value": (b'{"traceEvents": [[' + b'"a",' * (6 << 20), "one value of more than"),
    "bomb": (gzip.compress(b'{"traceEvents": [' + b'{"ph":"M"},' * (4 << 20)), "times its size"),
    "no events": (b'{"traceEvents": [' + b"1," * 200_000, "that are no events"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_one_clear_line(what: str, tmp_path: Path):
    data, message = BAD[what]
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(RecordingError, match=message) as caught:
        load_profile(path)
    assert re.match(r"^\S*bad\.json: [^\n]+$", str(caught.value))
    assert "hunter2" not in str(caught.value)


def test_a_missing_file_and_an_unknown_device_are_named(tmp_path: Path):
    with pytest.raises(RecordingError, match=r"nowhere.json: cannot be read"):
        load_profile(tmp_path / "nowhere.json")
    with pytest.raises(DescriptionError, match="h300"):
        load_profile(REAL["h100"], "h300")


@pytest.mark.parametrize("field", ["ts", "dur", "name", "args", "ph", "cat", "pid"])
@pytest.mark.parametrize("value", [None, True, -1, 1e300, "x", [], {}, 10**30])
def test_a_wrong_value_in_one_kernel_costs_that_kernel_at_most(field: str, value: Any, tmp_path: Path):
    events = [kernel("a", 0.5, 10), {**kernel("b", 11.5, 10), field: value}, kernel("c", 22.5, 10)]
    profile = load_profile(write_trace(tmp_path, events))
    assert profile.kernel_count in (2, 3)
    summary_text(advise(profile))


def test_a_trace_in_memory_gives_the_profile_of_its_file():
    trace = json.loads(gzip.decompress(REAL["h100"].read_bytes()), parse_float=Decimal)
    profile = profile_of_trace(REAL["h100"].name, trace)
    from_file = load_kineto(REAL["h100"])
    assert profile.shapes == from_file.shapes
    assert (profile.launches.start_ns == from_file.launches.start_ns).all()
    assert (profile.launches.host_ns == from_file.launches.host_ns).all()
    assert profile.notes == from_file.notes
