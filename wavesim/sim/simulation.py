"""simulate(): a pipeline, a plan and a device in, a Trace out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.metadata import version

import numpy as np

from wavesim.costs.clock import clock_factors
from wavesim.costs.cost_model import FIXED_COSTS, CostModel
from wavesim.costs.data_sheet import roofline
from wavesim.costs.dram_slowdown import GridBlocks, slowdowns
from wavesim.costs.l2_misses import FloatArray
from wavesim.costs.wait_costs import iterations_of
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.kernel import UNKNOWN_LOOP
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan, check_plan
from wavesim.plan.resolved import ResolvedStage
from wavesim.plan.semaphores import SemaphoreArray
from wavesim.safe_io.annotated import require_types
from wavesim.sim.engine import Engine
from wavesim.sim.header import describe_stage, header_of
from wavesim.sim.launches import LaunchedProgram, launched
from wavesim.sim.split_tiles import SplitStage
from wavesim.sim.streamed_run import simulate_megakernel
from wavesim.trace.header import DependencyInfo, Event, Header
from wavesim.trace.trace import PART_COLUMNS, IntArray, Trace, Waits

SETTLING_ROUNDS = 3  # of tile times and what they depend on
LATEST_NS = 2**56  # two years: sums over the slots of any device are integers of 64 bits too
SETTLED = 0.005  # of its time, by which no block's may still change


def simulate(pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel | None = None) -> Trace:
    """Runs the pipeline on the simulated device; deterministic.

    Without `costs` the catalogue's roofline is used (`roofline`). A megakernel has costs of its own
    (`simulate_megakernel`), which the device's file says. Raises `DescriptionError` for blocks, orders or
    policies that can't be, `DeadlockError` when blocks wait for ever.
    """
    require_types(
        "simulate", pipeline=(pipeline, Pipeline), device=(device, Device), costs=(costs, CostModel | None)
    )
    check_plan(pipeline, plan)
    if plan.schedule.has_work_lists:
        return simulate_megakernel(pipeline, plan, device)
    model = roofline(pipeline, device) if costs is None else costs
    program = launched(pipeline, plan, device, model.main_loops)

    def run(costs: CostModel) -> Trace:
        engine = Engine(pipeline, plan, device, costs, program)
        engine.run()
        return _trace(engine, pipeline, plan, device, costs)

    if not model.settles:
        return run(model)
    return _settled(pipeline, model, run) if model.plan_clock is None else _clocked(pipeline, model, run)


def _clocked(pipeline: Pipeline, costs: CostModel, run: Callable[[CostModel], Trace]) -> Trace:
    """Simulates again, with tiles at the clock that the last run's time leaves, until that settles."""
    trace, known = run(costs), costs.plan_clock
    assert known is not None
    ghz = known.ghz
    for _ in range(SETTLING_ROUNDS):
        before, ghz = ghz, known.at(ghz).ghz_of(trace.time_ns)
        if abs(ghz / before - 1.0) <= SETTLED:
            break
        longer = [np.full(stage.grid.size, known.ghz / ghz) for stage in pipeline.stages]
        trace = run(_longer(costs, pipeline, longer))
    return trace


def _settled(pipeline: Pipeline, costs: CostModel, run: Callable[[CostModel], Trace]) -> Trace:
    """Simulates again, with tiles as long as the last run's traffic and clock say, until that settles."""
    trace = run(costs)
    slower = longer = [np.ones(stage.grid.size) for stage in pipeline.stages]
    for _ in range(SETTLING_ROUNDS):
        blocks, before = GridBlocks(trace), longer
        if costs.memory is not None:
            slower = blocks.by_block(slowdowns(trace, pipeline, costs.memory, blocks.by_row(slower)))
        clocks = blocks.by_block(clock_factors(trace, costs.clock_gain))
        longer = [factors / clock for factors, clock in zip(slower, clocks, strict=True)]
        if all(np.allclose(*pair, rtol=SETTLED, atol=0.0) for pair in zip(before, longer, strict=True)):
            break
        trace = run(_longer(costs, pipeline, longer))
    return trace if costs.memory is None else _with_slowdown(trace, slower)


def _with_slowdown(trace: Trace, slower: Sequence[FloatArray]) -> Trace:
    """The trace with the share of its blocks' work, in percent, that DRAM added."""
    work = trace.end_ns - trace.start_ns - trace.wait_ns
    added = float((work * (1.0 - 1.0 / GridBlocks(trace).by_row(slower))).sum()) / max(1, int(work.sum()))
    memory = {**trace.header.costs["memory"], "slower_percent": round(100.0 * added, 2)}
    return replace(trace, header=replace(trace.header, costs={**trace.header.costs, "memory": memory}))


