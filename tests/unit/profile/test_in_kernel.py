"""Traces from inside kernels: Proton's, other Chrome traces, IKET's, the protobuf that tg4perfetto writes."""

import gzip
import json
from pathlib import Path

import pytest

from wavesim.cli.command_line import main
from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.profile.in_kernel import load_in_kernel
from wavesim.profile.perfetto_tracks import track_spans
from wavesim.trace.metrics import metrics_of


def event(name, process, start, took, **fields):
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": "warp 0 (line 0)",
        "ts": start,
        "dur": took,
        **fields,
    }


PROFILES = Path(__file__).parents[2] / "data" / "profiles"
PROTON = {
    "displayTimeUnit": "us",
    "traceEvents": [
        event("load", "rows Core0 CTA0", 0.0, 2.0, cat="rows"),
        event("wait for tile", "rows Core0 CTA0", 2.0, 1.0, cat="rows"),
        event("wait for tile", "rows Core0 CTA0", 2.5, 1.5, cat="rows", tid="warp 1 (line 0)"),
        event("store", "rows Core0 CTA0", 4.0, 4.0, cat="rows"),
        event("load", "rows Core1 CTA1", 0.0, 8.0, cat="rows"),
        event("load", "rows Core0 CTA2", 8.0, 8.0, cat="rows"),
    ],
}


@pytest.fixture
def proton(tmp_path):
    path = tmp_path / "rows.chrome_trace"
    path.write_text(json.dumps(PROTON))
    return path


def iket(warps, *, kernel="gemm"):
    """A launch as run-iket's guide shows it: (x, y, SM, warp, range, start, end); no range is a lifetime."""
    ranges, lifetimes = [], []
    for x, y, sm, warp, name, start, end in warps:
        place = {"smId": sm, "tpcId": 0, "gpcId": 0, "ctaId": [x, y, 0], "warpId": warp}
        span = {"startTs": start, "endTs": end}
        if name:
            ranges.append(
                span | {"rangeName": name, "rangeScope": 0, "warpLocs": [place], "internalEvents": []}
            )
        else:
            lifetimes.append(span | {"warpLocation": place})
    return {"gridId": 0, "kernelName": kernel, "ranges": ranges, "markers": [], "warpLifetimes": lifetimes}


def test_ikets_blocks_are_numbered_by_rows_and_live_as_their_warps(tmp_path):
    path = tmp_path / "trace.json"
    first = iket(
        [
            (0, 0, 0, 0, "", 900, 3_800),
            (0, 0, 0, 1, "ab_wait", 1_000, 2_500),
            (1, 0, 1, 0, "mainloop", 1_000, 2_000),
            (0, 1, 1, 0, "mainloop", 2_000, 3_000),
        ]
    )
    again = iket([(0, 0, 2, 0, "", 5_000, 6_000)]) | {"gridId": 7}
    path.write_text(json.dumps({"launches": [first]}))
    trace = load_in_kernel(path)
    assert list(trace.x) == [0, 1, 2]
    assert list(trace.sm) == [0, 1, 1]
    assert list(trace.start_ns) == [0, 100, 1_100]
    assert list(trace.end_ns) == [2_900, 1_100, 2_100]
    assert list(trace.wait_ns) == [1_500, 0, 0]
    path.write_text(json.dumps({"launches": [first, again]}))
    assert [info.name for info in load_in_kernel(path).header.stages] == [
        "gemm (launch 0)",
        "gemm (launch 7)",
    ]


@pytest.mark.parametrize(
    "broken",
    [{"launches": 5, "warpLocs": 0}, {"launches": [{"kernelName": "r", "ranges": [{"warpLocs": 3}]}]}],
)
def test_an_iket_file_of_another_shape_is_refused_in_one_line(tmp_path, broken):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(RecordingError, match="no trace of IKET as its guide shows it"):
        load_in_kernel(path)


def test_protons_blocks_are_rows_with_sm_time_and_waiting(proton):
    trace = load_in_kernel(proton)
    assert [info.name for info in trace.header.stages] == ["rows"]
    assert trace.header.stages[0].grid == (3, 1, 1)
    assert list(trace.x) == [0, 1, 2]
    assert list(trace.sm) == [0, 1, 0]
    assert list(trace.slot) == [0, 0, 0]
    assert list(trace.start_ns) == [0, 0, 8_000]
    assert list(trace.end_ns) == [8_000, 8_000, 16_000]
    assert list(trace.wait_ns) == [2_000, 0, 0]  # two warps wait side by side
    assert metrics_of(trace).tail_loss_ns == 4_000  # SM 1 is empty for the second half


def test_a_packed_file_is_the_same(proton, tmp_path):
    packed = tmp_path / "rows.json.gz"
    packed.write_bytes(gzip.compress(proton.read_bytes()))
    assert list(load_in_kernel(packed).end_ns) == list(load_in_kernel(proton).end_ns)


