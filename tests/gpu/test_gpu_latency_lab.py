"""The latency lab on a GPU, over a small pool: its file is read, and more in flight is never much slower."""

import json
from types import SimpleNamespace

import pytest

from wavesim.sm.measured_loads import read_loads

pytestmark = pytest.mark.gpu


def test_the_lab_measures_a_latency_and_every_point(runner, tmp_path, monkeypatch):
    from wavesim_gpu.bench.kinds.labs import LabMeasurer
    from wavesim_gpu.bench.labs import latency as latency_lab

    path = tmp_path / "lab.json"
    monkeypatch.setattr(latency_lab, "POOL_BYTES", 1 << 30)
    monkeypatch.setattr(latency_lab, "REPEATS", 2)
    case = SimpleNamespace(name="latency", fields={"lab": "latency"})
    path.write_text(json.dumps(LabMeasurer("test", 2).measure(case).document))
    found = read_loads(path)
    assert len(found.points) >= 12
    assert 150 < found.latency_ns < 3_000
    rates = {(one.loop.warps, one.loop.loads): one.bytes_per_s for one in found.points}
    assert max(rates.values()) < 1.1 * found.peak_bytes_per_s
    assert rates[4, 1] < 0.5 * rates[64, 2]
    assert rates[4, 4] > 2 * rates[4, 1]


def test_a_small_pool_is_read_from_end_to_end_and_not_beyond(runner, monkeypatch):
    from wavesim_gpu.bench.labs import latency as latency_lab
    from wavesim_gpu.characterise.bench import MicroBench

    monkeypatch.setattr(latency_lab, "POOL_BYTES", 32 << 20)
    monkeypatch.setattr(latency_lab, "REPEATS", 1)
    found = latency_lab.measure(MicroBench())
    assert len(found["points"]) >= 12
    assert all(0 < point["bytes"] <= 32 << 20 for point in found["points"])
