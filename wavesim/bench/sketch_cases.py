"""The dataset "sketch", predicted: throw-away kernels on an H200, by what may be known of them.

Example: the wmma kernel in 128 x 256 tiles at 1,024 tokens, row and tile semaphores: from the trace of its
stream-sync run; from two kernel times and where its author says that it waits; and from the times alone. Its
kernels wait in other ways than ours, so that a wait has a cost of its own here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from wavesim.bench.jobs import Job
from wavesim.bench.scored_case import ScoredPrediction, ceil_formula, told_otherwise
from wavesim.model.kernel import UNKNOWN_LOOP
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.defaults import described_costs
from wavesim.predict.intervals import spread_points
from wavesim.predict.kernel_times import kernel_times_of
from wavesim.predict.kinds import STREAM_TRACE, known_text, trace_kind
from wavesim.predict.prediction import Measured, calibrate_for, predict_plans
from wavesim.recordings.sketches import SketchCase, sketch_cases
from wavesim.trace.trace import Trace
from wavesim.work.gemm.reads import gemm_rows


def sketch_jobs() -> list[Job]:
    """One job for each sketch: its row and its tile plan, on every basis."""
    return [partial(predictions_of_sketch, case) for case in sketch_cases()]


def predictions_of_sketch(case: SketchCase) -> list[ScoredPrediction]:
    """Row and tile semaphores of one sketch kernel, tile, size and order."""
    stream = case.trace("stream")
    costs = calibrate_for(case.pipeline, case.device, stream)
    plans = [SemaphoreSync(policy, order=case.order) for policy in (RowSync(), TileSync())]
    result = predict_plans(case.pipeline, plans, case.device, costs)
    scored = [
        _sketch(case, plan.name, stream, trace, points)
        for plan, (trace, points) in zip(plans, result, strict=True)
    ]
    by_plan = dict(zip(plans, scored, strict=True))
    described = {"foreign-sketch": case.pipeline, "foreign-sketch-profile": _as_profiled(case.pipeline)}
    for source, pipeline in described.items():
        scored += _from_kernel_times(case, source, pipeline, stream, by_plan)
    return scored


def _as_profiled(pipeline: Pipeline) -> Pipeline:
    """The same kernels where nobody has said how they wait."""
    stages = [replace(stage, main_loop=UNKNOWN_LOOP) for stage in pipeline.stages]
    return Pipeline(pipeline.name, stages, [gemm_rows(*stages)], pipeline.parameters)


def _from_kernel_times(
    case: SketchCase,
    source: str,
    pipeline: Pipeline,
    stream: Trace,
    scored: Mapping[Plan, ScoredPrediction],
) -> Iterator[ScoredPrediction]:
    """The same plans as a user's description of the kernels is predicted, with what it leaves open."""
    known = described_costs(pipeline, case.device, kernel_times_of(stream))
    for plan, entry in scored.items():
        trace, result = known.predicted(pipeline, plan, StreamSync(case.order), case.device)
        changes = {"scenarios": result.scenarios, "spread": spread_points(trace, result.points)}
        yield told_otherwise(entry, source, result.kind, result.points, **changes)


def _sketch(case: SketchCase, name: str, stream: Trace, trace: Trace, predicted: float) -> ScoredPrediction:
    stream_us, time_us = case.time_us["stream"], case.time_us[name]
    measured = 100.0 * (1.0 - time_us / stream_us)
    noise = 67.4 * 2**0.5 * case.stream_sd_us / stream_us
    return ScoredPrediction(
        case=case.name,
        plan=name,
        source="sketch",
        kind=trace_kind(known_text(STREAM_TRACE, case.pipeline), stream.header.stages, name),
        family=f"{case.kernel} sketch",
        group=case.group,
        predicted=predicted,
        measured=Measured(measured, measured - noise, measured + noise),
        ceil_formula=ceil_formula(stream),
        time_error_percent=100.0 * (trace.time_ns / (1_000 * time_us) - 1.0),
        device=case.device.name,
        blocks_per_sm=case.blocks_per_sm,
        spread=spread_points(trace, predicted),
    )
