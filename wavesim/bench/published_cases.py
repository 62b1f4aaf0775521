"""The dataset "published", predicted: cuSync's result files, from kernel times alone.

Example: V100, LLaMA, 2048 tokens, row semaphores: from 1465 and 724 us, tiles and split-K alone. Rows that no
scheduler can predict from their baseline are named with the reason, and left out of the score.
"""

from dataclasses import replace

from wavesim.bench.clock_states import clock_ratio
from wavesim.bench.jobs import Job
from wavesim.bench.scored_case import (
    NO_CONSTANTS,
    ScoredPrediction,
    by_ceil_formula,
    time_error_percent,
    told_otherwise,
)
from wavesim.costs.calibration_checks import beats_work_conservation
from wavesim.costs.device_costs import (
    DeviceCosts,
    costs_of,
    with_host_sync,
    without_constants,
)
from wavesim.model.occupancy import occupancy_of
from wavesim.plan.plan import StreamSync
from wavesim.predict.intervals import spread_points
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.kinds import kernel_times_kind
from wavesim.predict.prediction import (
    Measured,
    improvement_points,
    predict_from_kernel_times,
    sustained_points,
)
from wavesim.recordings.published_rows import PublishedRun, published_runs
from wavesim.sim.simulation import simulate

SMALLEST_SIZE = 128  # tokens; below it the published MLPs are bound by memory
HOST_WAITS = "kernel times, host waits"


def published_jobs() -> list[Job]:
    """All published MLPs, and all published convolutions in pairs and in chains of four."""
    return [published_mlps, published_convolutions, published_chains]


def published_mlps() -> list[ScoredPrediction]:
    """Every published MLP row, with the device's constants and with none.

    Rows whose tiles differ in height are a set of their own, and so are those that ran at another clock than
    their baseline, predicted at that clock.
    """
    mlps = []
    for run in published_runs("mlp"):
        known = costs_of(run.device.name)
        published = _published(run, known, _mlp_set(run), kernel_times_kind(run.pipeline, run.device, 1))
        mlps += [*_with_other_split(run, published, known), *_at_other_clock(run, published)]
        if not run.has_unequal_tiles:
            constants = without_constants(), f"{_mlp_set(run)}-no-constants", f"kernel times, {NO_CONSTANTS}"
            mlps.append(_published(run, *constants))
    return mlps


def published_convolutions() -> list[ScoredPrediction]:
    """Every published pair of convolutions, with a host that waits between the two kernels."""
    return _with_host("conv", "published-resnet", HOST_WAITS)


def published_chains() -> list[ScoredPrediction]:
    """Every published chain of four convolutions, with a host that waits after each kernel."""
    return _with_host("chain", "published-vgg", HOST_WAITS)


def _with_host(operation: str, source: str, kind: str) -> list[ScoredPrediction]:
    host = []
    for run in published_runs(operation):
        known = with_host_sync(costs_of(run.device.name))
        published = _published(run, known, source, kind)
        host += _with_other_split(run, published, known)
    return host


def _mlp_set(run: PublishedRun) -> str:
    if run.has_unequal_tiles:
        return "published-unequal-tiles"
    return "published-mlp" if run.size >= SMALLEST_SIZE else "published-mlp-small"


def _at_other_clock(run: PublishedRun, scored_prediction: ScoredPrediction) -> list[ScoredPrediction]:
    """The same plan at the higher clock, where the measured time says that it must have run at that."""
    ratio = clock_ratio(run)
    if ratio is None or not run.is_same_configuration or not scored_prediction.outlier:
        return []
    predicted = 100.0 - (100.0 - scored_prediction.predicted) * ratio
    return [_told(scored_prediction, "published-other-clock", "other clock", predicted)]


def _with_other_split(
    run: PublishedRun, scored_prediction: ScoredPrediction, known: DeviceCosts
) -> list[ScoredPrediction]:
    """The plan, and where its K is split in another way than the baseline's, that effect told apart."""
    if not run.has_other_split or scored_prediction.source == "published-mlp-small":
        return [scored_prediction]
    told = _told(scored_prediction, "published-other-split", "other split", points_by_split(run, known))
    return [replace(scored_prediction, is_told_elsewhere=True), told]


def points_by_split(run: PublishedRun, known: DeviceCosts) -> float:
    """The improvement of a plan whose kernels split K in another way than the baseline, in points.

    Its tiles' times are told from the baseline's by how much of K a block computes; what adding the slices'
    sums takes is not known. This takes the two effects of the number apart.
    """
    costs = costs_from_kernel_times(run.baseline, run.device, run.kernel_ns, known)
    stream = simulate(run.baseline, StreamSync(run.plan.order), run.device, costs)
    tile_ns = {}
    for own, base in zip(run.pipeline.stages, run.baseline.stages, strict=True):
        base_ns = costs.tile_times(base)
        assert isinstance(base_ns, int)
        tile_ns[own.name] = round(base_ns * own.kernel.flops_per_block / base.kernel.flops_per_block)
    trace = simulate(run.pipeline, run.plan, run.device, costs.with_tile_ns(**tile_ns))
    return sustained_points(improvement_points(trace.time_ns, stream.time_ns), known.clock_share)


def _told(scored_prediction: ScoredPrediction, source: str, kind: str, predicted: float) -> ScoredPrediction:
    """A case that its own set leaves out, predicted in another way as one of another set."""
    kind = f"{scored_prediction.kind}, {kind}"
    return told_otherwise(scored_prediction, source, kind, predicted, outlier="")


def _published(run: PublishedRun, known: DeviceCosts, source: str, kind: str) -> ScoredPrediction:
    trace, predicted = predict_from_kernel_times(run.pipeline, run.plan, run.device, run.kernel_ns, known)
    measured, noise = run.improvement_points, run.noise_points
    stages = run.pipeline.stages
    per_sm = [occupancy_of(run.device, stage.kernel.block).blocks_per_sm for stage in stages]
    slots = [run.device.sm_count * count for count in per_sm]
    return ScoredPrediction(
        case=run.case,
        family="published convolutions" if run.kernel_us is None else "published CUTLASS",
        plan=run.policy,
        source=source,
        kind=kind,
        group=run.case,
        predicted=predicted,
        measured=Measured(measured, measured - noise, measured + noise),
        ceil_formula=by_ceil_formula([stage.grid.size for stage in stages], slots),
        time_error_percent=time_error_percent(predicted, measured),
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
