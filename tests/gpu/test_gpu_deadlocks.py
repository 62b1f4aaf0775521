"""A wait that nobody fulfils ends in a DeadlockError that names it, and the next run is right."""

import pytest
from small_pipelines import pair

from wavesim.errors import DeadlockError
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync

pytestmark = pytest.mark.gpu


@pytest.fixture
def impatient(runner):
    from wavesim_gpu.run.runner import CupyRunner

    return CupyRunner(limit_s=0.05, commit="test")


def without_producer(runner, plan):
    operands = runner.operands(pair(), seed=1)
    program = runner.program(operands, plan)
    program.launches = program.launches[1:]
    return program


@pytest.mark.parametrize(("policy", "awaited"), [(RowSync(), 5), (TileSync(), 1)], ids=["row", "tile"])
def test_a_consumer_without_its_producer_is_a_deadlock_that_names_tile_and_semaphore(
    impatient, policy, awaited
):
    # Grouped: blocks draw positions, so that it shows how many have started.
    program = without_producer(impatient, SemaphoreSync(policy, order=Grouped(2), wait_kernel=False))
    launch = impatient.launcher(program)
    launch()
    with pytest.raises(DeadlockError) as caught:
        program.synchronize()
    waiters = caught.value.waiters
    assert {waiter.tile for waiter in waiters} == {(x, y, 0) for x in range(3) for y in range(4)}
    for waiter in waiters:
        assert waiter.stage == "gemm2"
        assert (waiter.seen, waiter.awaited) == (0, awaited)
        index = waiter.tile[1] * (5 if awaited == 1 else 1)
        assert waiter.semaphore == f"gemm1 {policy.name}[{index}]"
        assert waiter.sm >= 0
    assert caught.value.starved == ("20 of 20 blocks of gemm1",)
    assert "0.05 s" in str(caught.value)


def test_stages_whose_blocks_count_nothing_are_not_called_starved(impatient):
    program = without_producer(impatient, SemaphoreSync(RowSync(), wait_kernel=False))
    impatient.launcher(program)()
    with pytest.raises(DeadlockError) as caught:
        program.synchronize()
    assert caught.value.starved == ()


def test_a_wait_kernel_without_its_producer_is_a_deadlock_too(impatient):
    program = without_producer(impatient, SemaphoreSync(RowSync()))
    impatient.launcher(program)()
    with pytest.raises(DeadlockError, match="start of gemm1"):
        program.synchronize()


def test_after_a_deadlock_the_context_lives_and_the_next_run_is_right(impatient):
    from wavesim_gpu.run.references import reference

    program = without_producer(impatient, SemaphoreSync(TileSync(), wait_kernel=False))
    impatient.launcher(program)()
    with pytest.raises(DeadlockError):
        program.synchronize()
    program.synchronize()
    operands = impatient.operands(pair(), seed=2)
    whole = impatient.program(operands, SemaphoreSync(TileSync()))
    assert impatient.verdict(whole, impatient.launcher(whole), reference(operands)).is_good


def test_replays_queued_behind_a_deadlock_drain_at_once(impatient):
    import time

    program = without_producer(impatient, SemaphoreSync(RowSync(), wait_kernel=False))
    launch = impatient.launcher(program)
    began = time.monotonic()
    for _ in range(40):
        launch()
    with pytest.raises(DeadlockError):
        program.synchronize()
    assert time.monotonic() - began < 20 * 0.05
