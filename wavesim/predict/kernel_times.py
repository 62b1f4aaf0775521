"""A cost model from kernel times alone: tile times at which each kernel, simulated alone, takes its time.

Example: two GEMMs took 370 and 365 us in a profile; with 384 and 768 tiles on 132 SMs that is 123 and 61 us
per tile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from statistics import mean

import numpy as np

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import DeviceCosts, costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order, RowMajor, SlicesLast
from wavesim.plan.plan import StreamSync
from wavesim.predict.scenarios import usual_loops
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

UNIT_NS = 1_000_000
MEMORY_ROUNDS = 2  # of correcting a tile time by what a busy DRAM adds to it
TOO_SLOW = 1.25  # times as long as measured after a correction: the memory cannot be right


def costs_from_kernel_times(
    pipeline: Pipeline,
    device: Device,
    kernel_ns: Mapping[str, int],
    known: DeviceCosts | None = None,
    *,
    order: Order = RowMajor(),
    tile_weights: Mapping[str, Sequence[float]] | None = None,
) -> CostModel:
    """Tile times such that each kernel, simulated alone in the order it was timed in, takes its time.

    All tiles of a stage take as long, edge tiles too, as tensor cores multiply whole tiles; `tile_weights`
    has others, one per block in the grid's row-major order, split after split: (blocks,), above 0, of any
    scale. Without it those of the stages count.
    What the trace of a run would say besides is taken from `known`, by default `costs_of(device.name)`.
    Where a kernel was clearly faster than the memory known of the device would let it be, as where that is
    another device's in proportion, all are predicted without a memory: what was measured goes before it.
    Kernels faster than the device can be are named by `contradictions`. Raises `DescriptionError` if a
    stage has no time, or one too short for its launch, or weights that are not one per block.
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
    memory = known.timed_memory(pipeline, device)
    most = max(occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages)
    around = CostModel(
        {},
        sharing=sharing,
        oldest_first_bias=oldest_first_bias,
        memory=memory,
        clock_gain=0.0 if memory is None else known.gain(most),
    )
    spread = 0.0 if memory is None else float(known.values.get("kernel_times.tile_spread", 0.0))
    own = {stage.name: stage.block_weights for stage in pipeline.stages if stage.tile_weights}
    given = own | _checked(pipeline, tile_weights or {})
    weights = {stage.name: _weights(stage, given.get(stage.name), spread) for stage in pipeline.stages}
    blocks_ns = {stage.name: kernel_ns[stage.name] - known.kernel_launch_ns for stage in pipeline.stages}
    tile_ns = _tile_times(pipeline, device, blocks_ns, replace(around, tile_ns=weights), order)
    if tile_ns is None:
        around = replace(around, memory=None, clock_gain=0.0)
        tile_ns = _tile_times(pipeline, device, blocks_ns, replace(around, tile_ns=weights), order)
    return replace(around, tile_ns=tile_ns or {}, main_loops=usual_loops(pipeline, device), **known.overheads)


def _checked(pipeline: Pipeline, tile_weights: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """The same weights. Raises `DescriptionError`."""
    sizes = {stage.name: stage.grid.size for stage in pipeline.stages}
    for name, weights in tile_weights.items():
        if name not in sizes:
            raise DescriptionError(f"tile_weights: no stage {name!r}; {pipeline.name} has {list(sizes)}")
        if len(weights) != sizes[name]:
            raise DescriptionError(
                f"tile_weights: {len(weights)} for {name!r}; its grid has {sizes[name]} blocks, give one each"
            )
        if not all(isfinite(weight) and weight > 0 for weight in weights):
            raise DescriptionError(f"tile_weights: those of {name!r} must be finite numbers above 0")
    return dict(tile_weights)


def _weights(stage: Stage, weights: Sequence[float] | None, spread: float) -> int | list[int]:
    """Tile times up to a factor: as given, or alike up to their spread, the same every time."""
    if weights is not None:
        return [max(1, round(UNIT_NS * weight / mean(weights))) for weight in weights]
    if not spread:
        return UNIT_NS
    size = stage.grid.size
    return [max(1, round(UNIT_NS * one)) for one in np.random.default_rng(size).normal(1.0, spread, size)]


def _tile_times(
    pipeline: Pipeline, device: Device, blocks_ns: Mapping[str, int], around: CostModel, order: Order
) -> dict[str, int | list[int]] | None:
    """Tile times of every stage; None where one of them cannot be as fast as it was behind the memory."""
    found: dict[str, int | list[int]] = {}
    for stage in pipeline.stages:
        times = _tile_ns(Pipeline(stage.name, [stage]), device, blocks_ns[stage.name], around, order)
        if times is None:
            return None
        found[stage.name] = times
    return found


def _tile_ns(
    alone: Pipeline, device: Device, blocks_ns: int, around: CostModel, order: Order
) -> int | list[int] | None:
    """The tile times, in proportion to those of `around`, at which a kernel alone takes `blocks_ns`.

    Without a memory the first guess is right, as all times are in proportion. Behind one they are times at an
    idle DRAM, corrected `MEMORY_ROUNDS` times. Where the memory would not let a kernel be as fast as it was,
    more rounds would make its tiles ever shorter: None, where that is seen in the last round.
    """
    (stage,) = alone.stages
    plan, costs = StreamSync(SlicesLast(order)), replace(around, memory=None, clock_gain=0.0)
    times, too_long = around.tile_times(stage), 1.0
    for _ in range(1 if around.memory is None else 1 + MEMORY_ROUNDS):
        trace = simulate(alone, plan, device, costs.with_tile_ns(**{stage.name: times}))
        too_long = trace.makespan_ns / blocks_ns
        times, costs = _scaled(times, blocks_ns / trace.makespan_ns), around
    return None if around.memory is not None and too_long > TOO_SLOW else times


def _scaled(times: int | list[int], factor: float) -> int | list[int]:
    if isinstance(times, int):
        return max(1, round(times * factor))
    return [max(1, round(time * factor)) for time in times]


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
