"""A plan worked out for a pipeline and a device, once: turns, tile orders, semaphores, waits, posts, waves.

Example: under RowSync with 24 tile columns, each block of the second GEMM gets one wait (row semaphore y at
24) before its first K step, and each tile of the first one post. The simulator, the generators, the safety
checks and the GPU runner all read this value. Whether the plan can deadlock is not in it: that takes worst
cases of a device, which rooms above this one count (`safety.deadlock.safety_of`, which keeps its answers).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from wavesim.model.accesses import Accesses, known_accesses
from wavesim.model.dependency import Dependency
from wavesim.model.device import Device
from wavesim.model.kernel import UNKNOWN_LOOP, MainLoop
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import LaunchTurn
from wavesim.plan.order import RowMajor, Tile
from wavesim.plan.plan import Plan, check_plan
from wavesim.plan.semaphores import Edge, SemaphoreArray, edges_of, semaphore_arrays
from wavesim.plan.waits import Position, Wait, at_start, position_in_items, position_in_slice, waits_of

SHARE_UNIT = 1_000_000  # shares of the work are kept in millionths
MOST_KEPT = 16  # plans that are kept worked out


@dataclass
class ResolvedStage:
    """One stage: its blocks (x, y, z) in issue order, what they wait for and which semaphores tiles post.

    `arrays`: the semaphores that it awaits, by producer. `loop`: how its blocks wait, with what is assumed
    where its author has not said. `grid_waits`: what every block waits for alike, where it waits for a whole
    grid. `accesses`: what tiles read and when, where all stages say so; without it tiles are read in step
    with the work.
    """

    index: int
    stage: Stage
    blocks: tuple[tuple[int, int, int], ...]
    posts: tuple[tuple[int, ...], ...]
    dependency: Dependency | None
    arrays: Mapping[str, SemaphoreArray]
    prefetch: float = 0.0
    loop: MainLoop = UNKNOWN_LOOP
    grid_waits: tuple[Wait, ...] = ()
    accesses: Accesses | None = None
    _known: dict[tuple[int, int, int], tuple[Wait, ...]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        needs = self.dependency.needs if self.dependency is not None else ()
        self._uses_x = any(need.uses("x") for need in needs)
        self._uses_y = any(need.uses("y") for need in needs)

    @property
    def has_posts(self) -> bool:
        """Whether its tiles post semaphores."""
        return bool(self.posts[0])

    def output(self, position: int) -> int:
        """What the block at a position helps to make, as an index into `posts`: its tile, row-major."""
        x, y, _ = self.blocks[position]
        return y * self.stage.grid.x + x

    def following(self, position: int) -> int:
        """The position that the same block computes next, -1 if it ends: here a block has one tile."""
        return -1

    @property
    def contributors(self) -> list[int]:
        """How many blocks make each output: a tile's split-K slices."""
        return [self.stage.grid.z] * self.stage.grid.tiles

    def waits(self, position: int) -> tuple[Wait, ...]:
        """What the block at a position of the issue order waits for, in order; each semaphore once."""
        if self.grid_waits or self.dependency is None or not self.arrays:
            return self.grid_waits
        x, y, z = self.blocks[position]
        key = (x if self._uses_x else 0, y if self._uses_y else 0, z)
        if key not in self._known:
            shares = self._position((x, y), z)
            if self.loop.wait_place == "before-main-loop":
                shares = at_start(shares)
            waits = waits_of(self.dependency, (x, y), self._semaphore_of, shares)
            waits = waits[:1] * (self.loop.first_checks - 1) + waits
            self._known[key] = prefetched(waits, self.prefetch) if self.prefetch else waits
        return self._known[key]

    def _position(self, tile: Tile, z: int) -> Position:
        if self.accesses is None:
            return position_in_slice(z, self.stage.grid.z)
        return position_in_items(self.accesses, self.stage.name, tile, z)

    def _semaphore_of(self, producer: str, tile: Tile) -> int:
        return self.arrays[producer].semaphore(tile)


def prefetched(waits: tuple[Wait, ...], share: float) -> tuple[Wait, ...]:
    """The same waits, none before so large a share of the work is done."""
    first = round(share * SHARE_UNIT)
    return tuple(
        replace(wait, done=first, of=SHARE_UNIT) if wait.done * SHARE_UNIT < first * wait.of else wait
        for wait in waits
    )


