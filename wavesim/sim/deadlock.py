"""What is said of a run that ended with blocks left: who waits for what, and who was never issued.

Example: four blocks of gemm2 hold the four SMs and wait for tiles of gemm1, whose six blocks are queued.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from wavesim.errors import DeadlockError, Waiter
from wavesim.sim.block_process import BlockLives
from wavesim.sim.dispatcher import Launch
from wavesim.sim.launches import LaunchedProgram
from wavesim.sim.program import StageProgram


def deadlock_error(
    program: LaunchedProgram, lives: BlockLives, wait_kernels: Mapping[int, Waiter], queue: Iterable[Launch]
) -> DeadlockError:
    """The error for a run in which nothing can happen any more."""
    blocks = (_waiter(program, lives, row, *lives.spinning[row]) for row in sorted(lives.spinning))
    waiters = (*blocks, *wait_kernels.values())
    slots = ", ".join(f"SM {w.sm} slot {w.slot}" for w in waiters[:8]) + (", ..." if len(waiters) > 8 else "")
    queued = Counter[str]()
    for launch in queue:
        queued[launch.name] += launch.upto - launch.next
    starved = [
        f"{name}: {count} of its blocks, because waiting blocks hold {slots}"
        for name, count in queued.items()
    ]
    for stage, state in zip(program.stages, lives.stages, strict=True):
        if not state.is_launched:
            reason = "because its wait-kernel has not ended"
            starved.append(f"{stage.stage.name}: all {state.blocks_left} blocks, {reason}")
    return DeadlockError(waiters, tuple(starved))


def _waiter(
    program: LaunchedProgram, lives: BlockLives, row: int, stage: StageProgram, position: int, semaphore: int
) -> Waiter:
    return Waiter(
        stage=stage.stage.name,
        tile=stage.blocks[position],
        sm=lives.rows.sm[row],
        slot=lives.rows.slot[row],
        semaphore=program.semaphore_name(semaphore),
        seen=lives.semaphores[semaphore].seen,
        awaited=lives.semaphores[semaphore].awaited,
    )
