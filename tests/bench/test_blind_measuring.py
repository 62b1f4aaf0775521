"""The measurer of blind runs, on a GPU that is pretended: which kernels run what, and what is left out."""

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
from pretended_measurer import HOPPER, pretended

from wavesim.bench.blind_runs import STAMP
from wavesim.bench.blind_sizes import BASELINE, RIVALS, all_sizes
from wavesim.model.device import load
from wavesim_gpu.bench.blind_worker import MEASURING_S
from wavesim_gpu.bench.kinds import gemms as blind_measuring
from wavesim_gpu.driver import functions
from wavesim_gpu.driver.clocks import Reading
from wavesim_gpu.run.runner import OutputCheck, WrongResultError
from wavesim_gpu.run.timing import Rounds


class FakeProgram:
    """Stands for a program on a GPU: remembers what it was made of."""

    def __init__(self, size, backend, plan, build) -> None:
        self.size, self.backend, self.plan, self.build = size, backend, plan, build
        self.streams = ("a stream",)
        self.sync = SimpleNamespace(check=lambda: None)

    def synchronize(self) -> None:
        pass


class FakeRunner:
    """Stands for a `CupyRunner`; programs of `wrong` plans have wrong results."""

    wrong: frozenset[str] = frozenset()
    ran: ClassVar[list[FakeProgram]] = []

    def __init__(self, limit_s: float, commit: str, backend: str) -> None:
        assert limit_s < MEASURING_S  # a deadlock is told before the worker is given up
        self.backend = backend

    def operands(self, pipeline, seed):
        return pipeline.parameters["judged_size"]

    def program(self, operands, plan, build):
        return FakeProgram(operands, self.backend, plan, build)

    def launcher(self, program):
        return lambda: FakeRunner.ran.append(program)

    def verdict(self, program, launch, expected):
        return OutputCheck(
            {"gemm1": 0.0}, program.plan.name not in FakeRunner.wrong, has_right_semaphores=True
        )


@pytest.fixture
def measurer(monkeypatch):
    """A `GpuMeasurer` on a GPU that is pretended, contender by contender."""

    def interleaved(contenders, rounds, _warm_up_s):
        return [Rounds([1_000_000] * rounds, [1.5] * rounds) for _ in contenders]

    def build_trace(program, rounds_ns, _reading, _notes):
        sizes = {size.name: size for size in all_sizes()}
        found = pretended(sizes[program.size], program.plan.order.name, program.plan.name)
        return replace(found, header=replace(found.header, rounds_ns=rounds_ns))

    class Sampler:
        reading = Reading(1500.0, 600.0, 3)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    def run_in_turn(contenders):
        for one in contenders:
            one.launch()

    fakes = {"CupyRunner": FakeRunner, "Sampler": Sampler, "interleaved": interleaved}
    fakes |= {"build_trace": build_trace, "run_in_turn": run_in_turn}
    fakes |= {"query": lambda: None, "reference": lambda _operands: {}}
    for name, fake in fakes.items():
        monkeypatch.setattr(blind_measuring, name, fake)
    monkeypatch.setattr(FakeRunner, "ran", [])
    return blind_measuring.GpuMeasurer("abcdef0")


def test_the_gpus_measurer_runs_every_plan_as_it_is_and_traces_say_which(measurer):
    streams = measurer.streams(HOPPER)
    assert {order: trace.header.plan for order, trace in streams.items()} == {
        "row": "stream",
        "grouped:4": "stream",
    }
    found = measurer.compare(HOPPER, HOPPER.plans, 0, "f" * 64)
    assert set(found.comparison.rounds) == {(o, word) for o in HOPPER.orders for word in (BASELINE, *RIVALS)}
    assert [trace.header.plan for trace in found.traces] == ["row", "tile", "pdl"] * 2
    assert {trace.header.versions[STAMP] for trace in found.traces} == {"f" * 64}
    ran = {(one.backend, one.plan.name, one.build.is_recording) for one in FakeRunner.ran}
    assert {("hopper", "pdl", True), ("hopper", "stream-k", False)} <= ran
    assert ("hopper", "stream-k", True) not in ran
    assert measurer.compare(HOPPER, ("row",), 1, "f" * 64).traces == []


def test_the_gpus_measurer_leaves_out_what_is_wrong_and_raises_if_stream_sync_is(measurer, monkeypatch):
    monkeypatch.setattr(FakeRunner, "wrong", frozenset({"stream-k"}))
    found = measurer.compare(HOPPER, HOPPER.plans, 0, "f" * 64)
    assert set(found.missing) == {"row stream-k", "grouped:4 stream-k"}
    assert ("row", "pdl") in found.comparison.rounds
    assert ("row", "stream-k") not in found.comparison.rounds
    monkeypatch.setattr(FakeRunner, "wrong", frozenset({"stream"}))
    with pytest.raises(WrongResultError, match="relative errors"):
        measurer.streams(HOPPER)


def test_what_turns_wrong_during_its_rounds_is_left_out_too(measurer, monkeypatch):
    def interleaved(contenders, rounds, _warm_up_s):
        monkeypatch.setattr(FakeRunner, "wrong", frozenset({"stream-k"}))
        return [Rounds([1_000_000] * rounds, [1.5] * rounds) for _ in contenders]

    monkeypatch.setattr(blind_measuring, "interleaved", interleaved)
    found = measurer.compare(HOPPER, HOPPER.plans, 0, "f" * 64)
    assert set(found.missing) == {"row stream-k", "grouped:4 stream-k"}
    assert all(why.endswith("after its rounds") for why in found.missing.values())
    assert ("row", "pdl") in found.comparison.rounds
    assert ("row", "stream-k") not in found.comparison.rounds


def test_every_kernel_that_the_sizes_need_is_compiled_once_and_what_cannot_be_is_left(measurer, monkeypatch):
    asked = []
    monkeypatch.setattr(functions, "query", lambda: load("h200"))
    monkeypatch.setattr(blind_measuring, "compile_all", asked.append)
    impossible = replace(HOPPER, tiles=((128, 256), (192, 192)), workload="gpt3-mlp", kernels="portable")
    measurer.prepare([*all_sizes(), impossible])
    (kernels,) = asked
    alike = {(one.source.name, one.expression, one.build, one.header) for one in kernels}
    assert len(alike) == len(kernels)
    assert {one.build.is_recording for one in kernels} == {False, True}
    assert any("64, 64, 32" in one.expression for one in kernels)
    assert any("Form<Activation::swiglu>" in one.expression for one in kernels)
