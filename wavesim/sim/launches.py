"""The kernels that a plan launches: how many blocks each has, and what a block does one after the other.

Example: under stream sync a GEMM of 384 tiles is 384 blocks with one tile each. As a persistent kernel it is
132 blocks on 132 SMs that fetch tile after tile; under Stream-K 132 blocks with a list of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel, MainLoop
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import LaunchTurn
from wavesim.plan.order import Order, RowMajor
from wavesim.plan.plan import Plan
from wavesim.plan.policy import Policy
from wavesim.plan.schedule import Persistent, Schedule, TilePerBlock
from wavesim.plan.semaphores import SemaphoreArray
from wavesim.plan.waits import Wait
from wavesim.sim.program import SHARE_UNIT, PlanProgram, StageProgram, build_program
from wavesim.sim.split_tiles import split_stages


@dataclass(frozen=True)
class WholeGrid(Policy):
    """One semaphore per grid, ready when all of it has ended: what `griddepcontrol.wait` waits for."""

    @property
    def name(self) -> str:
        return "grid"

    def semaphore(self, x: int, y: int, grid: Grid) -> int:
        return 0

    def value(self, x: int, y: int, grid: Grid) -> int:
        return grid.tiles


@dataclass(frozen=True)
class GridLaunch:
    """`blocks` thread blocks of `kernel`; the i-th begins with the i-th item of `stages`, in issue order.

    With `fetches_next` a block fetches, after an item, the next one that nobody has fetched; else it goes on
    to `StageProgram.following` or ends. `turn`: when it may start in its stream; with a wait-kernel, after
    that. `is_fetching`: the first items are fetched from a counter too, by blocks under semaphores in any
    order but the hardware's own.
    """

    kernel: Kernel
    stages: tuple[int, ...]
    blocks: int
    turn: LaunchTurn = LaunchTurn.AT_ONCE
    fetches_next: bool = False
    has_wait_kernel: bool = False
    is_fetching: bool = False


@dataclass(frozen=True)
class LaunchedProgram(PlanProgram):
    """A program with the kernels that compute it, in launch order."""

    launches: tuple[GridLaunch, ...] = ()

    def launch_of(self, stage: int) -> GridLaunch:
        """The kernel that computes a stage's tiles."""
        return next(launch for launch in self.launches if stage in launch.stages)

    def ahead_of(self, stage: int) -> int | None:
        """The stage whose grid must end before a stage's can, which was launched early; else None."""
        return stage - 1 if stage and self.launch_of(stage).turn.is_early else None


def launched(
    pipeline: Pipeline, plan: Plan, device: Device, loops: Mapping[str, MainLoop] | None = None
) -> LaunchedProgram:
    """Works a plan out for a device; `loops` as in `build_program`.

    Raises `DescriptionError` for what doesn't fit.
    """
    program = build_program(pipeline, plan, loops)
    slots = [_slots(device, stage.kernel.block) for stage in pipeline.stages]
    if plan.waits_for_grids:
        program = _with_grid_waits(program, pipeline, plan)
    program = split_stages(program, plan.schedule, slots)
    return LaunchedProgram(program.stages, program.arrays, _launches(program, pipeline, plan, device, slots))


def _launches(
    program: PlanProgram, pipeline: Pipeline, plan: Plan, device: Device, slots: list[int]
) -> tuple[GridLaunch, ...]:
    if plan.schedule.is_fused:
        kernel = _fused([stage.stage for stage in program.stages])
        items = sum(len(stage.blocks) for stage in program.stages)
        blocks = plan.schedule.block_count(items, _slots(device, kernel.block))
        stages = tuple(range(len(program.stages)))
        return (
            GridLaunch(kernel, stages, blocks, fetches_next=plan.schedule.fetches_tiles, is_fetching=True),
        )
    return tuple(
        _launch(stage, plan, plan.turn_of(pipeline, stage.index), slots[stage.index])
        for stage in program.stages
    )


def _launch(program: StageProgram, plan: Plan, turn: LaunchTurn, slots: int) -> GridLaunch:
    stage, schedule = program.stage, schedule_of(plan, program)
    is_in_order = _is_row_major(plan.order_of(stage.name), stage.grid)
    return GridLaunch(
        stage.kernel,
        (program.index,),
        schedule.block_count(len(program.blocks), slots),
        turn,
        schedule.fetches_tiles,
        has_wait_kernel=plan.launch.wait_kernel and bool(program.arrays),
        is_fetching=schedule.fetches_tiles or (plan.sync.has_semaphores and not is_in_order),
    )


def schedule_of(plan: Plan, program: StageProgram) -> Schedule:
    """Who computes a stage's tiles: a kernel that is persistent by itself stays so under any plan."""
    is_plain = plan.schedule == TilePerBlock()
    return Persistent() if is_plain and program.loop.is_persistent else plan.schedule


def _is_row_major(order: Order, grid: Grid) -> bool:
    """Whether blocks need not fetch their positions: blockIdx says it."""
    return order == RowMajor() or order.sequence(grid) == RowMajor().sequence(grid)


def _slots(device: Device, block: Block) -> int:
    """Blocks that can be resident at once: a wave."""
    return device.sm_count * occupancy_of(device, block).blocks_per_sm


def _fused(stages: Sequence[Stage]) -> Kernel:
    """One kernel that can do what all stages do: the most of everything that any of them needs."""
    blocks = [stage.kernel.block for stage in stages]
    names = ("threads", "registers", "static_shared_bytes", "dynamic_shared_bytes")
    most = {name: max(getattr(block, name) for block in blocks) for name in names}
    return Kernel("+".join(stage.name for stage in stages), Grid(1), Block(**most))


def _with_grid_waits(program: PlanProgram, pipeline: Pipeline, plan: Plan) -> PlanProgram:
    """A stage before one that starts early posts one semaphore per grid, which that one's blocks await."""
    wait_at = round(plan.prefetch * SHARE_UNIT)
    stages, arrays = list(program.stages), list[SemaphoreArray]()
    for index, before in enumerate(program.stages[:-1]):
        if not plan.turn_of(pipeline, index + 1).is_early:
            continue
        name, grid, first = before.stage.name, before.stage.grid, len(arrays)
        array = SemaphoreArray(name, WholeGrid(), WholeGrid().table(grid), first, grid)
        arrays.append(array)
        stages[index] = replace(stages[index], posts=((first,),) * grid.tiles)
        wait = Wait(wait_at, SHARE_UNIT, first, name, (0, 0))
        stages[index + 1] = replace(
            stages[index + 1], dependency=None, arrays={name: array}, grid_waits=(wait,)
        )
    return PlanProgram(tuple(stages), tuple(arrays))
