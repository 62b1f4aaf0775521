"""The runs of foreign kernels that ship: predicted by committed code before they were measured, in order."""

import json
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from trace_invariants import violations
from unpacked_run import unpacked_run

from wavesim.bench.blind_runs import STAMP, BlindRun, find_runs
from wavesim.bench.foreign_runs import RUNS, known_pairs, trace_path
from wavesim.recordings.split import TRIAL
from wavesim.trace.trace_archive import has_trace, load_trace

FOREIGN = find_runs(RUNS)
BLIND = [run for run in FOREIGN if not run.name.endswith(TRIAL.strip())]
# Run by the package of that commit: what was known before in, predictions out.
PREDICT = """
import json, sys
from dataclasses import asdict
from pathlib import Path
sys.meta_path[:] = [f for f in sys.meta_path if not getattr(f, "__module__", "").startswith("__editable__")]
from wavesim.evaluation.blind_runs import BlindRun, model_sources
from wavesim.evaluation.foreign_runs import known_pairs, register_foreign
run = BlindRun(Path(sys.argv[1]))
known = [known_pairs(run)[name] for name in sys.argv[2:]]
found = [asdict(one) for pair in known for one in register_foreign(pair, run.facts["device"])]
print(json.dumps({"sources": model_sources(), "found": found}))
"""


@pytest.mark.parametrize("run", BLIND, ids=lambda run: run.name)
def test_the_committed_model_still_predicts_the_same_from_what_was_known(run: BlindRun, tmp_path: Path):
    archive = subprocess.run(
        ["git", "archive", run.made_by["commit"], "wavesim"],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    if archive.returncode:
        pytest.skip(f"git does not know commit {run.made_by['commit']}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(tmp_path, filter="data")
    names = list(run.comparisons)[::8]
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, unpacked_run(run.folder, tmp_path / "run"), *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert again["sources"] == run.made_by["model_sources"]
    assert {"kernel-times", "profile", "trace"} == {one["basis"] for one in again["found"]}
    for one in again["found"]:
        before = run.predictions_from(one["basis"])[one["size"], one["order"], one["plan"]]
        assert one["improvement_points"] == pytest.approx(before.improvement_points)
        assert (one["low"], one["high"]) == pytest.approx((before.low, before.high))


@pytest.mark.parametrize("run", BLIND, ids=lambda run: run.name)
def test_traces_obey_the_rules_of_the_hardware_and_plans_ran_after_their_predictions(run: BlindRun):
    for known in known_pairs(run).values():
        assert known.stream is None or violations(known.stream) == [], known.pair.name
        for word in ("row", "tile"):
            path = trace_path(run.folder, known.pair, word)
            if has_trace(path):
                trace = load_trace(path)
                assert trace.header.versions[STAMP] == run.stamp
                assert violations(trace) == [], f"{known.pair.name} {word}"
