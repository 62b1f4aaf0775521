"""A run of the streams lab is read, compared and refused: with the simulator in the GPU's place."""

import json
from copy import deepcopy

import pytest

from wavesim.errors import RecordingError
from wavesim.labs.streams.examples import EXAMPLES
from wavesim.labs.streams.measured import compared, from_first_kernel, load_measured, newest_run
from wavesim.model.device import load
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.machine import FIGURES as FIGURE_NAMES
from wavesim.sim.streams.machine import load_machine, machine_from

FIGURES = {
    "h2d_bytes_per_s": 50e9,
    "d2h_bytes_per_s": 60e9,
    "launch_call_ns": 4_000,
    "copy_call_ns": 5_000,
    "boundary_ns": 700,
    "has_copy_queues": True,
    "duplex_share": 0.8,
}


@pytest.fixture(scope="module")
def shipped():
    """What a machine with these figures would have measured, a twentieth slower than simulated."""
    machine = machine_from("h200", load("h200"), {**FIGURES, "source": "made up"})
    programs = []
    for one in EXAMPLES:
        own = one.machine(machine)
        found = simulate_streams(one.program(own), own)
        spans = {name: list(span) for name, span in from_first_kernel(found).items()}
        times = [round(found.end_ns * 1.05)] * 3
        programs.append({"name": one.name, "queues": one.queues, "rounds_ns": times, "spans_ns": spans})
    head = {"format": "wavesim streams 1", "date": "2026-01-01T00:00:00+00:00", "device": "NVIDIA H200"}
    return {**head, "commit": "0123456789", "rounds": 3, "figures": FIGURES, "programs": programs}


@pytest.fixture
def run(shipped):
    return deepcopy(shipped)


def written(tmp_path, run):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    return path


def test_a_run_is_compared_with_the_simulator_on_its_own_machine(tmp_path, run):
    measured = load_measured(written(tmp_path, run))
    assert measured.machine.source == "measured on one H200, 2026-01-01"
    assert measured.machine.has_copy_queues
    assert measured.provenance == "H200, 2026-01-01, commit 0123456"
    rows = compared(measured)
    assert len(rows) == len(EXAMPLES) >= 8
    assert all(one.error == pytest.approx(1 / 1.05 - 1, abs=1e-5) for one in rows)
    assert {one.worst_end for one in rows} == {0}


def test_an_operation_that_ends_elsewhere_is_found(tmp_path, run):
    run["programs"][0]["spans_ns"]["k0"][1] += 100_000
    found = compared(load_measured(written(tmp_path, run)))[0]
    assert found.worst_end == pytest.approx(100_000 / found.measured_ns)


def test_a_run_whose_copies_the_events_held_back_says_nothing_of_ends(tmp_path, run):
    one = next(one for one in run["programs"] if one["name"] == "vector add, depth-first, one queue")
    one["spans_ns"]["c3"] = [2 * max(one["rounds_ns"]), 3 * max(one["rounds_ns"])]
    assert [row.name for row in compared(load_measured(written(tmp_path, run))) if row.worst_end is None] == [
        one["name"]
    ]


def test_the_catalogued_machine_is_the_one_that_the_newest_run_calibrated():
    ours, run = load_machine("h200"), newest_run().machine
    for figure in FIGURE_NAMES:
        assert getattr(ours, figure) == pytest.approx(getattr(run, figure), rel=1e-3), figure


def test_of_the_shipped_run_nearly_all_programs_are_simulated_within_a_tenth():
    rows = compared(newest_run())
    assert len(rows) == len(EXAMPLES)
    assert [one.name for one in rows if abs(one.error) > 0.1] == ["host functions"]


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (("format",), "other", "must be 'wavesim streams 1'"),
        (("device",), "cray", "cray"),
        (("device",), 3, "device is 3; write it as a text"),
        (("figures",), [], "figures must be a table"),
        (("figures", "has_copy_queues"), 1, "true or false"),
        (("figures", "h2d_bytes_per_s"), -1, "h2d_bytes_per_s is -1"),
        (("figures", "boundary_ns"), 1.5, "boundary_ns is 1.5"),
        (("programs",), {}, "programs must be a list"),
        (("programs", 0), {}, "'name' is missing"),
        (("programs", 0, "name"), "none", "no example is called 'none'"),
        (("programs", 0, "queues"), 33, "queues is 33"),
        (("programs", 0, "queues"), [8], "queues is"),
        (("programs", 0, "rounds_ns"), [], "times in rounds_ns is 0"),
        (("programs", 0, "rounds_ns"), [0], "rounds_ns is 0; it must be an integer from 1"),
        (("programs", 0, "spans_ns", "k0"), [1], "no start and end"),
        (("programs", 0, "spans_ns", "zz"), [1, 2], "no start and end"),
    ],
)
def test_a_damaged_run_is_refused_in_one_line(tmp_path, run, where, value, words):
    place = run
    for one in where[:-1]:
        place = place[one]
    place[where[-1]] = value
    with pytest.raises(RecordingError) as refused:
        load_measured(written(tmp_path, run))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_json_is_refused(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("[")
    with pytest.raises(RecordingError, match="not JSON"):
        load_measured(path)
