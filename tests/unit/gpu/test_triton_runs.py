"""Triton kernels under a plan on streams, with a pretended PyTorch that notes what is enqueued."""

import contextlib
import importlib
import sys
from types import ModuleType, SimpleNamespace

import pytest

from wavesim.codegen.triton_text import function_name
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync

NAMES = ("up-1", "int")


class Stream:
    def __init__(self, name, noted):
        self.name, self._noted = name, noted

    def wait_stream(self, other):
        self._noted.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def pair(monkeypatch):
    """A pair whose stages' names are none in C++, ready to overlap, and what it enqueues."""
    noted = []
    current, beside = Stream("first", noted), Stream("second", noted)
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(
        current_stream=lambda: current, stream=lambda _stream: contextlib.nullcontext()
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "wavesim_gpu.triton", raising=False)
    module = importlib.import_module("wavesim_gpu.triton")
    first, second = (
        Stage(name, Kernel(name, Grid(2, 2), Block(threads=128, registers=64))) for name in NAMES
    )
    made = object.__new__(module.Synchronised)
    made.pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[:, y]])])
    made.plan, made._names, made._streams, made._is_checked = SemaphoreSync(), NAMES, [beside], True
    made.buffer, made._counters = "buffer", SimpleNamespace(zero_=lambda: noted.append("zero"))
    start = {(1,): lambda _buffer, **_options: noted.append("wait-kernel")}
    made.functions = SimpleNamespace(**{function_name("int", "wait_for_start"): start})
    yield made, noted
    sys.modules.pop("wavesim_gpu.triton", None)


def test_a_wait_kernel_is_launched_whatever_its_stage_is_called(pair):
    made, noted = pair
    made.run(lambda _sync: noted.append("up-1"), lambda _sync: noted.append("int"))
    assert noted == ["zero", "second waits for first", "up-1", "wait-kernel", "int", "first waits for second"]


def test_streams_are_joined_after_a_launch_that_fails(pair):
    made, noted = pair
    with pytest.raises(ZeroDivisionError):
        made.run(lambda _sync: noted.append("up-1"), lambda _sync: 1 / 0)
    assert noted[-1] == "first waits for second"
