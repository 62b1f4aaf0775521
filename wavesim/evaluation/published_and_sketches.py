"""Measurements that are not ours, predicted: published rows from kernel times, sketches from their traces.

Example: V100, LLaMA, 2048 tokens, row semaphores: from 1465 and 724 us, tiles and split-K alone. Rows that no
scheduler can predict from their baseline are named with the reason, and left out of the score.
"""

from dataclasses import replace
from functools import partial

from wavesim.costs.calibration_checks import beats_work_conservation
from wavesim.costs.device_costs import (
    DeviceCosts,
    costs_of,
    with_host_sync,
    without_constants,
)
from wavesim.evaluation.jobs import Job
from wavesim.evaluation.recorded_cases import ceil_formula
from wavesim.evaluation.scored_case import ScoredPrediction, by_ceil_formula
from wavesim.model.occupancy import occupancy_of
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.predict.intervals import spread_points
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.kinds import kernel_times_kind, kind_of
from wavesim.predict.prediction import Measured, calibrate_for, predict_from_kernel_times, predict_plans
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.recordings.sketches import SketchCase, sketch_cases
from wavesim.trace.trace import Trace

SMALLEST_SIZE = 128  # tokens; below it the published MLPs are bound by memory
# Nanoseconds per wait, fitted to the development half in steps of 125: in one kernel all warps wait at a
# barrier, and longer with two blocks on the SM; in the other one warp of many waits ahead of need, too little
# ahead where a tile computes no longer on a producer tile's columns than looking at a semaphore takes.
SKETCH_WAIT_NS = {
    ("wmma", (128, 256)): 750,
    ("wmma", (256, 128)): 750,
    ("wmma", (128, 128)): 1_250,
    ("wgmma", (128, 256)): 0,
    ("wgmma", (128, 128)): 375,
}


def published_jobs() -> list[Job]:
    """All published MLPs, and all published convolutions."""
    return [published_mlps, published_convolutions]


def published_mlps() -> list[ScoredPrediction]:
    """Every published MLP row, with the device's constants and with none."""
    found = []
    for run in published_runs("mlp"):
        source = "published-mlp" if run.size >= SMALLEST_SIZE else "published-mlp-small"
        known = costs_of(run.device.name)
        found += [
            _published(run, known, source, kernel_times_kind(run.pipeline, run.device, 1)),
            _published(run, without_constants(), f"{source}-no-constants", "kernel times, no constants"),
        ]
    return found


def published_convolutions() -> list[ScoredPrediction]:
    """Every published pair of convolutions, with a host that waits between the two kernels."""
    return [
        _published(
            run, with_host_sync(costs_of(run.device.name)), "published-resnet", "kernel times, host waits"
        )
        for run in published_runs("conv")
    ]


def _published(run: PublishedRun, known: DeviceCosts, source: str, kind: str) -> ScoredPrediction:
    trace, predicted = predict_from_kernel_times(run.pipeline, run.plan, run.device, run.kernel_ns, known)
    measured, noise = run.improvement_points, run.noise_points
    stages = run.pipeline.stages
    per_sm = [occupancy_of(run.device, stage.kernel.block).blocks_per_sm for stage in stages]
    slots = [run.device.sm_count * count for count in per_sm]
    return ScoredPrediction(
        case=run.case,
        plan=run.policy,
        source=source,
        kind=kind,
        group=run.case,
        predicted=predicted,
        measured=Measured(measured, measured - noise, measured + noise),
        ceil_formula=by_ceil_formula([stage.grid.size for stage in stages], slots),
        time_error_percent=100.0 * ((100.0 - predicted) / (100.0 - measured) - 1.0),
        blocks_per_sm=max(per_sm),
        spread=spread_points(trace, predicted),
        outlier=_why_not_scored(run),
    )


def _why_not_scored(run: PublishedRun) -> str:
    if not run.is_same_configuration:
        return "tiles, stages or split-K differ from the baseline's: two effects in one number"
    if run.kernel_us is None:
        return ""  # half of the baseline is the host's
    costs = costs_from_kernel_times(run.pipeline, run.device, run.kernel_ns, without_constants())
    return beats_work_conservation(1_000 * run.time_us, run.pipeline, run.device, costs)


def sketch_jobs() -> list[Job]:
    """One job for each sketch: its row and its tile plan, from its stream-sync trace."""
    return [partial(predictions_of_sketch, case) for case in sketch_cases()]


def predictions_of_sketch(case: SketchCase) -> list[ScoredPrediction]:
    """Row and tile semaphores of one sketch kernel, tile, size and order."""
    stream = case.trace("stream")
    known = calibrate_for(case.pipeline, case.device, stream)
    costs = replace(known, wait_ns=SKETCH_WAIT_NS[case.kernel, case.tile])
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
        blocks_per_sm=case.blocks_per_sm,
    )
