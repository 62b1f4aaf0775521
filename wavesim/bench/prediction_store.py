"""Every prediction that the committed scores are of, job by job, as `wavesim validate --write` stored it.

Example: 421 jobs made 3,298 predictions. Whoever makes those of one job again finds them here to a hundredth
of a point, or has changed the model and not stored what came of it.
"""

import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wavesim.bench.scored_case import ScoredPrediction
from wavesim.predict.prediction import Measured
from wavesim.recordings.shipped import FOLDER
from wavesim.safe_io.documents import read_json
from wavesim.safe_io.writing import write_bytes

FILE = FOLDER / "predictions.json.xz"
# Points or percent. A time that another processor rounds to the next nanosecond moves them by far less.
SAME = 0.005
MAX_BYTES = 1 << 26
ByJob = Sequence[Sequence[ScoredPrediction]]


def committed_predictions(path: Path = FILE) -> list[list[ScoredPrediction]]:
    """Those of each job, in the order of `validation.all_jobs`. Raises `RecordingError`."""
    jobs = read_json(path, MAX_BYTES)
    return [[_read(entry) for entry in job] for job in jobs]


def write_predictions(by_job: ByJob, path: Path = FILE) -> None:
    """Stores them, to be committed with the scores; the same predictions are the same bytes."""
    document = json.dumps([[asdict(entry) for entry in job] for job in by_job])
    write_bytes(path, lzma.compress(document.encode(), preset=9))


def differences(by_job: ByJob, committed: ByJob) -> list[str]:
    """What of the same jobs is not as it was committed, in words."""
    if len(by_job) != len(committed):
        return [f"{len(by_job)} jobs, {len(committed)} were committed"]
    pairs = zip(by_job, committed, strict=True)
    return [words for ours, theirs in pairs for words in _differences(ours, theirs)]


def _differences(scored: Sequence[ScoredPrediction], committed: Sequence[ScoredPrediction]) -> Iterator[str]:
    if len(scored) != len(committed):
        name = next(entry.name for entry in (*scored, *committed))
        yield f"the job of {name}: {len(scored)} predictions, {len(committed)} were committed"
        return
    for ours, theirs in zip(scored, committed, strict=True):
        before = asdict(theirs)
        for field, value in asdict(ours).items():
            if not _is_same(value, before[field]):
                yield f"{ours.source} {ours.name}: {field} is {value!r}, was {before[field]!r}"
                break


def _is_same(value: Any, before: Any) -> bool:
    if isinstance(value, float) and isinstance(before, float):
        return abs(value - before) <= SAME
    if isinstance(value, dict) and isinstance(before, dict):
        return value.keys() == before.keys() and all(_is_same(value[key], before[key]) for key in value)
    if isinstance(value, tuple) and isinstance(before, tuple):
        return len(value) == len(before) and all(map(_is_same, value, before))
    return bool(value == before)


def _read(entry: dict[str, Any]) -> ScoredPrediction:
    tuples = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    return ScoredPrediction(**{**entry, **tuples, "measured": Measured(**entry["measured"])})
