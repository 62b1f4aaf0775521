"""Predictions of one plan against stream sync, and how they compare with what was measured.

Example: from the stream-sync recording alone, RowSync at M = 1024 is predicted to gain 14.1
points; 14.3 were measured; the error is 0.2 points. Improvement is 1 - t / t_stream, in points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wavesim.costs.calibration import calibrate
from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import DeviceCosts, costs_of
from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Order, RowMajor
from wavesim.plan.parsing import recorded_plan, recorded_shape
from wavesim.plan.plan import Plan, StreamSync
from wavesim.plan.resolved import resolve
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.sim.simulation import simulate
from wavesim.trace.metrics import work_ns
from wavesim.trace.trace import Trace

TIME_TEXT = "a plan's whole time: its blocks, setup and, on several streams, fork and join"


def improvement_points(time_ns: float, stream_ns: float) -> float:
    """1 - t / t_stream, in points of a hundred."""
    return 100.0 * (1.0 - time_ns / stream_ns)


@dataclass(frozen=True)
class Measured:
    """A measured improvement: the median over interleaved rounds and its quartiles, in points."""

    median: float
    low: float
    high: float


def measured_improvement(trace: Trace, stream: Trace) -> Measured:
    """Improvement from the unrecorded rounds of two traces measured interleaved.

    Quartiles are over rounds paired in time, so that a clock that moved for both cancels. Raises
    `RecordingError` if either has no rounds or their numbers differ.
    """
    return improvement_of_rounds(trace.header.rounds_ns, stream.header.rounds_ns)


def improvement_of_rounds(times: Sequence[float], stream_times: Sequence[float]) -> Measured:
    """The same from the rounds themselves, in nanoseconds or in cycles."""
    ours, theirs = np.array(times), np.array(stream_times)
    if not ours.size or ours.size != theirs.size:
        raise RecordingError(
            f"{ours.size} and {theirs.size} rounds; interleaved runs have equally many, at least one"
        )
    paired = 100.0 * (1.0 - ours / theirs)
    low, high = np.percentile(paired, [25, 75])
    return Measured(
        improvement_points(float(np.median(ours)), float(np.median(theirs))), float(low), float(high)
    )


def require_same_kernels(pipeline: Pipeline, trace: Trace, device: Device) -> None:
    """Raises `RecordingError` if a trace's kernels are not the pipeline's: grid or blocks per SM differ."""
    for stage, info in zip(pipeline.stages, trace.header.stages, strict=False):
        if device.sm_count != trace.header.sm_count:
            raise RecordingError(
                f"{device.name} has {device.sm_count} SMs here, {trace.header.sm_count} in the recording"
            )
        grid, resident = stage.grid, occupancy_of(device, stage.kernel.block).blocks_per_sm
        ours, theirs = ((grid.x, grid.y, grid.z), resident), (tuple(info.grid), info.blocks_per_sm)
        if ours != theirs:
            raise RecordingError(
                f"stage {stage.name}: grid and blocks per SM are {ours} here and {theirs} in the recording"
            )


def predict_pair(
    pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel
) -> tuple[Trace, Trace, float]:
    """(stream-sync trace, the plan's trace, improvement in points), both simulated with the same costs."""
    stream = simulate(pipeline, StreamSync(plan.order, plan.orders), device, costs)
    trace = simulate(pipeline, plan, device, costs)
    return stream, trace, improvement_points(trace.time_ns, stream.time_ns)


def predict_plans(
    pipeline: Pipeline, plans: Sequence[Plan], device: Device, costs: CostModel
) -> list[tuple[Trace, float]]:
    """(the plan's trace, improvement in points) of each; stream sync is simulated once for each order."""
    streams: list[tuple[Plan, int]] = []
    found = []
    for plan in plans:
        baseline = StreamSync(plan.order, plan.orders)
        stream_ns = next((ns for known, ns in streams if known == baseline), None)
        if stream_ns is None:
            stream_ns = simulate(pipeline, baseline, device, costs).time_ns
            streams.append((baseline, stream_ns))
        trace = simulate(pipeline, plan, device, costs)
        found.append((trace, improvement_points(trace.time_ns, stream_ns)))
    return found


def predict_from_kernel_times(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    kernel_ns: Mapping[str, int],
    known: DeviceCosts | None = None,
) -> tuple[Trace, float]:
    """(the plan's trace, improvement in points) from the stages' measured times and `costs_of` the device.

    On a device that lowers its clock when SMs are fuller, the improvement is smaller than that of the trace
    (`sustained_points`). `known` replaces what is known of the device.
    """
    return predict_plans_from_kernel_times(pipeline, [plan], device, kernel_ns, known)[0]


def predict_plans_from_kernel_times(
    pipeline: Pipeline,
    plans: Sequence[Plan],
    device: Device,
    kernel_ns: Mapping[str, int],
    known: DeviceCosts | None = None,
) -> list[tuple[Trace, float]]:
    """The same of several plans; kernels were timed in their order, where they have one order."""
    known = known or costs_of(device.name)
    orders = {plan.order for plan in plans}
    order = orders.pop() if len(orders) == 1 else RowMajor()
    costs = costs_from_kernel_times(pipeline, device, kernel_ns, known, order=order)
    found = predict_plans(pipeline, plans, device, costs)
    return [(trace, sustained_points(points, known.clock_share)) for trace, points in found]


def sustained_points(points: float, clock_share: float) -> float:
    """What is left of an improvement in cycles when the plan runs by itself at the power limit.

    Fuller SMs draw more power, so the clock falls: the share `clock_share` of the
    logarithm of the time saved is lost again.
    """
    return 100.0 * (1.0 - float((1.0 - points / 100.0) ** (1.0 - clock_share)))


def calibrate_for(
    pipeline: Pipeline,
    device: Device,
    stream: Trace,
    *,
    per_block: bool = True,
    is_settled: bool = True,
) -> CostModel:
    """The costs of a stream-sync run of a pipeline, with all that is known of the device around them.

    Each block has its own tile time, or without `per_block` the mean of its stage, as another size needs it.
    Without `is_settled` tiles take what they took in that run, whatever DRAM and clock do in another: one
    simulation then needs no second one to settle.
    """
    known = costs_of(device.name)
    behind = None if known.memory is None or not is_settled else (pipeline, known.memory)
    gain = known.gain(max(info.blocks_per_sm for info in stream.header.stages)) if is_settled else 0.0
    schedule = recorded_shape(stream.header.plan, stream.header.plan_data).schedule.word
    overheads = known.backend(pipeline, schedule).overheads
    return calibrate(stream, per_block=per_block, behind=behind, clock_gain=gain, **overheads)


def predict_from_stream(pipeline: Pipeline, plan: Plan, device: Device, stream: Trace) -> tuple[Trace, float]:
    """(the plan's trace, improvement in points) predicted from a stream-sync run."""
    require_same_kernels(pipeline, stream, device)
    orders = tuple(plan.orders.items())
    costs, baseline_ns = _stream_sync(pipeline, device, stream, plan.order, orders)
    trace = simulate(pipeline, plan, device, as_built(costs, pipeline, plan, costs_of(device.name)))
    return trace, improvement_points(trace.time_ns, baseline_ns)


@lru_cache(maxsize=2)
def _stream_sync(
    pipeline: Pipeline, device: Device, stream: Trace, order: Order, orders: tuple[tuple[str, Order], ...]
) -> tuple[CostModel, int]:
    """(costs, simulated time) of a stream-sync run: kept, as all plans in its order are held against it."""
    costs = calibrate_for(pipeline, device, stream)
    return costs, simulate(pipeline, StreamSync(order, dict(orders)), device, costs).time_ns


def replay(pipeline: Pipeline, measured: Trace, device: Device) -> Trace:
    """The simulated run of a measured trace's own plan, each block taking the time it took there.

    What is left to the simulator is scheduling alone: order, placement, waiting.
    """
    plan = _recorded_plan(measured)
    require_same_kernels(pipeline, measured, device)
    # Under semaphores the boundary is between wait-kernel and consumer, and of neither has a trace rows.
    known = costs_of(device.name).overheads
    boundary = int(known["boundary_ns"]) if plan.sync.has_semaphores else max(0, _gap_ns(measured))
    tile_ns = {stage.name: _times_of(measured, index) for index, stage in enumerate(pipeline.stages)}
    ready_ns = _ready_wait_ns(pipeline, plan, measured)
    costs = CostModel(
        tile_ns,
        boundary_ns=boundary,
        wait_kernel_ns=int(known["wait_kernel_ns"]),
        wait_ns=ready_ns,
        ready_poll_ns=ready_ns,
    )
    return simulate(pipeline, plan, device, costs)


def _ready_wait_ns(pipeline: Pipeline, plan: Plan, measured: Trace) -> int:
    """What a wait took when the semaphore was ready: the least per wait of blocks with nothing to wait for.

    Those started when their producers had ended; 0 where none did. How long the others waited is simulated.
    """
    least, stages = [], resolve(pipeline, plan).stages
    for program in stages:
        producers = [one.index for one in stages if one.stage.name in program.arrays]
        count = len(program.waits(0))
        if not count:
            continue
        posted_ns = measured.end_ns[np.isin(measured.stage, producers)].max()
        waits = measured.wait_ns[(measured.stage == program.index) & (measured.start_ns >= posted_ns)]
        least += [int(waits.min()) // count] if waits.size else []
    return min(least, default=0)


def _recorded_plan(trace: Trace) -> Plan:
    try:
        return recorded_plan(trace.header.plan, trace.header.plan_data, trace.header.orders)
    except DescriptionError as error:
        raise RecordingError(f"the trace's plan cannot be run again: {error}") from None


def _gap_ns(trace: Trace) -> int:
    return int(trace.start_ns[trace.stage == 1].min() - trace.end_ns[trace.stage == 0].max())


def _times_of(trace: Trace, index: int) -> list[int]:
    """Work of every block of a stage in the grid's order, slice after slice."""
    x_count, y_count, z_count = trace.header.stages[index].grid
    times = np.zeros(x_count * y_count * z_count, dtype=np.int64)
    rows = trace.stage == index
    times[(trace.z[rows] * y_count + trace.y[rows]) * x_count + trace.x[rows]] = work_ns(trace)[rows]
    return [int(time) for time in times]


def as_built(costs: CostModel, pipeline: Pipeline, plan: Plan, known: DeviceCosts) -> CostModel:
    """Costs calibrated on stream sync, with the tile times of the builds that a plan runs, where known."""
    if not plan.sync.has_semaphores or any(stage.grid.z > 1 for stage in pipeline.stages):
        return costs
    ratios = known.backend(pipeline, plan.schedule.word).tile_time_ratios
    for stage in (dependency.consumer.stage for dependency in pipeline.dependencies):
        tile = "x".join(map(str, stage.work.output_tile or ()))
        ratio = ratios.get(f"{tile} {plan.sync.word}")
        if ratio is not None:
            times = costs.tile_times(stage)
            each = [times] * stage.grid.size if isinstance(times, int) else times
            costs = costs.with_tile_ns(**{stage.name: [round(time * ratio) for time in each]})
    return costs
