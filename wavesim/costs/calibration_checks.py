"""What a calibration is not made from: flagged by name and reason, never fitted silently.

Example: a kernel of 155 TFLOP/s on a device whose peak is 125 was not timed right, or did not do its work; a
stream-sync trace that lacks 40 of 192 blocks would give a speed that no run had.
"""

from collections.abc import Mapping

import numpy as np

from wavesim.costs.cost_model import CostModel
from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import recorded_shape
from wavesim.trace.trace import Trace

ABOVE_PEAK = 1.02  # timers and catalogue rates agree no better
BELOW_LEAST = 0.99  # nor do the times of two runs
SHORTEST_STEPS = 20  # of the clock that stamped a trace; shorter tiles are known to no better than 5 %


def require_calibratable(trace: Trace) -> None:
    """Raises `RecordingError` unless this is a whole stream-sync run with tiles long enough to be timed."""
    head = trace.header
    plan = recorded_shape(head.plan, head.plan_data)
    if plan.sync.has_semaphores or not plan.runs_one_after_another or plan.schedule.is_split_persistent:
        raise RecordingError(f"trace of plan {head.plan!r}; calibrate on a stream-sync trace, plan 'stream'")
    for index, info in enumerate(head.stages):
        rows = trace.stage == index
        expected, result = int(np.prod(info.grid)), int(rows.sum())
        tiles = len(set(zip(trace.x[rows], trace.y[rows], trace.z[rows], strict=True)))
        if result != expected or tiles != expected:
            raise RecordingError(
                f"stage {info.name}: {result} blocks of {tiles} tiles recorded, its grid has {expected}; "
                "calibrate on a whole run"
            )
        shortest = int((trace.end_ns - trace.start_ns)[rows].min())
        if shortest < SHORTEST_STEPS * head.timer_step_ns and head.source == "measured":
            raise RecordingError(
                f"stage {info.name}: its shortest block took {shortest} ns, the clock steps by "
                f"{head.timer_step_ns} ns; tiles of {SHORTEST_STEPS} steps or more can be timed"
            )


def contradictions(pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int]) -> tuple[str, ...]:
    """Kernels that are said to compute faster than the device's peak, in words.

    Relative times may still be right: a kernel that skips work does so under every plan.
    """
    peak = device.tensor_flops_per_s
    result = []
    for stage in pipeline.stages:
        rate = stage.kernel.flops_per_block * stage.grid.size / (kernel_ns[stage.name] * 1e-9)
        if rate > ABOVE_PEAK * peak:
            result.append(
                f"{stage.name} is said to reach {rate / 1e12:.0f} TFLOP/s, above the {device.name}'s peak of "
                f"{peak / 1e12:.0f}; check its time, its grid and the device"
            )
    return tuple(result)


def least_ns(pipeline: Pipeline, device: Device, costs: CostModel) -> float:
    """No plan takes less: the work of all tiles over the most that all SMs get done at once."""
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    last = len(costs.sharing)
    speed = max(n * costs.sharing[min(n, last) - 1] for n in range(1, most + 1))
    work = 0
    for stage in pipeline.stages:
        times = costs.tile_times(stage)
        work += times * stage.grid.size if isinstance(times, int) else sum(times)
    return work / (device.sm_count * speed)


def beats_work_conservation(time_ns: float, pipeline: Pipeline, device: Device, costs: CostModel) -> str:
    """Why a measured time cannot be at these tile times, in words; "" if it can."""
    least = least_ns(pipeline, device, costs)
    if time_ns >= least * BELOW_LEAST:
        return ""
    return (
        f"{time_ns / 1_000:.0f} us is less than the {least / 1_000:.0f} us that a fully used {device.name} "
        "needs at its baseline's tile rate: the two ran at different clocks"
    )
