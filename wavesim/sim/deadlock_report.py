"""What is said of a run that ended with blocks left: who waits for what, and who was never issued.

Example: four blocks of gemm2 hold the four SMs and wait for tiles of gemm1, whose six blocks are queued.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from wavesim.errors import DeadlockError, Waiter
from wavesim.plan.resolved import ResolvedStage
from wavesim.sim.block_process import BlockProcesses
from wavesim.sim.dispatcher import QueuedGrid
from wavesim.sim.launches import LaunchedProgram


def deadlock_error(
    program: LaunchedProgram,
    blocks: BlockProcesses,
    wait_kernels: Mapping[int, Waiter],
    queue: Iterable[QueuedGrid],
) -> DeadlockError:
    """The error for a run in which nothing can happen any more."""
    spinning = (_waiter(program, blocks, row, *blocks.spinning[row]) for row in sorted(blocks.spinning))
    waiters = (*spinning, *wait_kernels.values())
    slots = ", ".join(f"SM {w.sm} slot {w.slot}" for w in waiters[:8]) + (", ..." if len(waiters) > 8 else "")
    queued = Counter[str]()
    for launch in queue:
        queued[launch.name] += launch.upto - launch.next
    starved = [
        f"{name}: {count} of its blocks, because waiting blocks hold {slots}"
        for name, count in queued.items()
    ]
    for stage, state in zip(program.stages, blocks.stages, strict=True):
        if not state.is_launched:
            reason = "because its wait-kernel has not ended"
            starved.append(f"{stage.stage.name}: all {state.blocks_left} blocks, {reason}")
    return DeadlockError(waiters, tuple(starved))


def _waiter(
    program: LaunchedProgram,
    blocks: BlockProcesses,
    row: int,
    stage: ResolvedStage,
    position: int,
    semaphore: int,
) -> Waiter:
    return Waiter(
        stage=stage.stage.name,
        tile=stage.blocks[position],
        sm=blocks.rows.sm[row],
        slot=blocks.rows.slot[row],
        semaphore=program.semaphore_name(semaphore),
        seen=blocks.semaphores[semaphore].seen,
        awaited=blocks.semaphores[semaphore].awaited,
    )
