"""The host side of the places of semaphores: GPCs from clusters, and a whole run on a made-up GPU."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from wavesim.errors import DeviceError
from wavesim.labs.waiting_places import read_places
from wavesim_gpu.bench.labs import waiting_places
from wavesim_gpu.bench.labs.waiting_places import (
    CLUSTERS,
    LOOKS,
    SERVED_PAIRS,
    TURNS,
    ClusterBench,
    gpcs_of,
    measure,
)

SMS = 132


def test_sms_of_overlapping_clusters_are_one_gpc():
    found = gpcs_of([(0, 1), (4, 5), (1, 2, 3), (6, 4)])
    assert found == {0: 0, 1: 0, 2: 0, 3: 0, 4: 4, 5: 4, 6: 4}
    assert gpcs_of([]) == {}
    chain = [(sm, sm + 1) for sm in range(17, -1, -1)]
    assert set(gpcs_of(chain).values()) == {0}


class Words(np.ndarray):
    """An array as CuPy's: `get()` brings it over."""

    def get(self):
        return np.array(self)


def words(count):
    return np.zeros(count, np.uint64).view(Words)


class MadeUpGpu:
    """Eight GPCs of 16 SMs, which no cluster leaves, and four SMs in none; all rounds take alike."""

    def __init__(self):
        self.bench = SimpleNamespace(
            sms=SMS, warm_up=lambda run: run(), zeros=lambda count, kind: words(count)
        )
        self.flags, self.durations, self.sms = words(300 * 64), words((SMS, 2)), words(SMS)
        self.launched = []

    def cleared_flags(self):
        return self.flags

    def most_clusters(self, name, cluster, *_, **__):
        return 8 * (16 // cluster)

    def launch(self, name, blocks, *arguments, cluster=1, threads=32, shared=0):
        assert blocks % cluster == 0
        assert blocks <= SMS
        self.launched.append((name, blocks, cluster, threads))
        each = 16 // cluster
        homes = [16 * (one // each) + one % each * cluster for one in range(blocks // cluster)]
        self.sms[:] = range(SMS)
        if name == "places":
            self.sms[:blocks] = [home + rank for home in homes for rank in range(cluster)]
        self.durations[:] = 2 * (TURNS - 1) * (300 if "served" in name else 100)
        if name == f"look_again<{LOOKS.index('remote')}>":
            self.durations[0] = 0  # the first block looks at its own word

    def one_way(self, index, ways):
        return ClusterBench.one_way(self, index, ways)


def test_a_run_on_a_made_up_gpu_becomes_a_file_that_is_read_again(tmp_path):
    gpu = MadeUpGpu()
    found = measure(gpu)
    assert found["gpcs"] == [16] * 8
    path = tmp_path / "places.json"
    head = {"date": "2026-01-01", "device": {"name": "made up"}, "commit": "abc"}
    path.write_text(json.dumps({**head, **found}))
    read = read_places(path)
    assert read.clusters == {2: 64, 4: 32, 8: 16, 16: 8}
    assert read.grid_ns == {False: 100.0, True: 100.0}
    assert read.cluster_ns["remote arrive", 16, 15] == 100.0
    assert set(read.posts_ns.values()) == {0.0}
    assert read.served_ns == dict.fromkeys(SERVED_PAIRS, 300.0)
    assert {ns for (where, _), ns in read.looks_ns.items() if where == "remote"} == {2 * (TURNS - 1) / 10}
    assert "server, 64 pairs: 300 ns one way" in read.text()
    largest = max(threads for name, _, _, threads in gpu.launched if name == "served_ping_pong")
    assert largest == 2 * max(SERVED_PAIRS) <= 1024
    assert {cluster for name, _, cluster, _ in gpu.launched if "cluster_ping" in name} == set(CLUSTERS)


def test_a_gpu_that_takes_no_large_clusters_is_measured_with_small_ones():
    gpu = MadeUpGpu()
    gpu.most_clusters = lambda name, cluster, *_, **__: 0 if cluster > 8 else SMS // cluster
    found = measure(gpu)
    assert {one["blocks"] for one in found["cluster"]} == {2, 4, 8}
    assert found["clusters"]["16"] == 0


def test_a_gpu_without_clusters_is_refused_in_one_line(monkeypatch):
    device = SimpleNamespace(name="old", sm_count=80)
    monkeypatch.setattr(
        waiting_places, "MicroBench", lambda: SimpleNamespace(is_hopper=False, device=device, sms=80)
    )
    with pytest.raises(DeviceError, match="old has no clusters"):
        ClusterBench()
