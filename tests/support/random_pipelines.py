"""Random devices, pipelines, plans and costs for property tests: small, full of ties and tight fits.

`cases(seed, count)` draws the same ones each time. Hypothesis, which shrinks what fails, takes three times
as long to draw a case as both simulators take to run it; these are small to begin with.
"""

from collections.abc import Iterator
from random import Random

from wavesim.costs.cost_model import FIXED_COSTS, CostModel
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device, load
from wavesim.model.kernel import UNKNOWN_LOOP, WAIT_PLACES, Block, Grid, Kernel, MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch, OneStream
from wavesim.plan.order import ColumnMajor, CustomOrder, Grouped, Interleaved, Reversed, RowMajor
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.plan.schedule import Persistent, TilePerBlock
from wavesim.plan.stream_k import StreamK
from wavesim.plan.sync import KernelBoundary, Semaphores
from wavesim.sim.launches import launched

DEVICES = [load("toy").with_sm_count(count) for count in (1, 2, 3, 4, 7)]
BLOCKS = [
    Block(1024, 32),
    Block(512, 64),
    Block(256, 32),
    Block(512, 32, dynamic_shared_bytes=100_000),
    Block(128, 168, dynamic_shared_bytes=20_000),
    Block(256, 128, static_shared_bytes=40_000),
]
SHARING = [(1.0,), (1.0, 0.5), (1.0, 0.55, 0.4), (1.0, 0.333), (1.0, 1.0, 0.7)]


def column_semaphore(tile_x, tile_y, grid):
    return tile_x


def column_value(tile_x, tile_y, grid):
    return grid.y


def pair_semaphore(tile_x, tile_y, grid):
    return (tile_y * grid.x + tile_x) // 2


def pair_value(tile_x, tile_y, grid):
    return min(2, grid.tiles - 2 * pair_semaphore(tile_x, tile_y, grid))


POLICIES = [
    TileSync(),
    RowSync(),
    CustomPolicy("column", column_semaphore, column_value),
    CustomPolicy("pairs", pair_semaphore, pair_value),
]


def shuffled(seed: int) -> CustomOrder:
    """A fixed pseudo-random order that works on any grid."""

    def tiles(grid):
        return sorted(grid, key=lambda tile: (tile[0] * 7919 + tile[1] * 104_729 + seed * 31) % 1013)

    return CustomOrder(f"shuffled {seed}", tiles)


ORDERS = (
    RowMajor(),
    ColumnMajor(),
    Grouped(2),
    Interleaved(2),
    Reversed(),
    Reversed(ColumnMajor()),
    Reversed(Interleaved(3)),
    shuffled(1),
    shuffled(2),
)
DURATIONS = (0, 0, 1, 2, 3, 10, 10, 37, 12_345_678)
Case = tuple[Pipeline, Plan, Device, CostModel]


def prefetched(rng: Random) -> float:
    """The share of a tile that a consumer loads before it waits: none, a usual one, any."""
    return rng.choice([0.0, rng.choice([0.1, 0.25, 1 / 3, 0.5, 1.0]), rng.random()])


def main_loop(rng: Random) -> MainLoop:
    known = MainLoop(
        rng.choice([None, 1, 2, 40, 500]),
        rng.choice([None, *WAIT_PLACES]),
        rng.choice([None, False, False, True]),
        rng.choice([1, 1, 2]),
        rng.random() < 0.5,
    )
    return rng.choice([UNKNOWN_LOOP, known])


def a_stage(rng: Random, name: str) -> Stage:
    grid = Grid(rng.randint(1, 4), rng.randint(1, 4), rng.choice([1, 1, 1, 2, 3]))
    return Stage(
        name, Kernel(name, grid, rng.choice(BLOCKS), carveout=rng.choice(["full", "full", "default"]))
    )


