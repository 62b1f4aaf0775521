"""The judged runs that ship: predicted by committed code, in good order, large enough."""

import json
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from wavesim.check.invariants import violations
from wavesim.evaluation.blind_runs import Foretold, JudgedRun, find_runs, model_sources
from wavesim.evaluation.blind_sizes import BASELINE, SEMAPHORES

RUNS = find_runs()
FEWEST_CASES = 150


# Run by the package of that commit: stream-sync traces in, predictions out.
FORETELL = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from wavesim.evaluation.blind_predictions import foretell
from wavesim.evaluation.blind_runs import JudgedRun
run = JudgedRun(Path(sys.argv[1]))
sizes = [size for size in run.sizes() if size.name in sys.argv[2:]]
streams = {size: {order: run.stream(size, order) for order in size.orders} for size in sizes}
found = [one for size in sizes for one in foretell(size, streams[size], run.facts["device"])]
print(json.dumps([asdict(one) for one in found]))
"""


@pytest.fixture(params=RUNS, ids=lambda run: run.name)
def run_and_model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[JudgedRun, Path]:
    """A run, and a folder with the package of the commit that predicted."""
    run: JudgedRun = request.param
    commit = run.made_by["commit"]
    done = subprocess.run(
        ["git", "archive", commit, "wavesim"],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    if done.returncode:
        pytest.skip(f"git does not know commit {commit}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(tmp_path, filter="data")
    return run, tmp_path


def test_a_run_was_predicted_by_the_committed_model(run_and_model: tuple[JudgedRun, Path]):
    run, folder = run_and_model
    assert run.made_by["commit"] == run.facts["commit"]
    assert run.made_by["model_sources"] == model_sources(folder / "wavesim")


def test_that_model_still_predicts_the_same_from_the_stored_stream_sync_traces(
    run_and_model: tuple[JudgedRun, Path],
):
    run, folder = run_and_model
    families: dict[str, str] = {}
    for size in run.sizes():
        families.setdefault(size.kernels, size.name)
    done = subprocess.run(
        [sys.executable, "-c", FORETELL, run.folder, *families.values()],
        cwd=folder,  # whose package comes before the installed one
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    again = [Foretold(**one) for one in json.loads(done.stdout)]
    assert {one.size for one in again} == set(families.values())
    for one in again:
        before = run.predictions[one.size, one.order, one.plan]
        assert (one.time_ns, one.stream_ns) == (before.time_ns, before.stream_ns)
        assert one.improvement_points == pytest.approx(before.improvement_points)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_overlapped_trace_was_recorded_after_the_predictions(run: JudgedRun):
    for size in run.sizes():
        for order in size.orders:
            assert run.stream(size, order).header.plan == BASELINE
            traces = [run.trace(size, order, word) for word in size.plans]
            assert all(trace.header.source == "measured" for trace in traces if trace is not None)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_traces_obey_the_rules_of_the_hardware(run: JudgedRun):
    for size in run.sizes():
        if size.kernels == "hopper":  # tiles of a persistent block overlap
            continue
        for order in size.orders:
            assert violations(run.stream(size, order)) == [], size.name
            for word in set(size.plans) & set(SEMAPHORES):
                trace = run.trace(size, order, word)
                assert trace is None or violations(trace) == [], f"{size.name} {order} {word}"


def test_the_runs_have_150_cases_or_more_and_twenty_rounds_each():
    if not RUNS:
        pytest.skip("no judged run ships yet")
    compared = [one for run in RUNS for repeats in run.comparisons.values() for one in repeats]
    cases = {(run.name, one.size, order) for run in RUNS for one in compared for order, _ in one.rounds}
    assert len(cases) >= FEWEST_CASES
    assert all(len(rounds.ns) >= 20 for one in compared for rounds in one.rounds.values())
