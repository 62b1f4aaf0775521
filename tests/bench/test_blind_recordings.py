"""The blind runs that ship: predicted by committed code, in good order, large enough."""

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from trace_invariants import violations
from unpacked_run import unpacked_run

from wavesim.bench.blind_runs import BlindRun, RegisteredPrediction, find_runs
from wavesim.bench.blind_sizes import SEMAPHORES
from wavesim.plan.parsing import recorded_shape
from wavesim.trace.header import Header

RUNS = find_runs()
# Module and name of what predicts, and of a run, by the file that a commit has it in: first that of today.
NAMES = {
    "evaluation/blind_predictions.py": (
        "wavesim.evaluation.blind_predictions", "register_predictions",
        "wavesim.evaluation.blind_runs", "BlindRun",
    ),
    "analysis/judged_predictions.py": (
        "wavesim.analysis.judged_predictions", "foretell", "wavesim.io.judged_runs", "JudgedRun",
    ),
}  # fmt: skip
# Run by the package of that commit: stream-sync traces in, predictions out.
PREDICT = """
import json, sys
from dataclasses import asdict
from pathlib import Path
sys.meta_path[:] = [f for f in sys.meta_path if not getattr(f, "__module__", "").startswith("__editable__")]
from {0} import {1} as predict
from {2} import {3} as Run, model_sources
run = Run(Path(sys.argv[1]))
sizes = [size for size in run.sizes() if size.name in sys.argv[2:]]
streams = {{size: {{order: run.stream(size, order) for order in size.orders}} for size in sizes}}
found = [one for size in sizes for one in predict(size, streams[size], run.facts["device"])]
print(json.dumps({{"sources": model_sources(), "found": [asdict(one) for one in found]}}))
"""


def predicted_by(package: Path, run: BlindRun, sizes: Iterable[str]) -> dict[str, Any]:
    """What an older package makes of some sizes' stream-sync traces, and the hash of its model."""
    names = next(names for path, names in NAMES.items() if (package / "wavesim" / path).exists())
    done = subprocess.run(
        [sys.executable, "-c", PREDICT.format(*names), run.folder, *sizes],
        cwd=package,  # whose modules come before the installed ones
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(params=RUNS, ids=lambda run: run.name)
def run_and_model(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[BlindRun, Path]:
    """A run, and a folder with the package of the commit that predicted."""
    run: BlindRun = request.param
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


def test_a_run_was_predicted_by_the_committed_model(run_and_model: tuple[BlindRun, Path]):
    run, folder = run_and_model
    assert run.made_by["commit"] == run.facts["commit"]
    whole = BlindRun(unpacked_run(run.folder, folder / "run"))
    assert run.made_by["model_sources"] == predicted_by(folder, whole, [])["sources"]


def test_that_model_still_predicts_the_same_from_the_stored_stream_sync_traces(
    run_and_model: tuple[BlindRun, Path],
):
    run, folder = run_and_model
    families: dict[str, str] = {}
    for size in run.sizes():
        families.setdefault(size.kernels, size.name)
    whole = BlindRun(unpacked_run(run.folder, folder / "run"))
    found = predicted_by(folder, whole, families.values())["found"]
    again = [RegisteredPrediction(**one) for one in found]
    assert {one.size for one in again} == set(families.values())
    for one in again:
        before = run.predictions_from(one.basis)[one.size, one.order, one.plan]
        assert (one.time_ns, one.stream_ns) == (before.time_ns, before.stream_ns)
        assert one.improvement_points == pytest.approx(before.improvement_points)


def is_baseline(header: Header) -> bool:
    """Whether kernels ran one after another, a block per tile or persistent blocks, without semaphores."""
    plan = recorded_shape(header.plan, header.plan_data)
    return plan.runs_one_after_another and not plan.sync.has_semaphores


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_overlapped_trace_was_recorded_after_the_predictions(run: BlindRun):
    for size in run.sizes():
        for order in size.orders:
            assert is_baseline(run.stream(size, order).header)
            traces = [run.trace(size, order, word) for word in size.plans]
            assert all(trace.header.source == "measured" for trace in traces if trace is not None)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_traces_obey_the_rules_of_the_hardware(run: BlindRun):
    for size in run.sizes():
        if size.kernels == "hopper":  # tiles of a persistent block overlap
            continue
        for order in size.orders:
            assert violations(run.stream(size, order)) == [], size.name
            for word in set(size.plans) & set(SEMAPHORES):
                trace = run.trace(size, order, word)
                assert trace is None or violations(trace) == [], f"{size.name} {order} {word}"
