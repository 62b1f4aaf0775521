"""Blind runs, predicted: what was registered before the plans ran, and what the model says now.

Example: of a GPT-3 MLP of 1,408 tokens in row order there are three numbers for row semaphores:
predicted on the device before they had run, predicted by the model of today, and measured, twice.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from wavesim.bench.blind_runs import (
    BlindRun,
    MeasuredComparison,
    RegisteredPrediction,
    find_runs,
    pooled,
)
from wavesim.bench.blind_sizes import BASELINE, SEMAPHORES, BlindSize
from wavesim.bench.jobs import Job
from wavesim.bench.scored_case import ScoredPrediction, ceil_formula, time_error_percent, told_otherwise
from wavesim.costs.calibration import calibrate
from wavesim.costs.calibration_checks import beats_work_conservation
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.plan.parsing import parse_plan
from wavesim.predict.intervals import spread_points
from wavesim.predict.kernel_times import kernel_times_of
from wavesim.predict.kinds import STREAM_TRACE, kernel_times_kind, known_text, trace_kind
from wavesim.predict.prediction import (
    Measured,
    improvement_of_rounds,
    predict_from_kernel_times,
    predict_from_stream,
    replay,
)
from wavesim.trace.trace import Trace

SOURCE = "judged"  # as scores and scripts call it
FROM_TIMES = "judged-kernel-times"  # the same plans, predicted from the kernels' times alone


def blind_jobs(folder: Path | None = None) -> list[Job]:
    """One job for each size of each run. Raises `RecordingError` for a run that was changed."""
    return [partial(_of_size, run.folder, size) for run in find_runs(folder) for size in run.sizes()]


@lru_cache(maxsize=1)
def _run(folder: Path, _changed_ns: int) -> BlindRun:
    """The run in a folder, read once by each process for as long as it stays the same."""
    return BlindRun(folder)


def _of_size(folder: Path, size: BlindSize) -> list[ScoredPrediction]:
    run = _run(folder, max(path.stat().st_mtime_ns for path in folder.iterdir()))
    repeats = run.comparisons[size.name]
    streams = {order: run.stream(size, order) for order in {order for order, _ in repeats[0].rounds}}
    result = []
    for choice in repeats[0].rounds:
        before = run.predictions.get((size.name, *choice))
        if before is None or before.plan == BASELINE or before.error:
            continue
        scored = _scored(run, size, streams[before.order], before, repeats)
        result.append(scored)
        from_times = run.predictions_from("kernel-times").get((size.name, *choice))
        if from_times is not None and not from_times.error:
            device = devices.load(run.facts["device"])
            result.append(_scored_from_times(scored, size, device, streams[before.order], from_times))
    return result


def _scored_from_times(
    scored: ScoredPrediction, size: BlindSize, device: Device, stream: Trace, before: RegisteredPrediction
) -> ScoredPrediction:
    """The same plan as predicted from the kernels' times alone."""
    pipeline, plan = size.pipeline(), parse_plan(before.plan, before.order)
    trace, points = predict_from_kernel_times(pipeline, plan, device, kernel_times_of(stream))
    changes = {
        "before": before.improvement_points,
        "before_interval": before.interval,
        "spread": spread_points(trace, points),
    }
    kind = kernel_times_kind(pipeline, device, scored.blocks_per_sm)
    return told_otherwise(scored, FROM_TIMES, kind, points, **changes)


