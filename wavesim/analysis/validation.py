"""Validation: the simulator scored against every shipped recording, recomputed each time.

Picture: for each recorded size, tile, order and policy the improvement is predicted from the
stream-sync recording and `OVERHEADS` and compared with the interleaved measurement. The score stands beside
the noise of the measurement and two rivals: "no gain", and the ceil(waves) formula.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from wavesim.analysis.prediction import (
    Measured,
    improvement_points,
    measured_improvement,
    predict_from_stream,
    replay,
)
from wavesim.io.recordings import FOLDER, Case, cases
from wavesim.model import device as devices
from wavesim.model.plan import parse_plan
from wavesim.trace import Trace
from wavesim.workloads.catalogue import parse_tile, workload

SCORES = FOLDER / "scores.json"
GAIN_THAT_COUNTS = 2.0  # points; below it the sign of a gain is not scored


@dataclass(frozen=True)
class Prediction:
    """One overlapped plan of one case: predicted from its stream-sync run, and as measured, in points."""

    case: str
    plan: str
    blocks_per_sm: int
    predicted: float
    measured: Measured
    ceil_formula: float
    replay_error_percent: float

    @property
    def error(self) -> float:
        """Predicted minus measured improvement."""
        return self.predicted - self.measured.median


@dataclass(frozen=True)
class Score:
    """One set of predictions; the names are those of `wavesim validate --json`.

    Errors are absolute, in points of improvement. `noise_points` is the median half-width between
    quartiles of the paired rounds. `sign_agreement` is over cases that gained or lost 2 points or
    more; None if there are none. For the replay set the errors are those of the makespan, in percent.
    """

    name: str
    cases: int
    median_abs_error_points: float
    p90_abs_error_points: float
    sign_agreement: float | None
    noise_points: float
    no_gain_median_points: float
    ceil_formula_median_points: float


def predictions(
    folder: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> list[Prediction]:
    """Predicts every overlapped recording. `progress(done, total)`, if given, is called after each case."""
    found = cases(folder)
    result: list[Prediction] = []
    for done, case in enumerate(found, start=1):
        result += _of_case(case)
        if progress is not None:
            progress(done, len(found))
    return result


def _of_case(case: Case) -> Iterator[Prediction]:
    pipeline = workload(case.workload, case.tokens, parse_tile(case.tile))
    device = devices.load(case.device)
    stream = case.trace("stream")
    for name in sorted(set(case.paths) - {"stream"}):
        measured = case.trace(name)
        _, predicted = predict_from_stream(pipeline, parse_plan(name, case.order), device, stream)
        again = replay(pipeline, measured, device)
        yield Prediction(
            case=case.name,
            plan=name,
            blocks_per_sm=max(info.blocks_per_sm for info in stream.header.stages),
            predicted=predicted,
            measured=measured_improvement(measured, stream),
            ceil_formula=ceil_formula(stream),
            replay_error_percent=100.0 * (again.makespan_ns / measured.makespan_ns - 1.0),
        )


def ceil_formula(stream: Trace) -> float:
    """Improvement by counting waves: 1 - ceil(sum of waves) / sum of ceil(waves), in points.

    The formula everybody uses; holds for equal tile times only. Source: paper, Table IV.
    """
    sms = stream.header.sm_count
    waves = [int(np.prod(info.grid)) / (sms * info.blocks_per_sm) for info in stream.header.stages]
    return improvement_points(ceil(sum(waves)), sum(ceil(count) for count in waves))


def scores(found: list[Prediction]) -> list[Score]:
    """The scores of all sets that the predictions fill."""
    sets: Mapping[str, list[Prediction]] = {
        "own-1-block": [p for p in found if p.blocks_per_sm == 1],
        "own-1-block-row": [p for p in found if p.blocks_per_sm == 1 and p.plan == "row"],
        "own-2-blocks": [p for p in found if p.blocks_per_sm == 2],
        "own-all": found,
    }
    result = [_score(name, members, [p.error for p in members]) for name, members in sets.items() if members]
    if found:
        replayed = _score("own-replay", found, [p.replay_error_percent for p in found])
        result.append(replace(replayed, sign_agreement=None))
    return result


def _score(name: str, members: list[Prediction], errors: list[float]) -> Score:
    absolute = np.abs(errors)
    measured = np.array([p.measured.median for p in members])
    counted = [p for p in members if abs(p.measured.median) >= GAIN_THAT_COUNTS]
    agreeing = sum((p.predicted > 0) == (p.measured.median > 0) for p in counted)
    return Score(
        name=name,
        cases=len(members),
        median_abs_error_points=round(float(np.median(absolute)), 3),
        p90_abs_error_points=round(float(np.percentile(absolute, 90)), 3),
        sign_agreement=round(agreeing / len(counted), 3) if counted else None,
        noise_points=round(float(np.median([(p.measured.high - p.measured.low) / 2 for p in members])), 3),
        no_gain_median_points=round(float(np.median(np.abs(measured))), 3),
        ceil_formula_median_points=round(
            float(np.median(np.abs([p.ceil_formula - p.measured.median for p in members]))), 3
        ),
    )


def committed_scores() -> dict[str, Score]:
    """The scores as last committed with the package, by set name; empty if there are none."""
    if not SCORES.exists():
        return {}
    return {entry["name"]: Score(**entry) for entry in json.loads(SCORES.read_text())["sets"]}


def write_scores(found: list[Score]) -> None:
    """Stores the scores beside the recordings they were computed from, to be committed with them."""
    SCORES.write_text(json.dumps({"sets": [asdict(score) for score in found]}, indent=1) + "\n")


def worse_sets(found: list[Score]) -> list[str]:
    """What is worse than the committed scores, in words: an error up by over 0.05 points, or fewer cases."""
    before = committed_scores()
    complaints = []
    for score in found:
        old = before.get(score.name)
        if old is None:
            continue
        for name in ("median_abs_error_points", "p90_abs_error_points"):
            was, now = getattr(old, name), getattr(score, name)
            if now > was + 0.05:
                complaints.append(f"{score.name}: {name} is {now}, was {was}")
        if score.cases < old.cases:
            complaints.append(f"{score.name}: {score.cases} cases, were {old.cases}")
    return complaints + [
        f"{name}: no cases, were {old.cases}"
        for name, old in before.items()
        if name not in {s.name for s in found}
    ]
