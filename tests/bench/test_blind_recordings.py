"""The blind runs that ship: closed, predicted before they were measured, refused once they are changed."""

import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from wavesim.bench.blind_runs import BlindRun, find_runs
from wavesim.bench.foreign_runs import RUNS as FOREIGN
from wavesim.errors import RecordingError
from wavesim.plan.parsing import recorded_shape
from wavesim.trace.header import Header

RUNS = find_runs()
# Over the names and contents of a run's files, as they were when the model of the commit that predicted made
# the same predictions again from the same traces, and all traces obeyed the rules of the hardware.
SEALS = {
    "blind/h200-2026-11-21": "26390183a74b4c674eb75d5a9cc1f47865ba3b33524fe77a6d306c6a883b2745",
    "blind/h200-2026-11-22": "273f20e4e8c8bcf2ae9715b7125411ed40b5aba716c24342c64b0ac0cb8c5486",
    "foreign/h200-2026-11-22": "bc1d7a5e7d1b15fcd06e1ee3291d83ee8a8c5724cdebea4e47c8458729b3c253",
    "foreign/h200-2026-11-22-trial": "a5f58b73287cbb379733a1c757085c1f5de20fc2558d064ff1c8e40d7e13c950",
}


def test_closed_runs_are_as_they_were_when_their_own_models_made_them_again():
    sealed = {}
    for run in (*RUNS, *find_runs(FOREIGN)):
        digest = sha256()
        for path in sorted(run.folder.iterdir()):
            digest.update(path.name.encode() + b"\0" + sha256(path.read_bytes()).digest())
        sealed[f"{run.folder.parent.name}/{run.folder.name}"] = digest.hexdigest()
    assert sealed == SEALS


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


def test_predictions_that_were_changed_after_the_measurement_are_refused(tmp_path: Path):
    copy = BlindRun(Path(shutil.copytree(RUNS[0].folder, tmp_path / "run")))
    (copy.folder / "predictions.sha256").write_text("0" * 64)
    with pytest.raises(RecordingError, match="changed afterwards"):
        copy.predictions_from("trace")
