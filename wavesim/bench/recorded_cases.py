"""Our own recordings, predicted: from the stream-sync trace, from two kernel times, and replayed.

Example: of GPT-3's MLP at 1024 tokens, 128 x 256 tiles, the stream-sync recording is all that a prediction
may look at; the row and tile recordings measured in turns with it are what it is held against.
"""

from functools import partial
from pathlib import Path

from wavesim.bench.jobs import Job
from wavesim.bench.scored_case import ScoredPrediction, ceil_formula, told_otherwise
from wavesim.costs.calibration import calibrate
from wavesim.costs.calibration_checks import beats_work_conservation, contradictions
from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.predict.intervals import spread_points
from wavesim.predict.kernel_times import kernel_times_of
from wavesim.predict.kinds import STREAM_TRACE, kernel_times_kind, known_text, trace_kind
from wavesim.predict.prediction import (
    improvement_points,
    measured_improvement,
    predict_from_stream,
    predict_plans_from_kernel_times,
    replay,
)
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.trace.trace import Trace
from wavesim.workloads.catalogue import parse_tile, workload


def recorded_jobs(folder: Path | None = None) -> list[Job]:
    """One job for each recorded case: the predictions of all its plans but stream sync."""
    return [partial(predictions_of_case, case) for case in cases(folder)]


def predictions_of_case(case: RecordedCase) -> list[ScoredPrediction]:
    """Of each plan two: from the stream-sync trace, and from the two kernel times alone."""
    pipeline = workload(case.workload, case.tokens, parse_tile(case.tile))
    device, stream = devices.load(case.device), case.trace("stream")
    names = sorted(set(case.paths) - {"stream"})
    plans = [parse_plan(name, case.order) for name in names]
    by_times = predict_plans_from_kernel_times(pipeline, plans, device, kernel_times_of(stream))
    predictions = []
    for name, (trace, points) in zip(names, by_times, strict=True):
        scored = _from_trace(case, pipeline, device, stream, name)
        kind, spread = kernel_times_kind(pipeline, device, scored.blocks_per_sm), spread_points(trace, points)
        predictions += [scored, told_otherwise(scored, "own-kernel-times", kind, points, spread=spread)]
    return predictions


def _from_trace(
    case: RecordedCase, pipeline: Pipeline, device: Device, stream: Trace, name: str
) -> ScoredPrediction:
    measured = case.trace(name)
    trace, predicted = predict_from_stream(pipeline, parse_plan(name, case.order), device, stream)
    late_ns = replay(pipeline, measured, device).makespan_ns - measured.makespan_ns
    per_sm = [info.blocks_per_sm for info in stream.header.stages]
    return ScoredPrediction(
        case=case.name,
        plan=name,
        source="own",
        family="first GEMM",
        group=f"{case.workload} {case.tile} M={case.tokens}",
        kind=trace_kind(known_text(STREAM_TRACE, pipeline), stream.header.stages),
        predicted=predicted,
        measured=measured_improvement(measured, stream),
        ceil_formula=ceil_formula(stream),
        time_error_percent=100.0 * (trace.time_ns / measured.time_ns - 1.0),
        device=device.name,
        blocks_per_sm=max(per_sm),
        spread=spread_points(trace, predicted),
        in_cycles=_improvement_in_cycles(measured, stream),
        replay_error_points=100.0 * late_ns / stream.makespan_ns,
        replay_error_percent=100.0 * late_ns / measured.makespan_ns,
        outlier=_why_not_scored(pipeline, device, stream, measured),
    )


def _why_not_scored(pipeline: Pipeline, device: Device, stream: Trace, measured: Trace) -> str:
    """A calibration run faster than the device can be, or a run that beats it by more than scheduling can."""
    flags = contradictions(pipeline, device, kernel_times_of(stream))
    return "; ".join(flags) or beats_work_conservation(measured.time_ns, pipeline, device, calibrate(stream))


def _improvement_in_cycles(trace: Trace, stream: Trace) -> float | None:
    """Improvement of the recorded passes in SM cycles: makespan times the mean clock of its blocks."""
    cycles = [entry.makespan_ns * _clock_ghz(entry) for entry in (trace, stream) if entry.cycles is not None]
    return improvement_points(cycles[0], cycles[1]) if len(cycles) == 2 else None


def _clock_ghz(trace: Trace) -> float:
    assert trace.cycles is not None
    return float(trace.cycles.sum() / (trace.end_ns - trace.start_ns).sum())
