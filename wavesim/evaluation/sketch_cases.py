"""The dataset "sketch", predicted: throw-away kernels on an H200, each from its stream-sync trace.

Example: the wmma kernel in 128 x 256 tiles at 1,024 tokens: from the trace of its stream-sync run, row and
tile semaphores. Its kernels wait in other ways than ours, so that a wait has a cost of its own here.
"""

from functools import partial

from wavesim.evaluation.jobs import Job
from wavesim.evaluation.recorded_cases import ceil_formula
from wavesim.evaluation.scored_case import ScoredPrediction
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.kinds import kind_of
from wavesim.predict.prediction import Measured, calibrate_for, predict_plans
from wavesim.recordings.sketches import SketchCase, sketch_cases
from wavesim.trace.trace import Trace


def sketch_jobs() -> list[Job]:
    """One job for each sketch: its row and its tile plan, from its stream-sync trace."""
    return [partial(predictions_of_sketch, case) for case in sketch_cases()]


def predictions_of_sketch(case: SketchCase) -> list[ScoredPrediction]:
    """Row and tile semaphores of one sketch kernel, tile, size and order."""
    stream = case.trace("stream")
    costs = calibrate_for(case.pipeline, case.device, stream)
    plans = [SemaphoreSync(policy, order=case.order) for policy in (RowSync(), TileSync())]
    found = predict_plans(case.pipeline, plans, case.device, costs)
    return [
        _sketch(case, plan.name, stream, trace, points)
        for plan, (trace, points) in zip(plans, found, strict=True)
    ]


def _sketch(case: SketchCase, name: str, stream: Trace, trace: Trace, predicted: float) -> ScoredPrediction:
    stream_us, time_us = case.time_us["stream"], case.time_us[name]
    measured = 100.0 * (1.0 - time_us / stream_us)
    noise = 67.4 * 2**0.5 * case.stream_sd_us / stream_us
    return ScoredPrediction(
        case=case.name,
        plan=name,
        source="sketch",
        kind=kind_of("sketch trace", case.blocks_per_sm),
        group=case.group,
        predicted=predicted,
        measured=Measured(measured, measured - noise, measured + noise),
        ceil_formula=ceil_formula(stream),
        time_error_percent=100.0 * (trace.time_ns / (1_000 * time_us) - 1.0),
        device=case.device.name,
        blocks_per_sm=case.blocks_per_sm,
    )