def _scored(
    run: BlindRun,
    size: BlindSize,
    stream: Trace,
    before: RegisteredPrediction,
    repeats: Sequence[MeasuredComparison],
) -> ScoredPrediction:
    word, order, device = before.plan, before.order, devices.load(run.facts["device"])
    pipeline = size.pipeline()
    trace, predicted = predict_from_stream(pipeline, parse_plan(word, order), device, stream)
    each = [_improvement([repeat], order, word) for repeat in repeats if (order, word) in repeat.rounds]
    whole = [repeat for repeat in repeats if (order, word) in repeat.rounds]
    measured = _improvement(whole, order, word)
    late = _replay_error_ns(run, size, order, word, device)
    measured_ns = stream.time_ns * (1.0 - measured.median / 100.0)  # at the clock that the tile times are of
    return ScoredPrediction(
        case=f"{size.name} {order}",
        plan=word,
        group=size.name,
        source=SOURCE,
        set_name=size.set_name if word in SEMAPHORES else f"{size.stored.backend}-{word}",
        run=run.name,
        kind=trace_kind(known_text(STREAM_TRACE, pipeline), stream.header.stages, word),
        family=size.family if word in SEMAPHORES else word,
        predicted=predicted,
        before=before.improvement_points,
        before_interval=before.interval,
        measured=measured,
        repeats=tuple(entry.median for entry in each),
        ceil_formula=ceil_formula(stream),
        time_error_percent=time_error_percent(predicted, measured.median),
        device=device.name,
        blocks_per_sm=max(info.blocks_per_sm for info in stream.header.stages),
        spread=spread_points(trace, predicted),
        in_cycles=_in_cycles(whole, order, word),
        replay_error_points=100.0 * late[0] / stream.makespan_ns if late else None,
        replay_error_percent=100.0 * late[0] / late[1] if late else None,
        outlier=beats_work_conservation(measured_ns, pipeline, device, calibrate(stream)),
    )


def _improvement(comparisons: Sequence[MeasuredComparison], order: str, word: str) -> Measured:
    return improvement_of_rounds(pooled(comparisons, order, word).ns, pooled(comparisons, order, BASELINE).ns)


def _in_cycles(comparisons: Sequence[MeasuredComparison], order: str, word: str) -> float | None:
    """Improvement in SM cycles: each round's time times its own clock."""
    ours, theirs = (pooled(comparisons, order, entry) for entry in (word, BASELINE))
    if not all(clock > 0 for clock in (*ours.ghz, *theirs.ghz)):  # 0 where no SM left both stamps
        return None
    cycles = [[ns * ghz for ns, ghz in zip(side.ns, side.ghz, strict=True)] for side in (ours, theirs)]
    return improvement_of_rounds(*cycles).median


def _replay_error_ns(
    run: BlindRun, size: BlindSize, order: str, word: str, device: Device
) -> tuple[int, int] | None:
    """(simulated minus measured makespan, measured makespan) with the run's own tile times.

    None for what left no trace, and where a tile's start and end say nothing of its work: under dependent
    launch it waits unseen, in persistent kernels tiles of a block overlap.
    """
    if word not in SEMAPHORES or size.is_persistent:
        return None
    trace = run.trace(size, order, word)
    if trace is None:
        return None
    return replay(size.pipeline(), trace, device).makespan_ns - trace.makespan_ns, trace.makespan_ns


def model_standing(run: BlindRun, sources_now: str) -> str:
    """One line: which predictions these are, and whether the model has changed since."""
    made_by = run.made_by
    is_same = made_by.get("model_sources") == sources_now
    return (
        f"{run.name}: predictions written before the plans ran, SHA-256 {run.stamp[:16]}, by commit "
        f"{made_by.get('commit', '')[:12] or 'unknown'}; the model "
        + ("is the same now" if is_same else "has changed since: 'before' is what it said then")
    )


def clock_drift_percent(run: BlindRun) -> list[float]:
    """Per case, stream sync in turns with the plans over stream sync by itself before: what the clock did."""
    return [
        100.0 * (float(np.median(first.rounds[order, BASELINE].ns)) / run.stream(size, order).time_ns - 1.0)
        for size in run.sizes()
        for first in run.comparisons[size.name][:1]
        for order in size.orders
        if (order, BASELINE) in first.rounds
    ]


def unmeasured(run: BlindRun) -> list[str]:
    """What the run could not measure or predict, by name, with the reason."""
    failed = [f"{name}: {reason}" for name, reason in run.facts.get("failures", {}).items()]
    return failed + [
        f"{prediction.size} {prediction.order} {prediction.plan}: not predicted: {prediction.error}"
        for prediction in run.predictions.values()
        if prediction.error
    ]
