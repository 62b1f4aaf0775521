"""What is said of a run that ended with blocks left: who waits for what, and who was never issued.

Example: four blocks of gemm2 hold the four SMs and wait for tiles of gemm1, whose six blocks are queued.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from wavesim.errors import DeadlockError, Waiter
from wavesim.sim.block import SimulatedBlocks
from wavesim.sim.dispatcher import QueuedGrid
from wavesim.sim.launches import LaunchedProgram


def deadlock_error(
    program: LaunchedProgram,
    blocks: SimulatedBlocks,
    wait_kernels: Mapping[int, Waiter],
    queue: Iterable[QueuedGrid],
) -> DeadlockError:
    """The error for a run in which nothing can happen any more."""
    spinning = (_waiter(program, blocks, row) for row in sorted(blocks.spinning))
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


def _waiter(program: LaunchedProgram, blocks: SimulatedBlocks, row: int) -> Waiter:
    block, semaphore = blocks.spinning[row]
    return Waiter(
        stage=block.state.program.stage.name,
        tile=block.state.program.blocks[block.position],
        sm=block.sm,
        slot=block.slot,
        semaphore=program.semaphore_name(semaphore),
        seen=blocks.semaphores[semaphore].seen,
        awaited=blocks.semaphores[semaphore].awaited,
    )
