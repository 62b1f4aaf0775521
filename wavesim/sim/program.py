"""A pipeline and a plan, worked out tile by tile: issue order, waits and posts.

Example: under RowSync with 24 tile columns, each block of the second GEMM gets one wait (row
semaphore y at 24) before its first K step, and each tile of the first one post.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wavesim.model.accesses import Accesses, known_accesses
from wavesim.model.dependency import Dependency
from wavesim.model.kernel import UNKNOWN_LOOP, MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Tile
from wavesim.plan.plan import Plan, check_plan
from wavesim.plan.semaphores import SemaphoreArray, semaphore_arrays
from wavesim.plan.waits import Position, Wait, at_start, position_in_items, position_in_slice, waits_of

SHARE_UNIT = 1_000_000  # shares of the work are kept in millionths


@dataclass
class StageProgram:
    """One stage: its blocks (x, y, z) in issue order, what they wait for and which semaphores tiles post.

    `loop`: how its blocks wait, with what is assumed where its author has not said. `grid_waits`: what every
    block waits for alike, where it waits for a whole grid. `accesses`: what tiles read and when, where all
    stages say so; without it tiles are read in step with the work.
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
    _cache: dict[tuple[int, int, int], tuple[Wait, ...]] = field(default_factory=dict)

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
        if key not in self._cache:
            shares = self._position((x, y), z)
            if self.loop.wait_place == "before-main-loop":
                shares = at_start(shares)
            waits = waits_of(self.dependency, (x, y), self._semaphore_of, shares)
            waits = waits[:1] * (self.loop.first_checks - 1) + waits
            self._cache[key] = prefetched(waits, self.prefetch) if self.prefetch else waits
        return self._cache[key]

    def _position(self, tile: Tile, z: int) -> Position:
        if self.accesses is None:
            return position_in_slice(z, self.stage.grid.z)
        return position_in_items(self.accesses, self.stage.name, tile, z)

    def _semaphore_of(self, producer: str, tile: Tile) -> int:
        array = self.arrays[producer]
        return array.first + array.table.semaphore_of_tile[tile[1] * array.grid.x + tile[0]]


def prefetched(waits: tuple[Wait, ...], share: float) -> tuple[Wait, ...]:
    """The same waits, none before so large a share of the work is done."""
    first = round(share * SHARE_UNIT)
    return tuple(
        replace(wait, done=first, of=SHARE_UNIT) if wait.done * SHARE_UNIT < first * wait.of else wait
        for wait in waits
    )


@dataclass(frozen=True)
class PlanProgram:
    """All stages and all semaphores of a pipeline under a plan."""

    stages: tuple[StageProgram, ...]
    arrays: tuple[SemaphoreArray, ...]

    @property
    def semaphore_values(self) -> list[int]:
        """The value at which each semaphore, by global index, is ready."""
        return [value for array in self.arrays for value in array.values]

    def semaphore_name(self, semaphore: int) -> str:
        """A semaphore in words: which stage's, which policy's, which index."""
        array = next(a for a in reversed(self.arrays) if a.first <= semaphore)
        return f"{array.producer} {array.policy.name}[{semaphore - array.first}]"


def build_program(pipeline: Pipeline, plan: Plan, loops: Mapping[str, MainLoop] | None = None) -> PlanProgram:
    """Works a plan out; `loops` is what is assumed of stages whose author has not said how they wait.

    Raises `DescriptionError` for orders, policies or plans that don't fit.
    """
    check_plan(pipeline, plan)
    arrays = semaphore_arrays(pipeline, plan)
    accesses = known_accesses(pipeline)
    stages = tuple(
        _stage_program(i, stage, pipeline, plan, arrays, accesses) for i, stage in enumerate(pipeline.stages)
    )
    assumed = loops or {}
    return PlanProgram(
        tuple(
            replace(one, loop=one.stage.main_loop.filled(assumed.get(one.stage.name, UNKNOWN_LOOP)))
            for one in stages
        ),
        arrays,
    )


def _stage_program(
    index: int,
    stage: Stage,
    pipeline: Pipeline,
    plan: Plan,
    arrays: tuple[SemaphoreArray, ...],
    accesses: Accesses | None,
) -> StageProgram:
    grid = stage.grid
    blocks = plan.order_of(stage.name).blocks(grid)
    posted = [array for array in arrays if array.producer == stage.name]
    posts = tuple(
        tuple(array.first + array.table.semaphore_of_tile[tile] for array in posted)
        for tile in range(grid.tiles)
    )
    awaited = {
        producer: array for array in arrays for producer, consumer in array.edges if consumer == stage.name
    }
    return StageProgram(
        index,
        stage,
        blocks,
        posts,
        pipeline.dependency_of(stage.name),
        awaited,
        plan.prefetch,
        accesses=accesses,
    )
