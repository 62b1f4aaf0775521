"""Places of semaphores on a GPU with clusters: every way passes its posts, and SMs show their GPCs."""

import json

import pytest

from wavesim.errors import DeviceError
from wavesim.labs.waiting_places import read_places

pytestmark = pytest.mark.gpu


def test_every_place_is_measured_and_shared_memory_is_no_farther_than_the_l2(runner, tmp_path, monkeypatch):
    from wavesim_gpu.bench.labs import waiting_places

    monkeypatch.setattr(waiting_places, "REPEATS", 2)
    try:
        gpu = waiting_places.ClusterBench()
    except DeviceError as missing:
        pytest.skip(str(missing))
    found = waiting_places.measure(gpu)
    path = tmp_path / "places.json"
    device = {"name": gpu.bench.device.name}
    path.write_text(json.dumps({"date": "today", "device": device, "commit": "none", **found}))
    read = read_places(path)
    assert sum(read.gpcs) <= gpu.bench.sms
    assert all(10 < ns < 20_000 for ns in read.cluster_ns.values())
    assert read.looks_ns["own", 2] < read.looks_ns["remote", 2] < 2 * read.looks_ns["global", 1]
    assert min(read.served_ns.values()) > min(read.grid_ns.values())
