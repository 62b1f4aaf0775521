"""Measured launches from the device: a run is read, simulated with its own figures, or refused."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.streams.measured_launches import read_launches, shipped_launches
from wavesim.teaching.device_launches import measured_launches, uneven

CALLS = [{"call_ns": ns, "start_ns": 500.0, "latency_ns": 5_000} for ns in (900.0, 1_000.0, 1_400.0)]
FILE = {
    "date": "2026-01-01",
    "device": {"name": "made up", "sm_count": 132},
    "commit": "abc",
    "calls": {"fire-and-forget": CALLS, "tail": CALLS[:1]},
    "pool": {"taken": 2_048, "ran": 2_048, "error": 5},
    "levels": {"deepest": 24, "error": 6},
    "uneven": [
        {
            "launcher": "nobody",
            "threshold": None,
            "lost": 0,
            "items_missing": 0,
            "rounds_ns": [7_000, 9_000, 8_000],
        },
        {"launcher": "thread", "threshold": 64, "lost": 3, "items_missing": 40, "rounds_ns": [5_000]},
        {"launcher": "warp", "threshold": 1, "lost": 7, "items_missing": 50, "rounds_ns": []},
        {"launcher": "thread", "threshold": 1, "failed": "no answer within 10 s"},
    ],
}


def written(tmp_path, **changed):
    path = tmp_path / "launches.json"
    path.write_text(
        json.dumps({name: value for name, value in {**FILE, **changed}.items() if value is not None})
    )
    return path


def test_a_runs_figures_make_the_machine_that_its_work_is_simulated_on(tmp_path):
    found = read_launches(written(tmp_path))
    assert (found.machine.call_ns, found.machine.start_ns, found.machine.pool) == (1_000, 500, 2_048)
    assert found.uneven[0].time_ns == 8_000
    # The assumed figures are just these, so that the notebook's own runs must come out.
    assert found.simulated_ns(found.uneven[0]) == uneven("nobody").end_ns
    assert found.simulated_ns(found.uneven[1]) == uneven("thread", 64).end_ns
    lines = found.text().splitlines()
    assert lines[0] == "measured on one made up, 2026-01-01"
    assert lines[-3].split()[:3] == ["thread", "64", "5.0"]
    assert lines[-3].endswith(" 40")
    assert lines[-2].split()[2] == "none"
    assert lines[-2].endswith(" 50")
    assert lines[-1].split()[:3] == ["thread", "1", "none"]
    assert lines[-1].endswith("no answer within 10 s")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pool": None}, "field 'pool' is missing"),
        ({"calls": {"tail": CALLS}}, "no fire-and-forget"),
        ({"calls": {"fire-and-forget": [{"call_ns": 1}]}}, "field 'start_ns' is missing"),
        ({"uneven": []}, "uneven is 0"),
        ({"uneven": [{**FILE["uneven"][1], "launcher": "host"}]}, "launcher is 'host'"),
        ({"uneven": [{**FILE["uneven"][1], "rounds_ns": [-1]}]}, "rounds_ns is -1"),
        ({"levels": {"deepest": 65}}, "deepest is 65"),
        ({"calls": [1]}, "no attribute 'items'"),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_its_field(tmp_path, changed, said):
    path = written(tmp_path, **changed)
    with pytest.raises(RecordingError, match=said) as caught:
        read_launches(path)
    assert str(path) in str(caught.value)


def test_of_the_shipped_run_gathered_launches_are_fastest_and_every_thread_s_own_never_ended():
    ways = {(one.launcher, one.threshold): one for one in shipped_launches().uneven}
    assert ways.pop(("thread", 1)).failed
    assert not any(one.lost or one.items_missing for one in ways.values())
    assert min(ways.values(), key=lambda one: one.time_ns) == ways["block", 1]
    assert max(ways.values(), key=lambda one: one.time_ns) == ways["nobody", 1]


def test_the_notebook_says_what_was_measured_or_how_to_measure():
    found = shipped_launches()
    if found is None:
        assert measured_launches().startswith("Not measured yet. On a GPU with nvcc: python -m wavesim_gpu")
    else:
        assert measured_launches() == found.text()
