"""A cost model from kernel times alone: tile times at which each kernel, simulated alone, takes its time.

Example: two GEMMs took 370 and 365 us in a profile; with 384 and 768 tiles on 132 SMs that is 123 and 61 us
per tile.
"""

from collections.abc import Mapping
from dataclasses import replace

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import DeviceCosts, costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import RowMajor, SlicesLast
from wavesim.plan.plan import StreamSync
from wavesim.predict.scenarios import usual_loops
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

UNIT_NS = 1_000_000
MEMORY_ROUNDS = 2  # of correcting a tile time by what a busy DRAM adds to it


def costs_from_kernel_times(
    pipeline: Pipeline, device: Device, kernel_ns: Mapping[str, int], known: DeviceCosts | None = None
) -> CostModel:
    """Tile times such that each kernel, simulated alone, takes the time it was measured to take.

    What the trace of a run would say besides is taken from `known`, by default `costs_of(device.name)`.
    Kernels faster than the device can be are named by `contradictions`. Raises `DescriptionError` if a
    stage has no time, or one too short for its launch.
    """
    missing = [stage.name for stage in pipeline.stages if kernel_ns.get(stage.name, 0) <= 0]
    if missing:
        raise DescriptionError(
            f"stage {missing[0]!r} has no time; give nanoseconds above 0, have {dict(kernel_ns)}"
        )
    known = known or costs_of(device.name)
    for stage in pipeline.stages:
        if kernel_ns[stage.name] <= known.kernel_launch_ns:
            raise DescriptionError(
                f"stage {stage.name!r} is said to take {kernel_ns[stage.name]} ns; its launch alone takes "
                f"{known.kernel_launch_ns} on a {device.name}. Check the unit, or time longer kernels"
            )
    sharing, oldest_first_bias = known.speeds(pipeline, device)
    around = CostModel(
        {},
        sharing=sharing,
        oldest_first_bias=oldest_first_bias,
        memory=known.timed_memory(pipeline, device),
    )
    tile_ns = {
        stage.name: _tile_ns(stage, device, kernel_ns[stage.name] - known.kernel_launch_ns, around)
        for stage in pipeline.stages
    }
    return replace(around, tile_ns=tile_ns, main_loops=usual_loops(pipeline, device), **known.overheads)


def _tile_ns(stage: Stage, device: Device, blocks_ns: int, around: CostModel) -> int:
    """The tile time at which all blocks of a kernel that runs alone take `blocks_ns`.

    Without a memory the first guess is right, as all times are in proportion. Behind one it is the time at an
    idle DRAM, corrected `MEMORY_ROUNDS` times: where the memory would not let a kernel be as fast as it was,
    more rounds would make its tiles ever shorter.
    """
    alone, plan = Pipeline(stage.name, [stage]), StreamSync(SlicesLast(RowMajor()))
    tile_ns, costs = UNIT_NS, replace(around, memory=None)
    for _ in range(1 if around.memory is None else 1 + MEMORY_ROUNDS):
        trace = simulate(alone, plan, device, costs.with_tile_ns(**{stage.name: tile_ns}))
        tile_ns, costs = max(1, round(tile_ns * blocks_ns / trace.makespan_ns)), around
    return tile_ns


def kernel_times_of(stream: Trace) -> dict[str, int]:
    """{stage: ns} as a profiler shows a stream-sync run: each kernel from its first start to its last end."""
    total_ns = stream.time_ns / stream.makespan_ns
    return {
        info.name: round(total_ns * _span_ns(stream, index))
        for index, info in enumerate(stream.header.stages)
    }


def _span_ns(trace: Trace, stage: int) -> int:
    rows = trace.stage == stage
    return int(trace.end_ns[rows].max() - trace.start_ns[rows].min())
