"""Whether the GPU at hand is the one that is meant, whole, idle and at its own clocks."""

from dataclasses import replace
from pathlib import Path

import pytest

from wavesim.errors import DeviceError
from wavesim.model import device_files
from wavesim.model.device import Device, load
from wavesim_gpu.driver import current_gpu as gpu_at_hand
from wavesim_gpu.driver.current_gpu import GpuState, differences, require_gpu

# As the driver reports an H200: 4,814 GB/s, where the data sheet rounds to 4,800.
H200 = replace(load("h200"), name="NVIDIA H200", dram_bytes_per_s=4_814_304_000_000.0)
IDLE = GpuState(H200, 132, busy_percent=0, most_clock_mhz=1980)


@pytest.fixture
def at_hand(monkeypatch: pytest.MonkeyPatch):
    """Puts a GPU of that state into the machine."""

    def put(state: GpuState) -> None:
        monkeypatch.setattr(gpu_at_hand, "gpu_state", lambda: state)

    put(IDLE)
    return put


@pytest.mark.usefixtures("at_hand")
def test_the_gpu_that_is_meant_idle_and_whole_passes():
    assert require_gpu("h200") is IDLE
    assert require_gpu() is IDLE


@pytest.mark.parametrize(
    ("device", "name", "message"),
    [
        (
            replace(H200, name="NVIDIA H100 80GB HBM3"),
            "h200",
            "the GPU is NVIDIA H100 80GB HBM3; h200 is NVIDIA",
        ),
        (
            replace(H200, sm_count=66),
            "h200",
            "has 66 SMs for this process, h200 has 132: a MIG slice, a green",
        ),
        (replace(H200, l2_bytes=31_457_280), "h200", "has 31,457,280 bytes of L2, h200 has 62,914,560"),
        (
            replace(H200, dram_bytes_per_s=3.35e12),
            "h200",
            "has 3,350,000,000,000 bytes/s of DRAM, h200 has 4,8",
        ),
        (
            H200,
            "h100",
            "the GPU is NVIDIA H200; h100 is NVIDIA H100 80GB HBM3: name the device that is there",
        ),
    ],
)
def test_another_gpu_is_refused_by_what_differs(at_hand, device: Device, name: str, message: str):
    at_hand(replace(IDLE, device=device, whole_sm_count=device.sm_count))
    with pytest.raises(DeviceError) as error:
        require_gpu(name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_of_another_gpu_with_as_many_sms_is_refused(tmp_path: Path):
    path = tmp_path / "mine.toml"
    text = (device_files.FOLDER / "h100.toml").read_text()
    path.write_text(text)
    assert "h100" not in differences(replace(H200, name="NVIDIA H100 80GB HBM3"), str(path))[0]
    # The name alone is not trusted: the same name with another memory is another GPU.
    path.write_text(text.replace("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
    found = differences(H200, str(path))
    assert any("bytes of L2" in one for one in found)
    assert any("bytes/s of DRAM" in one for one in found)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (replace(IDLE, device=replace(H200, sm_count=66)), "may use 66 of the GPU's 132 SMs (MPS or a green"),
        (replace(IDLE, busy_percent=87, other_pids=(12, 34)), "87 % busy with other work (processes 12, 34)"),
        (replace(IDLE, clock_reasons=0x2), "application clocks hold the SM clock"),
    ],
)
def test_a_gpu_that_is_shared_busy_or_held_down_is_refused(at_hand, state: GpuState, message: str):
    at_hand(state)
    with pytest.raises(DeviceError) as error:
        require_gpu()
    assert message in str(error.value)
    assert require_gpu(may_be_held=True, may_be_disturbed=True) is state


def test_idle_capped_by_power_and_unknown_are_no_reasons_to_refuse(at_hand):
    for state in (
        replace(IDLE, clock_reasons=0x1),
        replace(IDLE, clock_reasons=0x4),
        replace(IDLE, busy_percent=None),
    ):
        at_hand(state)
        assert require_gpu("h200") is state


def test_what_ended_a_moment_ago_is_not_taken_for_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_at_hand, "PAUSE_S", 0.0)
    seen = iter([95, 60, 4])
    assert gpu_at_hand._least_busy(lambda: next(seen)) == 4
    assert gpu_at_hand._least_busy(lambda: 80) == 80


def test_an_answer_that_nvml_does_not_have_is_left_out():
    def refuse() -> int:
        raise RuntimeError("not supported")

    assert gpu_at_hand._answers({"a": lambda: 1, "b": refuse}) == {"a": 1}
