"""Runs that are broken off, started by several threads at once, or given fewer SMs than the GPU has."""

import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
from small_pipelines import pair

from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim_gpu.driver.compiler import Build

pytestmark = pytest.mark.gpu


def verdict(runner, program):
    from wavesim_gpu.run.references import reference

    return runner.verdict(program, runner.launcher(program), reference(program.operands))


class Refused:
    """A launch that raises in place of the producer's, when a consumer already waits for it."""

    def enqueue(self, streams):
        time.sleep(0.05)
        raise RuntimeError("no memory")


@pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
def test_an_exception_between_launches_ends_the_run_at_once_and_the_next_is_right(runner, policy):
    """The consumer is on the GPU and its producer never comes. The limit is far away: nobody waits for it."""
    program = runner.program(runner.operands(pair(), seed=3), SemaphoreSync(policy, wait_kernel=False))
    launches = program.launches
    program.launches = (launches[1], Refused(), launches[0])
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="no memory"):
        program.enqueue()
    program.synchronize()
    assert time.monotonic() - began < 0.5 * runner.limit_ns / 1e9
    program.launches = launches
    assert verdict(runner, program).is_good


def test_an_exception_in_a_capture_leaves_streams_that_work(runner):
    program = runner.program(runner.operands(pair(), seed=3), SemaphoreSync(RowSync()))
    launches = program.launches
    program.launches = (launches[0], Refused(), *launches[1:])
    with pytest.raises(RuntimeError, match="no memory"):
        program.launcher()
    program.launches = launches
    assert verdict(runner, program).is_good


@pytest.mark.parametrize("is_graph", [True, False], ids=["graphs", "launches"])
def test_runs_of_one_program_from_several_threads_come_one_after_the_other(runner, is_graph):
    """Two graphs write the same counters. Late columns make a run that overlaps another read too early."""
    operands = runner.operands(pair(), seed=3)
    program = runner.program(operands, SemaphoreSync(TileSync()), Build(delay_ns=20_000))
    starts = [program.launcher(), program.launcher(2)] if is_graph else [program.enqueue] * 2
    failures = []

    def run(start):
        try:
            for _ in range(50):
                start()
        except Exception as error:  # noqa: BLE001  # a thread's own would be lost
            failures.append(error)

    threads = [threading.Thread(target=run, args=[start]) for start in starts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    program.synchronize()
    assert verdict(runner, program).is_good


@contextmanager
def green_context(count):
    """A green context with at least so many SMs, current within; yields how many it has."""
    from cuda.bindings import driver

    def done(status, *found):
        if int(status) != 0:
            pytest.skip(f"no green contexts: {status.name}")
        return found[0] if found else None

    try:
        device = done(*driver.cuCtxGetDevice())
    except RuntimeError as error:
        pytest.skip(str(error))
    whole = done(*driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    groups = done(*driver.cuDevSmResourceSplitByCount(1, whole, 0, count)[:2])
    description = done(*driver.cuDevResourceGenerateDesc([groups[0]], 1))
    flags = int(driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)
    green = done(*driver.cuGreenCtxCreate(description, device, flags))
    done(*driver.cuCtxPushCurrent(done(*driver.cuCtxFromGreenCtx(green))))
    try:
        yield int(groups[0].sm.smCount)
    finally:
        driver.cuCtxPopCurrent()


def test_the_sms_are_those_of_the_current_green_context(runner):
    from wavesim_gpu.driver.device import query
    from wavesim_gpu.run.planned_kernels import kernels_of

    whole, tile = query(), (128, 128, 64)
    with green_context(16) as count:
        inside = query()
    assert 16 <= count < whole.sm_count
    assert inside == replace(whole, sm_count=count)
    assert query() == whole
    if whole.compute_capability == (9, 0):
        pipeline = pair(m=2048, k=256, hidden=2048, n=2048, tiles=(tile, tile))
        (kernel,) = kernels_of(pipeline, parse_plan("fused+row"), inside, "hopper")
        assert kernel.launch.blocks == count


def test_a_pair_runs_right_within_a_green_context(runner):
    """Arrays are made and judged outside: what runs within are our own kernels."""
    from wavesim_gpu.run.references import is_right, reference, relative_errors

    operands = runner.operands(pair(m=1000, hidden=1280, n=1024), seed=3)
    expected = reference(operands)
    operands.poison()
    runner._cupy.cuda.Device().synchronize()
    with green_context(16):
        program = runner.program(operands, SemaphoreSync(RowSync()))
        runner.launcher(program)()
        program.synchronize()
    assert is_right(operands, relative_errors(operands, expected))