class ResolvedPlan:
    """A pipeline under a plan; each answer is worked out when it is first needed.

    Without `device` there is no number of blocks that fit.
    """

    def __init__(self, pipeline: Pipeline, plan: Plan, device: Device | None = None) -> None:
        check_plan(pipeline, plan)
        self.pipeline, self.plan, self.device = pipeline, plan, device
        self.names = tuple(stage.name for stage in pipeline.stages)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """(producer, consumer) of every dependency."""
        return edges_of(self.pipeline)

    @cached_property
    def arrays(self) -> tuple[SemaphoreArray, ...]:
        """One array per producer and policy, in the order of the dependencies; none without semaphores."""
        return semaphore_arrays(self.pipeline, self.plan)

    @property
    def semaphore_count(self) -> int:
        """Semaphores of all arrays."""
        return sum(array.table.count for array in self.arrays)

    @cached_property
    def array_of(self) -> Mapping[Edge, SemaphoreArray]:
        """The array behind each dependency."""
        return {edge: array for array in self.arrays for edge in array.edges}

    def outputs(self, stage: str) -> tuple[SemaphoreArray, ...]:
        """The arrays that a stage's tiles post to."""
        return tuple(array for array in self.arrays if array.producer == stage)

    def inputs(self, stage: str) -> Mapping[str, SemaphoreArray]:
        """The arrays that a stage's tiles await, by producer."""
        return {edge[0]: array for array in self.arrays for edge in array.edges if edge[1] == stage}

    @cached_property
    def turns(self) -> tuple[LaunchTurn, ...]:
        """When each stage's kernel may start, by the one launched before it."""
        return tuple(self.plan.turn_of(self.pipeline, index) for index in range(len(self.names)))

    def is_row_major(self, stage: str) -> bool:
        """Whether a stage's tiles are in the order in which the hardware issues blocks."""
        order, grid = self.plan.order_of(stage), self.pipeline.stage(stage).grid
        return order == RowMajor() or order.sequence(grid) == RowMajor().sequence(grid)

    def slots(self, stage: str) -> int:
        """Blocks of a stage that can be resident at once: a wave."""
        assert self.device is not None, "how many blocks fit depends on the device"
        block = self.pipeline.stage(stage).kernel.block
        return self.device.sm_count * occupancy_of(self.device, block).blocks_per_sm

    @cached_property
    def stages(self) -> tuple[ResolvedStage, ...]:
        """All stages with their blocks. Raises `DescriptionError` for orders and policies that don't fit."""
        accesses = known_accesses(self.pipeline)
        return tuple(
            ResolvedStage(
                index,
                stage,
                blocks=self.plan.order_of(stage.name).blocks(stage.grid),
                posts=self._posts(stage),
                dependency=self.pipeline.dependency_of(stage.name),
                arrays=self.inputs(stage.name),
                prefetch=self.plan.prefetch,
                loop=stage.main_loop.filled(UNKNOWN_LOOP),
                accesses=accesses,
            )
            for index, stage in enumerate(self.pipeline.stages)
        )

    def _posts(self, stage: Stage) -> tuple[tuple[int, ...], ...]:
        posted = self.outputs(stage.name)
        return tuple(tuple(array.semaphore(tile) for array in posted) for tile in stage.grid)


def resolve(pipeline: Pipeline, plan: Plan, device: Device | None = None) -> ResolvedPlan:
    """The plan worked out, kept for as long as it is among the last ones. Raises `DescriptionError`."""
    try:
        hash(plan)
    except TypeError:  # of a part that somebody wrote: it need not have a hash
        return ResolvedPlan(pipeline, plan, device)
    return _kept(pipeline, buffers_key(pipeline), plan, device)


def buffers_key(pipeline: Pipeline) -> Hashable:
    """Where operands lie: pipelines are equal whatever buffers that is, and what is kept of them is not."""
    return tuple(tuple(stage.buffers.items()) for stage in pipeline.stages)


@lru_cache(maxsize=MOST_KEPT)
def _kept(pipeline: Pipeline, _buffers: Hashable, plan: Plan, device: Device | None) -> ResolvedPlan:
    return ResolvedPlan(pipeline, plan, device)
