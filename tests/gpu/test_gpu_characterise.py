"""What `characterise` finds on the GPU at hand lies where a GPU's figures lie, and the file is a device."""

import json
from pathlib import Path

import pytest

from wavesim.costs.constants import read_device_file
from wavesim.costs.device_costs import costs_of
from wavesim.errors import DeviceError
from wavesim.model.device import driver_names, load, products
from wavesim_gpu.__main__ import main
from wavesim_gpu.driver.current_gpu import require_gpu
from wavesim_gpu.driver.device import query

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A device file of this GPU, clocks held or not."""
    folder = tmp_path_factory.mktemp("characterised")
    arguments = ["--out", str(folder / "mine.toml"), "--raw", str(folder / "raw.json"), "--as-found"]
    assert main(["characterise", *arguments]) == 0
    return folder / "mine.toml"


def test_the_file_is_this_gpu(written: Path):
    device = load(str(written))
    assert (device.sm_count, device.l2_bytes) == (query().sm_count, query().l2_bytes)
    assert costs_of(str(written)).memory is not None


def test_constants_lie_where_a_gpus_lie(written: Path):
    found = {name: one.value for name, one in read_device_file(written).constants.items()}
    device = load(str(written))
    assert 1 <= found["timer.step_ns"] <= 2_000
    assert 100 < found["semaphore.latency_ns"] < 3_000
    assert 300 < found["overheads.boundary_ns"] < 10_000
    peak = device.dram_bytes_per_s
    assert 0.4 * peak < found["memory.dram_bytes_per_s"] < 1.05 * peak
    assert 0.4 * peak < found["memory.copy_bytes_per_s"] < 1.05 * peak
    assert 0.2 * device.l2_bytes < found["memory.l2_bytes"] < 1.2 * device.l2_bytes
    assert 0.5 < found["clock.full_ghz"] <= found["clock.single_ghz"] * 1.02
    assert found["sharing.tensor_speeds"][0] == 1.0
    assert found["l2.near_cycles"] <= found["l2.far_cycles"]


def test_raw_results_are_kept(written: Path):
    assert set(json.loads(written.with_name("raw.json").read_text())) >= {"device", "conditions", "runs"}


def test_the_gpu_is_told_from_every_other_product():
    mine = query().name
    for name in products():
        if mine not in driver_names(name):
            with pytest.raises(DeviceError, match=r"the GPU is"):
                require_gpu(name, may_be_held=True, may_be_disturbed=True)
