"""A process whose kernels hang is read from another one, while it hangs and after it was killed."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from small_pipelines import pair

from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync
from wavesim.safety.hang.mirror import load_mirror
from wavesim.safety.hang.situation_file import load_situation
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.hang.launch_facts import LaunchFacts
from wavesim_gpu.hang.launch_recorder import record_launches
from wavesim_gpu.hang.semaphore_mirror import mirror_semaphores

SECONDS = 60
WIDE = {"m": 4096, "k": 64, "hidden": 512, "n": 4096}  # more consumer blocks than the GPU has room for
# Posts are left out, so that consumers wait for ever, on all SMs.
HUNG = f"""
import sys
from small_pipelines import pair
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync
from wavesim_gpu import mirror_semaphores, record_launches
from wavesim_gpu.run.runner import CupyRunner
from wavesim_gpu.driver.compiler import Build
runner = CupyRunner(limit_s=1000.0, commit="test")
operands = runner.operands(pair(**{WIDE}), seed=1)
program = runner.program(operands, SemaphoreSync(RowSync()), Build(mutant="no_post"))
folder = sys.argv[1]
with record_launches(folder + "/launches.json"), mirror_semaphores(folder + "/mirror", program, every_ms=10):
    program.enqueue()
    print("enqueued", flush=True)
    program.synchronize()
"""


@pytest.fixture
def folder():
    """In memory: a mirror's file is pinned."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as found:
        yield Path(found)


@pytest.fixture
def hung(cupy, folder):
    """A process that hangs; it is killed in the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HUNG, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "enqueued\n"
            yield process
        finally:
            process.kill()


def copies_after(path, copies):
    """The mirror once so many copies were made."""
    until = time.monotonic() + SECONDS
    while (found := load_mirror(path)).copies < copies:
        assert time.monotonic() < until
        time.sleep(0.01)
    return found


@pytest.mark.gpu
def test_who_waits_for_whom_is_read_while_all_sms_spin_and_after_a_kill(hung, runner, folder):
    path = folder / "mirror"
    time.sleep(1)  # by now all that can run does, and what can end has
    before = load_mirror(path)
    during = copies_after(path, before.copies + 20)
    assert hung.poll() is None
    (semaphores,) = [array for array in during.arrays if array.kind == "semaphores"]
    assert (semaphores.operation, semaphores.waiters) == ("gemm1", ("gemm2",))
    assert not semaphores.values.any()
    assert (semaphores.awaited > 0).all()
    launched = load_situation(folder / "launches.json")
    assert [one.name for one in launched.operations] == ["gemm1", "wait-kernel of gemm2", "gemm2"]
    assert [one.name for one in during.situation.operations] == ["gemm1", "wait-kernel of gemm2", "gemm2"]
    assert {wait.producer for wait in during.situation.waits} == {"gemm1"}
    hung.kill()
    hung.wait()
    after = load_mirror(path)
    assert after.copies >= during.copies
    assert list(after.arrays[-1].values) == list(during.arrays[-1].values)
    program = runner.program(runner.operands(pair(), seed=2), SemaphoreSync(RowSync()))
    program.enqueue()
    program.synchronize()


@pytest.mark.gpu
def test_the_driver_says_what_a_kernel_takes_and_what_a_stream_is(cupy):
    facts = LaunchFacts()
    kernel = cupy.RawKernel('extern "C" __global__ void empty() { __shared__ int x[8]; x[0] = 1; }', "empty")
    assert facts.kernel(kernel.kernel.ptr)["carveout"] == "default"
    assert facts.kernel(kernel.kernel.ptr)["registers"] >= 1
    legacy = facts.stream(0)
    assert (legacy["stream"], legacy["blocking"], legacy["priority"]) == ("legacy", True, 0)
    first = cupy.cuda.Stream(non_blocking=True, priority=-5)
    assert (facts.stream(first.ptr)["blocking"], facts.stream(first.ptr)["priority"]) == (False, -5)
    assert facts.part(0)["sm_count"] == cupy.cuda.Device().attributes["MultiProcessorCount"]


@pytest.mark.gpu
def test_a_stream_of_a_green_context_sees_its_own_sms(cupy):
    from faults.green_context import green_stream

    stream, count = green_stream(16)
    facts = LaunchFacts()
    part = facts.part(stream.ptr)
    assert (part["sm_count"], part["limited_by"]) == (count, "a green context")
    assert part["name"] == facts.stream(stream.ptr)["device"] != facts.stream(0)["device"]


@pytest.mark.gpu
def test_a_mirrored_and_recorded_run_is_as_any_other(runner, folder):
    program = runner.program(
        runner.operands(pair(), seed=2), SemaphoreSync(RowSync()), Build(), is_self_resetting=False
    )
    launch = runner.launcher(program)
    with record_launches(folder / "launches.json"), mirror_semaphores(folder / "mirror", program):
        for _ in range(3):
            launch()
        program.synchronize()
    finals = load_mirror(folder / "mirror").arrays[-1]
    assert list(finals.values) == list(finals.awaited)
    found = load_situation(folder / "launches.json")
    assert [one.name for one in found.operations if one.name.startswith("gemm2")] == [
        "gemm2",
        "gemm2 #2",
        "gemm2 #3",
    ]