def _longer(costs: CostModel, pipeline: Pipeline, longer: Sequence[FloatArray]) -> CostModel:
    """The costs with each stage's tiles longer by factors."""
    times = {
        stage.name: np.rint(np.asarray(costs.tile_times(stage)) * factors).astype(int).tolist()
        for stage, factors in zip(pipeline.stages, longer, strict=True)
    }
    return costs.with_tile_ns(**times)


def _trace(engine: Engine, pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel) -> Trace:
    rows = engine.rows
    if max(rows.end) >= LATEST_NS:
        raise DescriptionError(
            f"pipeline {pipeline.name} takes {max(rows.end):,} ns; at most {LATEST_NS:,} are simulated. "
            "Give shorter tile times"
        )
    stages = engine.program.stages
    stage = np.repeat([program.index for program in stages], [len(program.blocks) for program in stages])
    tiles = [tile for program in stages for tile in program.blocks]
    return Trace(
        header=_header(engine.program, pipeline, plan, device, costs),
        stage=stage,
        **dict(zip(("x", "y", "z"), map(np.array, zip(*tiles, strict=True)), strict=True)),
        **rows.columns(),
        waits=_waits(engine, stage),
        **_parts(engine.program),
        transfers=None,
        events=tuple(Event(*entry) for entry in sorted(rows.events, key=lambda entry: entry[2])),
    )


def _parts(program: LaunchedProgram) -> dict[str, IntArray]:
    """The columns that say which K iterations of its tile each block computed, where tiles are split."""
    parts = [part for stage in program.stages if isinstance(stage, SplitStage) for part in stage.parts]
    if not parts:
        return {}
    table = np.array([(part.first, part.upto, part.of) for part in parts], dtype=np.int64)
    return dict(zip(PART_COLUMNS, table.T, strict=True))


def _waits(engine: Engine, stage: IntArray) -> Waits:
    """Waits that spun; `dependency` is an index into the header's, `semaphore` one within it."""
    row, semaphore, start, end = engine.rows.wait_columns()
    arrays = engine.program.arrays
    firsts = np.array([array.first for array in arrays] or [0])
    array = np.searchsorted(firsts, semaphore, side="right") - 1
    dependency = np.zeros((len(engine.program.stages), firsts.size), dtype=np.int64)
    for number, (program, awaited) in enumerate(_dependencies(engine.program)):
        dependency[program.index, arrays.index(awaited)] = number
    return Waits(row, dependency[stage[row], array], semaphore - firsts[array], start, end)


def _header(
    program: LaunchedProgram, pipeline: Pipeline, plan: Plan, device: Device, costs: CostModel
) -> Header:
    return header_of(
        pipeline,
        plan,
        device,
        stages=tuple(
            describe_stage(stage.stage, program.launch_of(stage.index).kernel.block, device)
            for stage in program.stages
        ),
        dependencies=describe_dependencies(program),
        parameters=dict(pipeline.parameters),
        versions={"simpy": _simpy_version(), "numpy": np.__version__},
        costs=_describe_costs(costs, plan, program),
        setup_ns=costs.outside_ns(plan),
    )


@lru_cache(maxsize=1)
def _simpy_version() -> str:
    return version("simpy")  # reads files


def describe_dependencies(program: LaunchedProgram) -> tuple[DependencyInfo, ...]:
    """What a trace's header says of the semaphores."""
    return tuple(
        DependencyInfo(
            array.producer,
            consumer.stage.name,
            array.policy.name,
            array.table.semaphore_of_tile,
            array.values,
        )
        for consumer, array in _dependencies(program)
    )


def _dependencies(program: LaunchedProgram) -> list[tuple[ResolvedStage, SemaphoreArray]]:
    """Consumers and the arrays they wait on, in the header's order: consumers of one array share it."""
    return [(stage, array) for stage in program.stages for array in stage.arrays.values()]


def _describe_costs(costs: CostModel, plan: Plan, program: LaunchedProgram) -> dict[str, object]:
    prefetch = {"prefetch": plan.prefetch} if plan.prefetch else {}
    loops = {
        stage.stage.name: {**asdict(stage.loop), "iterations": iterations_of(stage.stage)}
        for stage in program.stages
        if stage.loop != UNKNOWN_LOOP
    }
    tile_ns = {
        stage: times if isinstance(times, int) else f"{len(times)} times"
        for stage, times in costs.tile_ns.items()
    }
    return {
        "tile_ns": tile_ns,
        "sharing": list(costs.sharing),
        "oldest_first_bias": list(costs.oldest_first_bias),
        "fetches_by_sm": costs.fetches_by_sm,
        "clock_gain": costs.clock_gain,
        **({"memory": asdict(costs.memory)} if costs.memory else {}),
        **{name: getattr(costs, name) for name in FIXED_COSTS},
        **prefetch,
        **({"spin_share": costs.spin_share} if costs.spin_share else {}),
        **({"main_loops": loops} if loops else {}),
    }
