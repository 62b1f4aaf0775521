"""The dataset "published", predicted: cuSync's result files, from kernel times alone.

Example: V100, LLaMA, 2048 tokens, row semaphores: from 1465 and 724 us, tiles and split-K alone. Rows that no
scheduler can predict from their baseline are named with the reason, and left out of the score.
"""

from wavesim.costs.calibration_checks import beats_work_conservation
from wavesim.costs.device_costs import (
    DeviceCosts,
    costs_of,
    with_host_sync,
    without_constants,
)
from wavesim.evaluation.jobs import Job
from wavesim.evaluation.scored_case import ScoredPrediction, by_ceil_formula
from wavesim.model.occupancy import occupancy_of
from wavesim.predict.intervals import spread_points
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.kinds import kernel_times_kind
from wavesim.predict.prediction import Measured, predict_from_kernel_times
from wavesim.recordings.published_rows import PublishedRun, published_runs

SMALLEST_SIZE = 128  # tokens; below it the published MLPs are bound by memory


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
        device=run.device.name,
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