def test_processes_and_threads_that_name_sm_and_block_are_read(tmp_path):
    names = [
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "SM 3 of 8"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "SM 3, CTA 12, warp 0"}},
    ]
    path = tmp_path / "tracer.json"
    path.write_text(json.dumps([*names, event("mma", 7, 1.0, 2.0, tid=1)]))
    trace = load_in_kernel(path)
    assert (list(trace.sm), list(trace.x), list(trace.end_ns)) == ([3], [12], [2_000])


def test_a_profile_of_kernels_is_none(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"traceEvents": [event("gemm", 0, 1.0, 2.0, cat="kernel")]}))
    assert load_in_kernel(path) is None


def test_an_sm_that_the_device_has_not_is_refused(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([event("load", "rows Core500 CTA0", 0.0, 1.0)]))
    with pytest.raises(RecordingError, match="SM 500"):
        load_in_kernel(path, devices.load("h200"))


def varint(value):
    parts = []
    while True:
        parts.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(parts)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def packet(*parts):
    return field(1, b"".join(parts))


def track(uuid, name, parent=0):
    return packet(field(60, field(1, uuid) + field(2, name) + (field(5, parent) if parent else b"")))


def moment(at, kind, uuid, name=""):
    return packet(
        field(8, at), field(11, field(9, kind) + field(11, uuid) + (field(23, name) if name else b""))
    )


def perfetto(block="sm_5_block_2"):
    return b"".join(
        [
            track(1, block),
            track(2, "group_0", 1),
            moment(1_000, 1, 2, "gemm"),
            moment(3_000, 1, 2, "spin"),
            moment(4_000, 2, 2),
            moment(9_000, 2, 2),
        ]
    )


def test_tracks_of_a_protobuf_are_blocks(tmp_path):
    path = tmp_path / "flash.perfetto-trace"
    path.write_bytes(perfetto())
    trace = load_in_kernel(path)
    assert (list(trace.sm), list(trace.x)) == ([5], [2])
    assert (list(trace.end_ns), list(trace.wait_ns)) == ([8_000], [1_000])
    assert not trace.header.note


def test_blocks_whose_sm_is_not_told_are_drawn_one_by_one_and_it_is_said(tmp_path, capsys):
    path = tmp_path / "flash.perfetto-trace"
    path.write_bytes(perfetto("block_2"))
    assert main(["advise", str(path)]) == 0
    assert "names no SM" in capsys.readouterr().out


@pytest.mark.parametrize(
    "data", [perfetto()[:-3], b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x08\x01"]
)
def test_a_damaged_protobuf_is_refused(data):
    with pytest.raises(RecordingError):
        list(track_spans(data, "flash"))


@pytest.mark.parametrize(
    "text", ['{"traceEvents": 3, "a": "Core1 CTA1"}', '[{"ph": "X", "pid": "Core1 CTA1", "ts": []}]']
)
def test_damaged_json_is_refused_by_field(tmp_path, text):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(RecordingError, match=r"rows\.json: (field 'traceEvents'|event 0)"):
        load_in_kernel(path)


def test_advise_says_where_the_time_went_and_draws_it(proton, tmp_path, capsys):
    page = tmp_path / "rows.html"
    assert main(["advise", str(proton), "--html", str(page), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["blocks"], said["makespan_ns"], said["waiting_ns"]) == (3, 16_000, 1_000)
    assert page.stat().st_size > 10_000
    assert main(["advise", str(proton)]) == 0
    assert "3 blocks of rows on 2 SMs, 16.0 us measured; busy" in capsys.readouterr().out


def test_a_trace_is_set_beside_the_prediction(proton, capsys):
    words = ["simulate", "toy", "--sync", "row", "--beside", str(proton)]
    assert main(words) == 0
    assert "beside it rows.chrome_trace: 3 blocks of rows" in capsys.readouterr().out


def test_a_file_that_proton_made_on_an_h200_is_a_whole_trace(tmp_path):
    trace = load_in_kernel(PROFILES / "proton-in-kernel-h200.json.gz", devices.load("h200"))
    assert [info.name for info in trace.header.stages] == ["rows"]
    assert sorted(trace.x) == list(range(300))
    assert set(trace.sm) == set(range(132))
    assert 4_000 < trace.makespan_ns < 6_000
    assert trace.header.stages[0].blocks_per_sm == 3  # 300 blocks on 132 SMs
    kept = trace.save(tmp_path / "rows.npz")
    assert list(load_in_kernel(kept).end_ns) == list(trace.end_ns)


def test_what_proton_says_of_whole_kernels_is_a_profile(capsys):
    path = PROFILES / "proton-kernels-h200.json.gz"
    assert load_in_kernel(path) is None
    assert main(["advise", str(path)]) == 0
    assert "9 kernels" in capsys.readouterr().out
