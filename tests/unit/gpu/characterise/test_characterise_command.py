"""`characterise` on a pretended GPU: it writes a device, refuses a locked clock, and compares its repeats."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from wavesim.costs.constants import read_device_file
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import driver_names, issue_order_seen, load
from wavesim_gpu.__main__ import main
from wavesim_gpu.characterise import command
from wavesim_gpu.characterise.readings import MeasuredConstant, difference, together
from wavesim_gpu.driver.current_gpu import GpuState

GPU = replace(load("h200"), name="NVIDIA X1", sm_count=96)
STATE = GpuState(GPU, 96, busy_percent=0, most_clock_mhz=1980, readings={"power_limit_w": 700.0})


class Group:
    """A group of microbenchmarks that reads its constants from a list."""

    def __init__(self, **values: list[float]) -> None:
        self.values = values
        self.turn = 0

    def measure(self, _bench: object) -> int:
        """The number of the turn."""
        self.turn += 1
        return self.turn

    def constants(self, raw: int) -> list[MeasuredConstant]:
        """Turn after turn 1 % more."""
        grown = {name: [one * (1 + 0.01 * (raw - 1)) for one in found] for name, found in self.values.items()}
        return [
            MeasuredConstant(name.replace("__", "."), found, "pretended") for name, found in grown.items()
        ]


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A GPU with two groups; the file that is written."""
    groups = {
        "memory": Group(
            memory__l2_bytes=[30e6], memory__dram_bytes_per_s=[4e12], memory__scattered_share=[0.8]
        ),
        "clock": Group(clock__light_ghz=[1.98, 1.97, 1.975], clock__gain=[0.05]),
        "dispatch": SimpleNamespace(
            measure=lambda _: 0,
            constants=lambda _: [MeasuredConstant("dispatch.oldest_first", [True], "two streams")],
        ),
    }
    monkeypatch.setattr(command, "GROUPS", groups)
    monkeypatch.setattr(command, "MicroBench", lambda: SimpleNamespace(device=GPU))
    monkeypatch.setattr(command, "require_gpu", lambda **_: STATE)
    monkeypatch.setattr(command, "versions", lambda: {"driver": "580", "numpy": ""})
    return tmp_path / "x1.toml"


def options(out: Path, **changes: object) -> Namespace:
    usual = {"out": out, "raw": None, "seconds": None, "repeat": 1, "as_found": False, "json": True}
    return Namespace(**(usual | changes))


def test_what_it_writes_is_a_device_with_costs_and_conditions(
    pretended: Path, capsys: pytest.CaptureFixture[str]
):
    assert command.run(options(pretended)) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["file"], shown["left_out"]) == (str(pretended), [])
    assert {one["difference"] for one in shown["constants"]} == {None}
    name = str(pretended)
    assert replace(load(name), name="NVIDIA X1") == GPU
    assert driver_names(name) == ("NVIDIA X1",)
    assert issue_order_seen(name)[name]["source"] == "two streams"
    known = costs_of(name)
    assert known.memory is not None
    assert (known.memory.l2_bytes, known.memory.sharpness) == (30_000_000, costs_of("h200").memory.sharpness)
    assert known.clock_gain == 0.05
    own = read_device_file(pretended)
    assert own.conditions["driver"] == "580"
    assert own.conditions["sm_count"] == 96
    assert "as_found" not in own.conditions
    assert own.constants["clock.light_ghz"].spread == pytest.approx(0.0013, abs=1e-4)


def test_repeats_are_compared_and_put_together(pretended: Path, capsys: pytest.CaptureFixture[str]):
    command.run(options(pretended, repeat=3, json=False, raw=pretended.with_suffix(".json")))
    text = capsys.readouterr().out
    assert "memory.dram_bytes_per_s" in text
    assert "2.0 %" in text
    assert read_device_file(pretended).constants["memory.dram_bytes_per_s"].value == pytest.approx(4.04e12)
    whole = json.loads(pretended.with_suffix(".json").read_text())
    assert len(whole["runs"]) == 3
    assert command.text_from(whole) == pretended.read_text()


def test_a_difference_over_five_percent_is_named(pretended: Path, capsys: pytest.CaptureFixture[str]):
    command.run(options(pretended, repeat=7, json=False))
    assert "over 5 %" in capsys.readouterr().out


def test_a_constant_whose_repeats_lie_far_apart_is_not_written(
    pretended: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    scattered = Group(clock__gain=[0.01, 0.02, 0.05, 0.09], overheads__post_ns=[400, 405, 410])
    monkeypatch.setattr(command, "GROUPS", {"clock": scattered})
    command.run(options(pretended))
    assert json.loads(capsys.readouterr().out)["scattered"] == ["clock.gain"]
    assert "clock.gain" not in read_device_file(pretended).constants
    assert costs_of(str(pretended)).overheads["post_ns"] == 405


def test_out_of_time_a_group_is_left_out_and_named(pretended: Path, capsys: pytest.CaptureFixture[str]):
    command.run(options(pretended, seconds=1e-9, json=False))
    shown = capsys.readouterr()
    assert "left out for want of time: clock, dispatch, memory; give more --seconds" in shown.out
    assert load(str(pretended)).sm_count == 96


def test_a_clock_that_one_sm_does_not_reach_is_refused_or_written_down(
    pretended: Path, monkeypatch: pytest.MonkeyPatch
):
    capped = Group(clock__light_ghz=[1.2], clock__gain=[0.0])
    monkeypatch.setattr(command, "GROUPS", {"clock": capped})
    with pytest.raises(
        DeviceError, match=r"locked or capped: waiting SMs ran at 1,200 of 1,980 MHz: unlock it"
    ):
        command.run(options(pretended))
    assert not pretended.exists()
    monkeypatch.setattr(command, "GROUPS", {"clock": Group(clock__light_ghz=[1.2], clock__gain=[0.0])})
    command.run(options(pretended, as_found=True))
    assert "1,200 of 1,980 MHz" in read_device_file(pretended).conditions["as_found"]


@pytest.mark.parametrize(
    ("repeat", "seconds", "message"), [(0, None, "--repeat is 0"), (1, 0.0, "--seconds is 0")]
)
def test_bad_options_are_refused(pretended: Path, repeat: int, seconds: float | None, message: str):
    with pytest.raises(DescriptionError, match=message):
        command.run(options(pretended, repeat=repeat, seconds=seconds))


def test_without_a_gpu_it_says_so_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["characterise", "--out", str(tmp_path / "x.toml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_reading_is_a_median_with_the_spread_of_its_middle_half():
    one = MeasuredConstant("overheads.post_ns", [100, 110, 90, 105, 400], "a stopwatch")
    assert (one.value, one.spread) == (105, pytest.approx(5 / 105))
    assert MeasuredConstant("sharing.fma_speeds", [[1.0, 0.5]], "a stopwatch").value == [1.0, 0.5]


def test_runs_are_compared_constant_by_constant_and_entry_by_entry():
    low, high = (MeasuredConstant("overheads.post_ns", [ns], "") for ns in (95, 100))
    assert difference([low, high]) == pytest.approx(0.05)
    assert difference([low]) is None
    lists = [MeasuredConstant("sharing.fma_speeds", [[1.0, share]], "") for share in (0.5, 0.4)]
    assert difference(lists) == pytest.approx(0.2)
    assert together([[low], [high]])[0].repeats == [95, 100]