def a_need(rng: Random, producer: Stage, consumer: Grid):
    """A set of producer tiles that lies on its grid for every consumer tile."""
    grid = producer.grid
    columns = [slice(None), x * 0 + rng.randrange(grid.x), x.at_most(grid.x - 1)]
    rows = [slice(None), y.at_most(grid.y - 1), y * 0]
    if consumer.x <= 2 * grid.x:
        columns.append(x // 2)
    if grid.y > 1:
        rows.append(slice(y.at_most(grid.y - 2), y.at_most(grid.y - 2) + 2))
    return producer[rng.choice(columns), rng.choice(rows)]


def a_pipeline(rng: Random) -> Pipeline:
    """A pair, a chain of three, a fork or a join."""
    shape = rng.choice(["pair", "pair", "chain", "fork", "join"])
    made = [a_stage(rng, name) for name in ("first", "second", "third")[: 2 if shape == "pair" else 3]]
    producers = {"pair": {1: [0]}, "chain": {1: [0], 2: [1]}, "fork": {1: [0], 2: [0]}, "join": {2: [0, 1]}}
    dependencies = [
        Dependency(
            made[consumer][x, y], [a_need(rng, made[producer], made[consumer].grid) for producer in read]
        )
        for consumer, read in producers[shape].items()
    ]
    return Pipeline(shape, made, dependencies)


def a_plan(rng: Random, pipeline: Pipeline) -> Plan:
    """Stream sync, or semaphores with or without the wait-kernel and a lost race."""
    orders = {stage.name: rng.choice(ORDERS) for stage in pipeline.stages}
    kind = rng.choice(["stream", "wait-kernel", "wait-kernel", "no wait-kernel", "lost race"])
    if kind == "stream":
        return StreamSync(orders=orders)
    return SemaphoreSync(
        policies=edge_policies(rng, pipeline),
        orders=orders,
        wait_kernel=kind == "wait-kernel",
        head_start=rng.randint(1, 5) if kind == "lost race" else 0,
        prefetch=prefetched(rng),
    )


def edge_policies(rng: Random, pipeline: Pipeline):
    """A policy for every dependency."""
    edges = [(p, d.consumer.stage.name) for d in pipeline.dependencies for p in d.producers]
    return {edge: rng.choice(POLICIES) for edge in edges}


# Schedules and launches beside a block per tile on streams of their own, without semaphores and with them.
AT_BOUNDARIES = (
    (TilePerBlock(), DependentLaunch()),
    (Persistent(), OneStream()),
    (Persistent(), DependentLaunch()),
    (StreamK(), OneStream()),
    (StreamK(2), OneStream()),
    (StreamK(3, in_order=True), OneStream()),
    (StreamK(), DependentLaunch()),
    (TilePerBlock(), OneStream("graph")),
    (TilePerBlock(), OneStream("host")),
)
WITH_SEMAPHORES = (
    (Persistent(fused=True), OneStream()),
    (TilePerBlock(), DependentLaunch()),
    (Persistent(), DependentLaunch()),
    (TilePerBlock(), OneStream()),
)


def a_kernel_plan(rng: Random, pipeline: Pipeline) -> Plan | None:
    """A plan that never deadlocks: another schedule, launches on one stream, one kernel for all stages.

    None where what was drawn cannot be: Stream-K of a grid with slices.
    """
    orders = {stage.name: rng.choice(ORDERS) for stage in pipeline.stages}
    has_semaphores = rng.random() < 0.5
    schedule, launch = rng.choice(WITH_SEMAPHORES if has_semaphores else AT_BOUNDARIES)
    if schedule.is_split_persistent and any(stage.grid.z > 1 for stage in pipeline.stages):
        return None
    sync = Semaphores(policies=edge_policies(rng, pipeline)) if has_semaphores else KernelBoundary()
    overlaps = launch.is_dependent and not schedule.is_fused
    share = prefetched(rng) if overlaps else 0.0
    return Plan(schedule, launch, sync, orders=orders, prefetch=share)


def a_cost_model(rng: Random, pipeline: Pipeline) -> CostModel:
    """Times with many ties and zeros; sometimes one per block."""
    tile_ns = {}
    for stage in pipeline.stages:
        each = [rng.choice(DURATIONS) for _ in range(stage.grid.size)]
        tile_ns[stage.name] = rng.choice([each[0], each[0], each])
    return CostModel(
        tile_ns,
        sharing=rng.choice(SHARING),
        oldest_first_bias=rng.choice([(0.0,), (0.0, 0.16), (0.0, 0.9, 0.3)]),
        spin_share=rng.choice([0.0, 0.0, 0.04, 0.5]),
        main_loops={stage.name: main_loop(rng) for stage in pipeline.stages},
        **{name: rng.choice(DURATIONS) for name in FIXED_COSTS},
    )


def cases(seed: int, count: int, draw_plan=a_plan) -> Iterator[Case]:
    """Everything that one simulation takes, `count` times."""
    rng = Random(seed)
    while count:
        pipeline = a_pipeline(rng)
        plan, device, costs = draw_plan(rng, pipeline), rng.choice(DEVICES), a_cost_model(rng, pipeline)
        if plan is not None:
            count -= 1
            yield pipeline, plan, device, costs


def kernel_plan_cases(seed: int, count: int) -> Iterator[Case]:
    """The same for plans with kernels of their own, where one kernel for all stages fits on an SM."""
    while count:
        for case in cases(seed, count, a_kernel_plan):
            try:
                launched(*case[:3], case[3].main_loops)
            except DescriptionError:
                continue
            count -= 1
            yield case
        seed += 1_000_003
