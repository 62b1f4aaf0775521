"""Random devices, pipelines, plans and costs for property tests: small, full of ties and tight fits."""

from hypothesis import assume
from hypothesis import strategies as st

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


ORDERS = st.sampled_from(
    [
        RowMajor(),
        ColumnMajor(),
        Grouped(2),
        Interleaved(2),
        Reversed(),
        Reversed(ColumnMajor()),
        Reversed(Interleaved(3)),
        shuffled(1),
        shuffled(2),
    ]
)
PREFETCHED = st.one_of(st.just(0.0), st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 1.0]), st.floats(0.0, 1.0))
LOOPS = st.one_of(
    st.just(UNKNOWN_LOOP),
    st.builds(
        MainLoop,
        st.sampled_from([None, 1, 2, 40, 500]),
        st.sampled_from([None, *WAIT_PLACES]),
        st.sampled_from([None, False, False, True]),
        st.sampled_from([1, 1, 2]),
        st.booleans(),
    ),
)
DURATIONS = st.sampled_from([0, 0, 1, 2, 3, 10, 10, 37, 12_345_678])


@st.composite
def stages(draw, name: str) -> Stage:
    grid = Grid(draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 1, 2, 3])))
    carveout = draw(st.sampled_from(["full", "full", "default"]))
    return Stage(name, Kernel(name, grid, draw(st.sampled_from(BLOCKS)), carveout=carveout))


@st.composite
def needs(draw, producer: Stage, consumer: Grid):
    """A set of producer tiles that lies on its grid for every consumer tile."""
    grid = producer.grid
    columns = [slice(None), x * 0 + draw(st.integers(0, grid.x - 1)), x.at_most(grid.x - 1)]
    rows = [slice(None), y.at_most(grid.y - 1), y * 0]
    if consumer.x <= 2 * grid.x:
        columns.append(x // 2)
    if grid.y > 1:
        rows.append(slice(y.at_most(grid.y - 2), y.at_most(grid.y - 2) + 2))
    return producer[draw(st.sampled_from(columns)), draw(st.sampled_from(rows))]


@st.composite
def pipelines(draw) -> Pipeline:
    """Pairs, chains of three, forks and joins."""
    shape = draw(st.sampled_from(["pair", "pair", "chain", "fork", "join"]))
    made = [draw(stages(name)) for name in ("first", "second", "third")[: 2 if shape == "pair" else 3]]
    producers = {"pair": {1: [0]}, "chain": {1: [0], 2: [1]}, "fork": {1: [0], 2: [0]}, "join": {2: [0, 1]}}[
        shape
    ]
    dependencies = [
        Dependency(
            made[consumer][x, y], [draw(needs(made[producer], made[consumer].grid)) for producer in read]
        )
        for consumer, read in producers.items()
    ]
    return Pipeline(shape, made, dependencies)


@st.composite
def plans(draw, pipeline: Pipeline):
    """Stream sync, or semaphores with or without the wait-kernel and a lost race."""
    orders = {stage.name: draw(ORDERS) for stage in pipeline.stages}
    kind = draw(st.sampled_from(["stream", "wait-kernel", "wait-kernel", "no wait-kernel", "lost race"]))
    if kind == "stream":
        return StreamSync(orders=orders)
    head_start = draw(st.integers(1, 5)) if kind == "lost race" else 0
    return SemaphoreSync(
        policies=draw(edge_policies(pipeline)),
        orders=orders,
        wait_kernel=kind == "wait-kernel",
        head_start=head_start,
        prefetch=draw(PREFETCHED),
    )


@st.composite
def edge_policies(draw, pipeline: Pipeline):
    """A policy for every dependency."""
    edges = [(p, d.consumer.stage.name) for d in pipeline.dependencies for p in d.producers]
    return {edge: draw(st.sampled_from(POLICIES)) for edge in edges}


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


@st.composite
def kernel_plans(draw, pipeline: Pipeline):
    """Plans that never deadlock: other schedules, launches on one stream, one kernel for all stages."""
    orders = {stage.name: draw(ORDERS) for stage in pipeline.stages}
    has_semaphores = draw(st.booleans())
    schedule, launch = draw(st.sampled_from(WITH_SEMAPHORES if has_semaphores else AT_BOUNDARIES))
    assume(not schedule.is_split_persistent or all(stage.grid.z == 1 for stage in pipeline.stages))
    sync = Semaphores(policies=draw(edge_policies(pipeline))) if has_semaphores else KernelBoundary()
    overlaps = launch.is_dependent and not schedule.is_fused
    share = draw(PREFETCHED) if overlaps else 0.0
    return Plan(schedule, launch, sync, orders=orders, prefetch=share)


@st.composite
def cost_models(draw, pipeline: Pipeline) -> CostModel:
    """Times with many ties and zeros; sometimes one per block."""
    tile_ns = {}
    for stage in pipeline.stages:
        size = stage.grid.size
        per_block = st.lists(DURATIONS, min_size=size, max_size=size)
        tile_ns[stage.name] = draw(st.one_of(DURATIONS, DURATIONS, per_block))
    costs = {name: draw(DURATIONS) for name in FIXED_COSTS}
    bias = draw(st.sampled_from([(0.0,), (0.0, 0.16), (0.0, 0.9, 0.3)]))
    return CostModel(
        tile_ns,
        sharing=draw(st.sampled_from(SHARING)),
        oldest_first_bias=bias,
        spin_share=draw(st.sampled_from([0.0, 0.0, 0.04, 0.5])),
        main_loops={stage.name: draw(LOOPS) for stage in pipeline.stages},
        **costs,
    )


@st.composite
def cases(draw, plans=plans) -> tuple[Pipeline, Plan, Device, CostModel]:
    """Everything that one simulation takes."""
    pipeline = draw(pipelines())
    return pipeline, draw(plans(pipeline)), draw(st.sampled_from(DEVICES)), draw(cost_models(pipeline))


@st.composite
def kernel_plan_cases(draw) -> tuple[Pipeline, Plan, Device, CostModel]:
    """The same for plans with kernels of their own, where one kernel for all stages fits on an SM."""
    case = draw(cases(kernel_plans))
    try:
        launched(*case[:3], case[3].main_loops)
    except DescriptionError:
        assume(False)
    return case
