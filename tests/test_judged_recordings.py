"""The judged runs that ship: predicted by committed code, in good order, large enough."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from wavesim.analysis.invariants import violations
from wavesim.io.judged_runs import JudgedRun, find_runs, model_sources
from wavesim.workloads.judged_sizes import BASELINE, SEMAPHORES

RUNS = find_runs()
FEWEST_CASES = 150


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_was_predicted_by_the_committed_model(run: JudgedRun, tmp_path: Path):
    made_by = run.made_by
    assert made_by["commit"] == run.facts["commit"]
    done = subprocess.run(
        ["git", "archive", made_by["commit"], "wavesim"],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parent.parent,
    )
    if done.returncode:
        pytest.skip(f"git does not know commit {made_by['commit']}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(tmp_path, filter="data")
    assert made_by["model_sources"] == model_sources(tmp_path / "wavesim")


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
