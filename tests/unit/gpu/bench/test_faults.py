"""The demonstration of failures counts each kind of result as what it is, and outlives what hangs."""

import subprocess
import sys
import time

import numpy as np
import pytest
from faults import __main__ as faults
from faults.judged_calls import FAULTS, HAS_NAN, IS_JUDGED, IS_WRONG, Judge

RIGHT, WRONG, NAN = IS_JUDGED, IS_JUDGED | IS_WRONG, IS_JUDGED | HAS_NAN


def counted(verdict, reported):
    """What a judge counts of two right results and one with this verdict, whose call's number is 3."""
    judge = object.__new__(Judge)
    judge.numbers, judge.reported = np.array([1, 2, 3]), reported
    judge.verdicts = lambda: np.array([RIGHT, RIGHT, verdict], np.uint32)
    return {kind: count for kind, count in judge.counts().items() if count}


@pytest.mark.parametrize(
    ("verdict", "reported", "kind"),
    [
        (NAN, {3: 1}, "nan_reported"),
        (NAN, {}, "nan_silent"),
        (WRONG, {}, "wrong_silent"),
        (WRONG | NAN, {}, "wrong_silent"),
        (WRONG, {3: 1}, "wrong_reported"),
        (WRONG | NAN, {3: 1}, "wrong_reported"),
        (RIGHT, {3: 1}, "right_reported"),
        (0, {}, "not_judged"),
    ],
)
def test_a_result_is_counted_as_what_it_is(verdict, reported, kind):
    found = counted(verdict, reported)
    assert found.pop("right") == 2
    if verdict == WRONG | NAN and not reported:
        assert found.pop("nan_silent") == 1
    assert found == {kind: 1}
    assert (kind in FAULTS) == (kind != "nan_reported")


def test_a_report_twice_or_of_no_call_is_a_fault():
    assert counted(NAN, {3: 2}) == {"right": 2, "nan_reported": 1, "reported_twice": 1}
    assert counted(NAN, {3: 1, 9: 1}) == {"right": 2, "nan_reported": 1, "reported_of_no_call": 1}
    assert {"reported_twice", "reported_of_no_call"} <= set(FAULTS)


def started(code):
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_a_scenario_that_hangs_is_ended_with_all_that_it_started():
    began = time.monotonic()
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    found = faults._ended(started(code), began + 1.5)
    assert found["faults"] == 1
    assert found["error"] == "did not end in time"
    assert time.monotonic() - began < 30  # both ends of the pipes are closed: nothing of it is left


def test_ctrl_c_leaves_no_scenario_behind(monkeypatch):
    begun = []
    popen = subprocess.Popen

    def sleeping(command, **options):
        begun.append(popen([sys.executable, "-c", "import time; time.sleep(60)"], **options))
        return begun[-1]

    def interrupted(process, ends):
        raise KeyboardInterrupt

    monkeypatch.setattr(faults.subprocess, "Popen", sleeping)
    monkeypatch.setattr(faults, "_ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        faults.run_alone("plain", 1, 60, processes=2)
    assert [process.wait(timeout=10) for process in begun] == [-9, -9]
    for process in begun:
        process.communicate()


def test_a_scenario_that_stops_is_a_fault_with_its_last_words():
    found = faults._ended(started("raise SystemExit('no GPU')"), time.monotonic() + 30)
    assert (found["faults"], found["error"], found["said"].strip()) == (1, "ended with 1", "no GPU")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--calls", "9" * 400], "--calls is '99"),
        (["--calls=-1"], "--calls is '-1'; it must be an integer"),
        (["--only", "nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_status_2(options, said):
    command = [sys.executable, "-m", "faults", *options]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=faults.ENVIRONMENT
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
