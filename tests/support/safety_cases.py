"""Random pipelines, orders, policies and small devices for the safety check, each from its seed.

Grids have up to 12 blocks; devices are small enough for waiting blocks to fill them, and large
enough for many plans to be safe.
"""

from random import Random

from wavesim.model.dependency import Dependency, TileSet, x, y
from wavesim.model.device import Device, load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch, OneStream
from wavesim.plan.order import ColumnMajor, CustomOrder, Grouped, Order, Reversed, RowMajor
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import CustomPolicy, Policy, RowSync, TileSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.sync import KernelBoundary
from wavesim.sim.placement import Footprint, footprint

Case = tuple[Pipeline, Plan, Device]

SHAPES: list[dict[int, list[int]]] = [
    {1: [0]},
    {1: [0]},
    {1: [0], 2: [1]},
    {1: [0], 2: [0]},
    {2: [0, 1]},
    {1: [0], 2: [0, 1]},
    {1: [0], 2: [1], 3: [2]},
    {1: [0], 2: [0], 3: [1, 2]},
]
BLOCKS = [
    Block(1024, 32),
    Block(1024, 64),
    Block(512, 64),
    Block(256, 32),
    Block(512, 32, dynamic_shared_bytes=60_000),
    Block(128, 168, dynamic_shared_bytes=20_000),
    Block(256, 128, static_shared_bytes=40_000),
]
POLICIES: list[Policy] = [
    TileSync(),
    RowSync(),
    CustomPolicy("one", lambda _x, _y, _grid: 0, lambda _x, _y, grid: grid.tiles),
]


def shuffled(seed: int) -> Order:
    def tiles(grid: Grid) -> list[tuple[int, int]]:
        found = list(grid)
        Random(seed).shuffle(found)
        return found

    return CustomOrder(f"shuffled {seed}", tiles)


def grid_of(random: Random, most_blocks: int) -> Grid:
    while True:
        grid = Grid(random.randint(1, 6), random.randint(1, 4), random.choice([1, 1, 1, 2]))
        if grid.size <= most_blocks:
            return grid


def need_of(random: Random, producer: Stage, consumer: Stage) -> TileSet:
    last_x, last_y = producer.grid.x - 1, producer.grid.y - 1
    columns = [slice(None), x.at_most(last_x), slice(x.at_most(last_x), None, 2), random.randint(0, last_x)]
    rows = [y.at_most(last_y), slice(None), (last_y - y).at_least(0), random.randint(0, last_y)]
    return producer[random.choice(columns), random.choice(rows)]


def device_of(random: Random) -> Device:
    return load("toy").with_sm_count(random.choice([1, 2, 2, 3, 3, 4, 5, 6]))


def case_of(seed: int, most_blocks: int = 12) -> Case:
    """A pipeline, a plan and a device on which every block can run."""
    random = Random(seed)
    shape, device = random.choice(SHAPES), device_of(random)
    count = max(shape) + 1
    most = random.choice([3, 4, 6, 8, 12] if count < 4 else [2, 3, 4])
    one_block = random.choice(BLOCKS) if random.random() < 0.4 else None
    stages = []
    for name in "abcd"[:count]:
        carveout = random.choice(["full", "full", "full", "default"])
        grid, block = grid_of(random, min(most, most_blocks)), one_block or random.choice(BLOCKS)
        stages.append(Stage(name, Kernel(name, grid, block, carveout=carveout)))
    dependencies = [
        Dependency(stages[c][x, y], [need_of(random, stages[p], stages[c]) for p in producers])
        for c, producers in shape.items()
    ]
    edges = [(stages[p].name, stages[c].name) for c, producers in shape.items() for p in producers]
    orders = [RowMajor(), ColumnMajor(), Grouped(2), Reversed(), shuffled(seed)]
    plan = SemaphoreSync(
        policies={edge: random.choice(POLICIES) for edge in edges},
        orders={stage.name: random.choice(orders) for stage in stages},
        wait_kernel=random.random() < 0.35,
    )
    return Pipeline(f"case {seed}", stages, dependencies), plan, device


def launched_case_of(seed: int, most_blocks: int | None = None) -> Case:
    """The same in small; half of them on one stream, by dependent launch or as one kernel."""
    pipeline, plan, device = case_of(seed, most_blocks or 1 + seed % 6)
    random = Random(f"launch {seed}")
    if random.random() < 0.5:
        return pipeline, plan, device
    launch = random.choice([OneStream(), DependentLaunch(), DependentLaunch(), DependentLaunch()])
    sync = random.choice([plan.sync, plan.sync, KernelBoundary()])
    if random.random() < 0.2:
        return pipeline, Plan(Persistent(fused=True), sync=plan.sync, orders=plan.orders), device
    return pipeline, Plan(launch=launch, sync=sync, orders=plan.orders), device


def other_work(seed: int, device: Device, sms: int) -> list[Footprint]:
    """A block of other work on each of so many SMs: some take all of one, others leave room."""
    random = Random(f"others {seed}")
    blocks = [Block(1024, 64), Block(1024, 64), *BLOCKS]
    return [footprint(device, Kernel("other", Grid(1), random.choice(blocks))) for _ in range(sms)]
