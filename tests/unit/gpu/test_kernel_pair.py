"""The recipe that users copy refuses plans that can deadlock, resets, waits and asks how it went. No GPU."""

import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.sync import Semaphores

EXAMPLES = Path(__file__).parents[3] / "gpu" / "examples"


class Function:
    def __init__(self, log, name):
        self.log, self.name = log, name

    def block(self, threads, dynamic):
        return Block(threads, 32)

    def function(self, grid, block, arguments, dynamic, stream):
        self.log.append(f"{self.name} {grid[0]}x{block[0]}x{block[1]} on {stream.name}")


class Stream:
    ptr = 0

    def __init__(self, number):
        self.name = f"stream {number}"

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass


class Sync:
    def __init__(self, log, error, pipeline, plan):
        log.append("counters")
        self.log, self.error, self.pipeline, self.plan = log, error, pipeline, plan

    def params(self, name):
        return name

    def reset(self, stream):
        self.log.append(f"reset on {stream.name}")

    def check(self):
        self.log.append("check")
        if self.error is not None:
            raise self.error


@pytest.fixture
def log():
    return []


@pytest.fixture
def pair(monkeypatch, log):
    """The example on a GPU that only notes what it is asked to do; `errors`: what its runs end in."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    sys.modules.pop("kernel_pair", None)
    import kernel_pair

    numbers, errors = count(), []
    cuda = SimpleNamespace(
        Stream=lambda non_blocking: Stream(next(numbers)),
        Event=lambda disable_timing: SimpleNamespace(record=lambda stream: None),
        Device=lambda: SimpleNamespace(synchronize=lambda: None),
    )
    cupy = SimpleNamespace(full=np.full, cuda=cuda)
    wait = SimpleNamespace(enqueue=lambda streams: log.append(f"wait-kernel on {streams[1].name}"))
    instead = {
        "require_cupy": lambda: cupy,
        "query": lambda: load("h200"),
        "load_function": lambda path, name, build, header: Function(log, name),
        "SyncState": lambda pipeline, plan: Sync(log, errors[0] if errors else None, pipeline, plan),
        "wait_launch": lambda sync, name, stream, build: wait,
    }
    for name, by in instead.items():
        monkeypatch.setattr(kernel_pair, name, by)
    monkeypatch.setattr("wavesim_gpu.run.launches.require_cupy", lambda: cupy)
    yield SimpleNamespace(run_synchronised=kernel_pair.run_synchronised, errors=errors)
    sys.modules.pop("kernel_pair", None)


def operands(rows):
    return np.ones((rows, 32), np.float32), np.ones((32, 64), np.float32)


def test_the_pair_resets_first_and_launches_the_wait_kernel_before_the_consumer(pair, log):
    pair.run_synchronised(*operands(64), SemaphoreSync())
    assert log == [
        "counters",
        "reset on stream 0",
        "matmul 16x16x16 on stream 0",
        "wait-kernel on stream 1",
        "normalise_rows 4x16x16 on stream 1",
        "check",
    ]


def test_without_wait_kernel_or_semaphores_none_is_launched(pair, log):
    pair.run_synchronised(*operands(64), SemaphoreSync(wait_kernel=False))
    pair.run_synchronised(*operands(64), StreamSync())
    assert not any(line.startswith("wait-kernel") for line in log)
    assert log[-2] == "normalise_rows 4x16x16 on stream 2", "one after another on one stream"


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (SemaphoreSync(wait_kernel=False), "Use wait_kernel=True"),
        (Plan(Persistent()), "compute one tile each"),
        (Plan(launch=DependentLaunch(), sync=Semaphores()), "compute one tile each"),
    ],
)
def test_a_plan_that_can_deadlock_or_that_the_kernels_cannot_run_is_refused_before_any_launch(
    pair, log, plan, words
):
    """Of the consumer there are more blocks than fit on the GPU."""
    with pytest.raises(DescriptionError, match=words):
        pair.run_synchronised(*operands(16 * 132 * 64), plan)
    assert log == []


def test_a_wait_that_gave_up_is_an_error_of_this_run_and_not_a_result(pair, log):
    pair.errors.append(DeadlockError((), (), "a wait ran out of its time limit of 30 s"))
    with pytest.raises(DeadlockError, match="ran out of its time limit"):
        pair.run_synchronised(*operands(64), SemaphoreSync())
