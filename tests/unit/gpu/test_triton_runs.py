"""Triton kernels under a plan on streams, with a pretended PyTorch that notes what is enqueued."""

import contextlib
import importlib
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

from wavesim.codegen.triton_text import function_name
from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync

NAMES = ("up-1", "int")


class Counters(list):
    """The counters' part of the buffer."""

    def __init__(self, noted, values):
        super().__init__(values)
        self.zero_ = lambda: noted.append("zero")

    def __getitem__(self, some):
        return SimpleNamespace(tolist=lambda: list(self)[some])


def launch(noted, name, shared=0):
    """A launch that notes its name and returns what Triton returns."""

    def launched(_sync, **_options):
        noted.append(name)
        return SimpleNamespace(n_regs=64, function=name, metadata=SimpleNamespace(num_warps=4, shared=shared))

    return launched


class Stream:
    def __init__(self, name, noted):
        self.name, self._noted = name, noted

    def synchronize(self):
        self._noted.append(f"{self.name} synchronized")

    def wait_stream(self, other):
        self._noted.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def pair(monkeypatch):
    """A pair whose stages' names are none in C++, ready to overlap, and what it enqueues."""
    noted = []
    current, beside = Stream("first", noted), Stream("second", noted)
    torch = ModuleType("torch")
    torch.compiler = SimpleNamespace(disable=lambda function: function)
    torch.Tensor = object
    torch.cuda = SimpleNamespace(
        current_stream=lambda: current,
        stream=lambda _stream: contextlib.nullcontext(),
        is_current_stream_capturing=lambda: False,
        get_device_capability=lambda: (8, 0),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "wavesim_gpu.triton", raising=False)
    module = importlib.import_module("wavesim_gpu.triton")
    first, second = (
        Stage(name, Kernel(name, Grid(2, 2), Block(threads=128, registers=64))) for name in NAMES
    )
    made = object.__new__(module.Synchronised)
    made.pipeline = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[:, y]])])
    made.plan, made._names, made._streams, made._last = SemaphoreSync(), NAMES, [beside], current
    made._seen = dict.fromkeys(NAMES, Block(threads=128, registers=64))
    made.buffer, made._counters = "buffer", Counters(noted, [4, 4])
    start = {(1,): launch(noted, "wait-kernel")}
    made._prepared, made.asked = set(), []
    monkeypatch.setattr(module, "ask_for_full_carveout", made.asked.append)
    made.functions = SimpleNamespace(**{function_name("int", "wait_for_start"): start})
    yield made, noted
    sys.modules.pop("wavesim_gpu.triton", None)


def test_a_wait_kernel_is_launched_whatever_its_stage_is_called(pair):
    made, noted = pair
    made.run(launch(noted, "up-1"), launch(noted, "int"))
    assert noted == ["zero", "second waits for first", "up-1", "wait-kernel", "int", "first waits for second"]


def test_every_kernel_of_a_plan_with_streams_asks_once_for_the_full_carve_out(pair):
    made, noted = pair
    for _ in range(2):
        made.run(launch(noted, "up-1"), launch(noted, "int"))
    assert sorted(made.asked) == ["int", "up-1", "wait-kernel"]


def test_streams_are_joined_after_a_launch_that_fails(pair):
    made, noted = pair
    with pytest.raises(ZeroDivisionError):
        made.run(launch(noted, "up-1"), lambda _sync: 1 / 0)
    assert noted[-1] == "first waits for second"


def test_the_first_run_is_one_kernel_after_the_other_and_counts_their_programs(pair):
    made, noted = pair
    made._seen = None
    made._counters = Counters(noted, [4, 12])
    with pytest.raises(
        DescriptionError, match=r"stage int has 4 tiles, and its launch 12 programs.*autotune"
    ):
        made.run(launch(noted, "up-1"), launch(noted, "int"))
    alone = "first synchronized"
    assert noted == ["zero", "up-1", alone, "wait-kernel", "int", alone]
    assert made._seen is None


@pytest.mark.parametrize("is_first", [True, False])
def test_a_launch_that_returns_nothing_is_refused_by_name_before_its_programs_are_counted(pair, is_first):
    made, noted = pair
    made._seen = None if is_first else made._seen
    made._counters = Counters(noted, [4, 0])
    with pytest.raises(DescriptionError, match=r"the launch of int returned None; it must return"):
        made.run(launch(noted, "up-1"), lambda _sync: None)


def test_a_first_run_inside_a_capture_is_refused(pair, monkeypatch):
    made, noted = pair
    made._seen = None
    monkeypatch.setattr(sys.modules["torch"].cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(DescriptionError, match="Run once before the capture"):
        made.run(launch(noted, "up-1"), launch(noted, "int"))
    assert not noted


def test_dependent_launch_is_refused_on_a_gpu_that_has_none(pair):
    made, noted = pair
    made._seen, made._streams, made.plan = None, [], parse_plan("pdl+row")
    with pytest.raises(DeviceError, match=r"needs compute capability 9\.0; this GPU has 8\.0"):
        made.run(launch(noted, "up-1"), launch(noted, "int"))
    assert not noted


def test_a_run_on_another_stream_is_queued_behind_the_one_before(pair):
    made, noted = pair
    made._last = Stream("other", noted)
    made.run(launch(noted, "up-1"), launch(noted, "int"))
    assert noted[:2] == ["first waits for other", "zero"]


def test_kernels_that_occupy_more_than_those_that_were_checked_are_checked_again(pair, monkeypatch):
    made, noted = pair
    module = sys.modules["wavesim_gpu.triton"]
    monkeypatch.setattr(module, "query", lambda: replace(load("h200"), sm_count=1))
    made.plan = SemaphoreSync(wait_kernel=False)
    with pytest.raises(DescriptionError, match=r"can deadlock.*wait-kernel, or use launch=DependentLaunch"):
        made.run(launch(noted, "up-1"), launch(noted, "int", shared=200_000))
