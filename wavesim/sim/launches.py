"""The kernels that a plan launches: how many blocks each has, and what a block does one after the other.

Example: under stream sync a GEMM of 384 tiles is 384 blocks with one tile each. As a persistent kernel it is
132 blocks on 132 SMs that draw tile after tile; under Stream-K 132 blocks with a list of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wavesim.model.device import Device
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline, Stage
from wavesim.plan.order import Order, RowMajor
from wavesim.plan.plan import (
    DependentLaunch,
    Persistent,
    PersistentStream,
    Plan,
    SemaphoreSync,
    StreamK,
)
from wavesim.plan.policy import Policy
from wavesim.plan.semaphores import SemaphoreArray
from wavesim.plan.waits import Wait
from wavesim.sim.program import SHARE_UNIT, Program, StageProgram, build_program
from wavesim.sim.stream_k import split_stages


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
class KernelLaunch:
    """`blocks` thread blocks of `kernel`; the i-th begins with the i-th item of `stages`, in issue order.

    `then`: what a block does after an item: it ends, draws the next item that nobody has drawn, or goes on to
    `StageProgram.following`. `follows`: its turn in its stream comes at once, once every block of the
    launch before has started, or once they have all ended; or after its wait-kernel. `is_drawing`: the first
    items are drawn from a counter too, by blocks under semaphores in any order but the hardware's own.
    """

    kernel: Kernel
    stages: tuple[int, ...]
    blocks: int
    follows: Literal["nothing", "start", "end"] = "nothing"
    then: Literal["end", "draw", "following"] = "end"
    has_wait_kernel: bool = False
    is_drawing: bool = False


@dataclass(frozen=True)
class LaunchedProgram(Program):
    """A program with the kernels that compute it, in launch order."""

    launches: tuple[KernelLaunch, ...] = ()

    def launch_of(self, stage: int) -> KernelLaunch:
        """The kernel that computes a stage's tiles."""
        return next(launch for launch in self.launches if stage in launch.stages)


@dataclass
class DependentStage(StageProgram):
    """A stage under dependent launch: each block waits once, for the whole grid before it in the stream."""

    grid_wait: tuple[Wait, ...] = ()

    def waits(self, position: int) -> tuple[Wait, ...]:
        """The same for every block."""
        return self.grid_wait


def launched(pipeline: Pipeline, plan: Plan, device: Device) -> LaunchedProgram:
    """Works a plan out for a device. Raises `DescriptionError` for what doesn't fit."""
    program = build_program(pipeline, plan)
    slots = [_slots(device, stage.kernel.block) for stage in pipeline.stages]
    if isinstance(plan, DependentLaunch):
        program = _with_grid_waits(program, plan)
    elif isinstance(plan, StreamK):
        program = split_stages(program, plan, slots)
    return LaunchedProgram(program.stages, program.arrays, _launches(program, plan, device, slots))


def _launches(program: Program, plan: Plan, device: Device, slots: list[int]) -> tuple[KernelLaunch, ...]:
    if isinstance(plan, Persistent):
        kernel = _fused([stage.stage for stage in program.stages])
        items = sum(len(stage.blocks) for stage in program.stages)
        blocks = min(items, _slots(device, kernel.block))
        return (
            KernelLaunch(kernel, tuple(range(len(program.stages))), blocks, then="draw", is_drawing=True),
        )
    return tuple(_launch(stage, plan, slots[stage.index]) for stage in program.stages)


def _launch(program: StageProgram, plan: Plan, slots: int) -> KernelLaunch:
    kernel, stages, size = program.stage.kernel, (program.index,), len(program.blocks)
    if isinstance(plan, SemaphoreSync):
        has_wait_kernel = plan.wait_kernel and bool(program.arrays)
        is_drawing = not _is_row_major(plan.order_of(program.stage.name), program.stage.grid)
        return KernelLaunch(kernel, stages, size, has_wait_kernel=has_wait_kernel, is_drawing=is_drawing)
    if program.index == 0:
        follows: Literal["nothing", "start", "end"] = "nothing"
    else:
        follows = "start" if isinstance(plan, DependentLaunch) else "end"
    if isinstance(plan, PersistentStream):
        return KernelLaunch(kernel, stages, min(size, slots), follows, "draw", is_drawing=True)
    if isinstance(plan, StreamK):
        return KernelLaunch(kernel, stages, min(size, slots), follows, "following")
    return KernelLaunch(kernel, stages, size, follows)


def _is_row_major(order: Order, grid: Grid) -> bool:
    """Whether blocks need not draw their positions: their number in the grid says it."""
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


def _with_grid_waits(program: Program, plan: DependentLaunch) -> Program:
    """Every stage but the last posts one semaphore per grid, which the next stage's blocks await."""
    wait_at = round(plan.prefetch * SHARE_UNIT)
    stages, arrays = list(program.stages), []
    for index, (before, stage) in enumerate(zip(program.stages[:-1], program.stages[1:], strict=True)):
        name, grid = before.stage.name, before.stage.grid
        array = SemaphoreArray(name, WholeGrid(), WholeGrid().table(grid), index, grid)
        arrays.append(array)
        stages[index] = replace(stages[index], posts=((index,),) * grid.tiles)
        wait = Wait(wait_at, SHARE_UNIT, index, name, (0, 0))
        stages[index + 1] = DependentStage(
            stage.index, stage.stage, stage.blocks, stage.posts, None, {name: array}, grid_wait=(wait,)
        )
    return Program(tuple(stages), tuple(arrays))
