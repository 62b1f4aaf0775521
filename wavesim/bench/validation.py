"""Validation: the simulator scored against every stored measurement, recomputed each time.

Example: for each recorded size, tile, order and policy the improvement is predicted from what a user would
have had before, and compared with the measurement. The score is of the test split alone. It stands beside
the noise of the measurement and two rivals: "no gain", and the ceil(waves) formula.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from wavesim.bench.blind_predictions import FROM_TIMES, blind_jobs
from wavesim.bench.blind_predictions import SOURCE as BLIND
from wavesim.bench.blind_sizes import SEMAPHORES
from wavesim.bench.foreign_runs import SOURCES as FOREIGN
from wavesim.bench.foreign_runs import foreign_jobs
from wavesim.bench.interval_fit import LeftOut, widths_of
from wavesim.bench.jobs import Job, run_jobs
from wavesim.bench.left_out_cases import left_out_jobs
from wavesim.bench.product_cases import SOURCE as PRODUCTS
from wavesim.bench.product_cases import product_jobs
from wavesim.bench.published_cases import published_jobs
from wavesim.bench.recorded_cases import recorded_jobs
from wavesim.bench.scored_case import ScoredPrediction
from wavesim.bench.sketch_cases import sketch_jobs
from wavesim.predict.intervals import Widths
from wavesim.predict.score_history import SCORES, SetScore, committed_scores
from wavesim.recordings.split import Split
from wavesim.safe_io.writing import write_text

GAIN_THAT_COUNTS = 2.0  # points; below it the sign of a gain is not scored
TOLERANCE_POINTS = 0.05  # by which an error may exceed the committed one


def predictions(folder: Path | None = None) -> list[ScoredPrediction]:
    """Predicts every overlapped recording of our own, those that ship or those of another folder."""
    return run_jobs(recorded_jobs(folder))


def all_jobs() -> list[Job]:
    """What predicts every stored measurement: recordings, blind runs, published rows and sketches."""
    jobs = [*recorded_jobs(), *blind_jobs(), *foreign_jobs(), *published_jobs(), *sketch_jobs()]
    return [*jobs, *left_out_jobs(), *product_jobs()]


def sets_of(scored: Sequence[ScoredPrediction]) -> dict[str, list[ScoredPrediction]]:
    """The named sets that the predictions fill, both splits, outliers left out."""
    sets = {name: [p for p in members if not p.outlier] for name, members in whole_sets(scored).items()}
    return {name: members for name, members in sets.items() if members}


def whole_sets(scored: Sequence[ScoredPrediction]) -> dict[str, list[ScoredPrediction]]:
    """The same with the outliers that count for coverage."""
    scored = [p for p in scored if not p.is_told_elsewhere]
    own = [p for p in scored if p.source == "own"]
    sets = {
        "own-1-block": [p for p in own if p.blocks_per_sm == 1],
        "own-1-block-row": [p for p in own if p.blocks_per_sm == 1 and p.plan == "row"],
        "own-2-blocks": [p for p in own if p.blocks_per_sm >= 2],
        "own-all": own,
        **blind_sets(scored),
        **{name: [p for p in scored if p.source == name] for name in _OTHERS},
        **{f"blind-{name}": [p for p in scored if p.source == name] for name in FOREIGN.values()},
    }
    return {name: members for name, members in sets.items() if members}


def blind_sets(scored: Sequence[ScoredPrediction]) -> dict[str, list[ScoredPrediction]]:
    """The named sets of the blind runs, and all plans with semaphores together; rivals only by name.

    The first run's sets have plain names; those of later runs say the device: "blind-h200-hopper".
    """
    blind = [p for p in scored if p.source == BLIND]
    first = min((p.run for p in blind), default="")
    sets: dict[str, list[ScoredPrediction]] = {}
    for entry in blind:
        for name in [entry.set_name] if entry.run == first else _later_sets(entry):
            sets.setdefault(name, []).append(entry)
    judged = [p for p in blind if p.plan in SEMAPHORES and p.run == first]
    return dict(sorted(sets.items())) | {"judged-all": judged}


def _later_sets(scored_prediction: ScoredPrediction) -> Iterator[str]:
    yield f"blind-{scored_prediction.device}-{scored_prediction.family}"
    if scored_prediction.family == "chain":
        yield "blind-chains"
    if scored_prediction.plan in SEMAPHORES:
        yield f"blind-{scored_prediction.device}-all"


def scores(scored: Sequence[ScoredPrediction], split: Split = "test") -> list[SetScore]:
    """The scores of all sets, of one split: those of the test split are what is claimed."""
    widths, whole = widths_of(scored), whole_sets(scored)
    chosen = {name: [p for p in members if p.split == split] for name, members in sets_of(scored).items()}
    result = [
        _score(name, members, [p for p in whole[name] if p.split == split], widths)
        for name, members in chosen.items()
        if members
    ]
    for name, of in (("own-replay", "own-all"), ("judged-replay", "judged-all")):
        replayed = [p for p in chosen.get(of, []) if p.replay_error_points is not None]
        result += [_replay_score(name, replayed)] if replayed else []
    return result


_OTHERS = (
    PRODUCTS,
    "own-kernel-times",
    FROM_TIMES,
    "sketch",
    "foreign-sketch",
    "foreign-sketch-profile",
    "published-mlp-no-constants",
    "published-mlp",
    "published-mlp-small",
    "published-unequal-tiles",
    "published-other-clock",
    "published-other-split",
    "left-out-h100",
    "published-resnet",
    "published-vgg",
)


def outliers(scored: Sequence[ScoredPrediction]) -> list[str]:
    """Cases that are named but not scored, each once, with the reason."""
    return list(dict.fromkeys(f"{p.name}: {p.outlier}" for p in scored if p.outlier))


def _score(
    name: str, members: list[ScoredPrediction], with_outliers: list[ScoredPrediction], widths: Widths
) -> SetScore:
    errors = [p.error for p in members]
    times = [p.time_error_percent for p in members]
    in_cycles = [p.predicted - p.in_cycles for p in members if p.in_cycles is not None]
    counted = [p for p in members if abs(p.measured.median) >= GAIN_THAT_COUNTS]
    agreeing = sum((p.predicted > 0) == (p.measured.median > 0) for p in counted)
    halves = [widths.half_width(p.kind, p.spread, p.device) for p in with_outliers]
    inside = [p.outside <= half for p, half in zip(with_outliers, halves, strict=True)]
    registered = [(p.before_interval, p.measured.median) for p in with_outliers if p.before_interval]
    inside_before = [low <= measured <= high for (low, high), measured in registered]
    apart = [max(p.repeats) - min(p.repeats) for p in members if len(p.repeats) > 1]
    before = [p.before - p.measured.median for p in members if p.before is not None]
    return SetScore(
        name=name,
        cases=len(members),
        median_abs_error_points=_median(errors),
        p90_abs_error_points=_p90(errors),
        sign_agreement=round(agreeing / len(counted), 3) if counted else None,
        noise_points=_median([(p.measured.high - p.measured.low) / 2 for p in members]),
        no_gain_median_points=_median([p.measured.median for p in members]),
        ceil_formula_median_points=_median([p.ceil_formula - p.measured.median for p in members]),
        median_time_error_percent=_median(times),
        p90_time_error_percent=_p90(times),
        median_abs_error_cycles_points=_median(in_cycles) if in_cycles else None,
        p90_abs_error_cycles_points=_p90(in_cycles) if in_cycles else None,
        coverage=round(float(np.mean(inside)), 3),
        median_half_width_points=_median(halves),
        repeat_noise_points=_median(apart) if apart else None,
        before_median_abs_error_points=_median(before) if before else None,
        before_p90_abs_error_points=_p90(before) if before else None,
        coverage_before=round(float(np.mean(inside_before)), 3) if inside_before else None,
        device=" and ".join(sorted({p.device for p in members})),
    )


def _replay_score(name: str, replayed: Sequence[ScoredPrediction]) -> SetScore:
    points = [p.replay_error_points or 0.0 for p in replayed]
    percent = [p.replay_error_percent or 0.0 for p in replayed]
    return SetScore(
        name=name,
        cases=len(points),
        median_abs_error_points=_median(points),
        p90_abs_error_points=_p90(points),
        median_time_error_percent=_median(percent),
        p90_time_error_percent=_p90(percent),
    )


def _median(values: Sequence[float]) -> float:
    return round(float(np.median(np.abs(values))), 3)


def _p90(values: Sequence[float]) -> float:
    return round(float(np.percentile(np.abs(values), 90)), 3)


def write_scores(set_scores: Sequence[SetScore], apart: Sequence[LeftOut]) -> None:
    """Stores the scores beside the recordings they were computed from, to be committed with them."""
    document = {
        "sets": [asdict(set_score) for set_score in set_scores],
        "left_out": [asdict(entry) for entry in apart],
    }
    write_text(SCORES, json.dumps(document, indent=1) + "\n")


def worse_sets(set_scores: list[SetScore]) -> list[str]:
    """What is worse than the committed scores, in words: an error up by over 0.05 points, or fewer cases."""
    before = committed_scores()
    complaints = []
    for score in set_scores:
        old = before.get(score.name)
        if old is None:
            continue
        for name in ("median_abs_error_points", "p90_abs_error_points"):
            was, now = getattr(old, name), getattr(score, name)
            if now > was + TOLERANCE_POINTS:
                complaints.append(f"{score.name}: {name} is {now}, was {was}")
        if score.cases < old.cases:
            complaints.append(f"{score.name}: {score.cases} cases, were {old.cases}")
    return complaints + [
        f"{name}: no cases, were {old.cases}"
        for name, old in before.items()
        if name not in {s.name for s in set_scores}
    ]
