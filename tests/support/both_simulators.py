"""The SimPy model and the reference simulator on one case: they must agree on every block."""

import pytest

from wavesim.bench.reference.simulator import ReferenceSimulator
from wavesim.errors import DeadlockError
from wavesim.sim.engine import Engine

FIELDS = ("stage", "tile", "issue", "start", "wait", "end", "sm", "slot")


def schedule_of(reference: ReferenceSimulator) -> list[tuple]:
    return [tuple(getattr(block, name) for name in FIELDS) for block in reference.blocks]


def schedule_by_simpy(engine: Engine) -> list[tuple]:
    rows = engine.rows
    tiles = [(program.index, tile) for program in engine.program.stages for tile in program.blocks]
    times = zip(rows.issue, rows.start, rows.wait, rows.end, rows.sm, rows.slot, strict=True)
    return [(*tile, *time) for tile, time in zip(tiles, times, strict=True)]


def waiters_of(reference: ReferenceSimulator) -> list[tuple]:
    names = [program.stage.name for program in reference.program.stages]
    blocks = [
        (names[block.stage], block.tile, block.sm, block.slot, reference.program.semaphore_name(semaphore))
        for block, semaphore in reference.stuck
    ]
    kernels = [
        (f"wait-kernel of {names[k.stage]}", k.tile, k.sm, k.slot) for k in reference.stuck_wait_kernels
    ]
    return sorted([*blocks, *kernels])


def waiters_by_simpy(error: DeadlockError) -> list[tuple]:
    return sorted(
        (w.stage, w.tile, w.sm, w.slot, *([] if w.stage.startswith("wait-kernel") else [w.semaphore]))
        for w in error.waiters
    )


def check_equal(case) -> bool:
    """Whether the case ends in a deadlock; asserts that both engines say the same."""
    reference = ReferenceSimulator(*case).run()
    engine = Engine(*case)
    if reference.stuck or reference.stuck_wait_kernels:
        with pytest.raises(DeadlockError) as caught:
            engine.run()
        assert waiters_by_simpy(caught.value) == waiters_of(reference)
        return True
    engine.run()
    assert schedule_by_simpy(engine) == schedule_of(reference)
    return False
