"""The kernels that a plan launches: how many blocks each has, and what a block does one after the other.

Example: under stream sync a GEMM of 384 tiles is 384 blocks with one tile each. As a persistent kernel it is
132 blocks on 132 SMs that fetch tile after tile; under Stream-K 132 blocks with a list of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.model.device import Device
from wavesim.model.kernel import UNKNOWN_LOOP, Block, Grid, Kernel, MainLoop
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import LaunchTurn
from wavesim.plan.plan import Plan
from wavesim.plan.policy import GridSync
from wavesim.plan.resolved import SHARE_UNIT, ResolvedPlan, ResolvedStage, resolve
from wavesim.plan.schedule import Persistent, Schedule, TilePerBlock
from wavesim.plan.semaphores import SemaphoreArray, semaphore_name
from wavesim.plan.waits import Wait
from wavesim.sim.split_tiles import split_stages


@dataclass(frozen=True)
class GridLaunch:
    """`blocks` thread blocks of `kernel`; the i-th begins with the i-th item of `stages`, in issue order.

    With `fetches_next` a block fetches, after an item, the next one that nobody has fetched; else it goes on
    to `ResolvedStage.following` or ends. `turn`: when it may start in its stream; with a wait-kernel, after
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
class LaunchedProgram:
    """The stages and semaphores of a plan, and the kernels that compute them, in launch order."""

    stages: tuple[ResolvedStage, ...]
    arrays: tuple[SemaphoreArray, ...]
    launches: tuple[GridLaunch, ...]

    @property
    def semaphore_values(self) -> list[int]:
        """The value at which each semaphore, by global index, is ready."""
        return [value for array in self.arrays for value in array.values]

    def semaphore_name(self, semaphore: int) -> str:
        """A semaphore in words."""
        return semaphore_name(self.arrays, semaphore)

    def launch_of(self, stage: int) -> GridLaunch:
        """The kernel that computes a stage's tiles."""
        return next(launch for launch in self.launches if stage in launch.stages)

    def ahead_of(self, stage: int) -> int | None:
        """The stage whose grid must end before a stage's can, which was launched early; else None."""
        return stage - 1 if stage and self.launch_of(stage).turn.is_early else None


def launched(
    pipeline: Pipeline, plan: Plan, device: Device, loops: Mapping[str, MainLoop] | None = None
) -> LaunchedProgram:
    """The kernels of a plan on a device; `loops`: what is assumed of stages that do not say how they wait.

    Raises `DescriptionError` for what doesn't fit.
    """
    resolved, assumed = resolve(pipeline, plan, device), loops or {}
    stages: Sequence[ResolvedStage] = [
        replace(stage, loop=stage.stage.main_loop.filled(assumed.get(stage.stage.name, UNKNOWN_LOOP)))
        for stage in resolved.stages
    ]
    arrays: Sequence[SemaphoreArray] = resolved.arrays
    if plan.waits_for_grids:
        stages, arrays = _with_grid_waits(stages, resolved)
    stages = split_stages(stages, resolved)
    return LaunchedProgram(tuple(stages), tuple(arrays), _launches(stages, resolved, device))


def _launches(
    stages: Sequence[ResolvedStage], resolved: ResolvedPlan, device: Device
) -> tuple[GridLaunch, ...]:
    schedule = resolved.plan.schedule
    if not schedule.is_fused:
        return tuple(_launch(stage, resolved) for stage in stages)
    kernel = _fused([stage.stage for stage in stages])
    items = sum(len(stage.blocks) for stage in stages)
    slots = device.sm_count * occupancy_of(device, kernel.block).blocks_per_sm
    numbers = tuple(range(len(stages)))
    blocks = schedule.block_count(items, slots)
    return (GridLaunch(kernel, numbers, blocks, fetches_next=schedule.fetches_tiles, is_fetching=True),)


def _launch(program: ResolvedStage, resolved: ResolvedPlan) -> GridLaunch:
    plan, stage = resolved.plan, program.stage
    schedule, is_in_order = schedule_of(plan, program), resolved.is_row_major(stage.name)
    return GridLaunch(
        stage.kernel,
        (program.index,),
        schedule.block_count(len(program.blocks), resolved.slots(stage.name)),
        resolved.turns[program.index],
        schedule.fetches_tiles,
        has_wait_kernel=plan.launch.wait_kernel and bool(program.arrays),
        is_fetching=schedule.fetches_tiles or (plan.sync.has_semaphores and not is_in_order),
    )


def schedule_of(plan: Plan, program: ResolvedStage) -> Schedule:
    """Who computes a stage's tiles: a kernel that is persistent by itself stays so under any plan."""
    is_plain = plan.schedule == TilePerBlock()
    return Persistent() if is_plain and program.loop.is_persistent else plan.schedule


def _fused(stages: Sequence[Stage]) -> Kernel:
    """One kernel that can do what all stages do: the most of everything that any of them needs."""
    blocks = [stage.kernel.block for stage in stages]
    names = ("threads", "registers", "static_shared_bytes", "dynamic_shared_bytes")
    most = {name: max(getattr(block, name) for block in blocks) for name in names}
    return Kernel("+".join(stage.name for stage in stages), Grid(1), Block(**most), carveout="full")


def _with_grid_waits(
    resolved_stages: Sequence[ResolvedStage], resolved: ResolvedPlan
) -> tuple[list[ResolvedStage], list[SemaphoreArray]]:
    """A stage before one that starts early posts one semaphore per grid, which that one's blocks await."""
    wait_at = round(resolved.plan.prefetch * SHARE_UNIT)
    stages, arrays = list(resolved_stages), list[SemaphoreArray]()
    for index, before in enumerate(resolved_stages[:-1]):
        if not resolved.turns[index + 1].is_early:
            continue
        name, grid, first = before.stage.name, before.stage.grid, len(arrays)
        array = SemaphoreArray(name, GridSync(), GridSync().table(grid), first, grid)
        arrays.append(array)
        stages[index] = replace(stages[index], posts=((first,),) * grid.tiles)
        wait = Wait(wait_at, SHARE_UNIT, first, name, (0, 0))
        stages[index + 1] = replace(
            stages[index + 1], dependency=None, arrays={name: array}, grid_waits=(wait,)
        )
    return stages, arrays
