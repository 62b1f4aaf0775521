"""Measured launches from the device: a run is read, simulated with its own figures, or refused."""

import json

import pytest

from wavesim.errors import RecordingError
from wavesim.labs.device_launches.measured import read_launches, shipped_launches
from wavesim.teaching.device_launches import uneven

CALLS = [{"call_ns": ns, "start_ns": 700.0, "latency_ns": 6_000} for ns in (900.0, 1_000.0, 1_400.0)]
CALLERS = [  # a begin every 500 ns where 64 call at once
    {"blocks": 1, "warps": 1, "lanes": 1, "count": 8, "rounds": [{"beginning_ns": 7_000}]},
    {"blocks": 8, "warps": 4, "lanes": 1, "count": 2, "rounds": [{"beginning_ns": 31_500}] * 3},
]
FILE = {
    "date": "2026-01-01",
    "device": {"name": "made up", "sm_count": 132, "max_threads_per_sm": 2_048},
    "commit": "abc",
    "calls": {"fire-and-forget": CALLS, "tail": CALLS[:1]},
    "callers": CALLERS,
    "children": {"blocks": 4_186, "rounds_ns": [8_000, 9_000, 7_000]},  # of four waves
    "family": {"none_ns": [2_000], "one_ns": [5_000]},  # a call and its block, nothing more
    "pool": {"taken": 2_048, "ran": 2_048, "error": 5},
    "levels": {"deepest": 24, "error": 6},
    "uneven": [
        {
            "launcher": "nobody",
            "threshold": None,
            "lost": 0,
            "items_missing": 0,
            "rounds_ns": [204_700, 204_900, 204_800],
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
    assert (found.machine.latency_ns, found.item_ns, found.child_ns) == (5_000, 100, 2_000)
    assert found.machine.complete_ns == 0
    assert found.uneven[0].time_ns == 204_800
    assert found.error(found.uneven[0]) == 0
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
        ({"callers": [{"blocks": 1}]}, "field 'warps' is missing"),
        ({"callers": [CALLERS[0] | {"count": 1}]}, "launches of callers is 1"),
        ({"children": {"blocks": 0}}, "children: blocks is 0"),
        ({"family": {"none_ns": [], "one_ns": [1]}}, "rounds of family is 0"),
        ({"callers": []}, "callers is 0"),
        ({"uneven": []}, "uneven is 0"),
        ({"uneven": FILE["uneven"][1:]}, "no times of nobody"),
        ({"uneven": [{**FILE["uneven"][0], "failed": "no answer"}]}, "no times of nobody"),
        ({"uneven": [{**FILE["uneven"][0], "rounds_ns": []}]}, "no times of nobody"),
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


def test_what_a_parent_s_end_takes_comes_from_the_fewest_launches_and_one_child_s_stands_beside(tmp_path):
    block = {"launcher": "block", "threshold": 256, "lost": 0, "items_missing": 0, "rounds_ns": [50_500]}
    family = {"none_ns": [2_000], "one_ns": [9_500]}  # a call, its block, and 4.5 us
    for measured, said in ((None, ""), (family, "; a thread with one child, 4,500")):
        found = read_launches(written(tmp_path, family=measured, uneven=[FILE["uneven"][0], block]))
        assert found.machine.complete_ns == 50_500 - uneven("block", 256).end_ns > 0
        assert found.error(found.uneven[1]) == 0
        assert f"(so that block from 256 on comes out){said}\n" in found.text()


def test_the_shipped_run_is_simulated_within_a_tenth_but_for_launches_of_every_warp():
    found = shipped_launches()
    for one in found.uneven:
        if one.time_ns:
            of_every_warp = (one.launcher, one.threshold) == ("warp", 1)
            assert abs(found.error(one)) < (0.2 if of_every_warp else 0.1), one


def test_of_the_shipped_run_gathered_launches_are_fastest_and_too_many_of_threads_never_ended():
    ways = {(one.launcher, one.threshold): one for one in shipped_launches().uneven}
    assert ways.pop(("thread", 3)).failed
    assert not any(one.lost or one.items_missing for one in ways.values())
    assert min(ways.values(), key=lambda one: one.time_ns) == ways["block", 1]
    assert max(ways.values(), key=lambda one: one.time_ns) == ways["nobody", 1]
