"""The latency explorer's picture: spans of every warp, the memory's busy times, the curve and the points."""

import pytest

from wavesim.sm.loads import LoadLoop
from wavesim.sm.machine import SmMachine
from wavesim.view.sm_scenes import ShownLoads, scene_of_loads
from wavesim.widgets import LatencyExplorer

SM = SmMachine(latency_cycles=640, bytes_per_cycle=32)


def scene(loop, machine=SM, **more):
    return scene_of_loads(ShownLoads(loop, machine, **more))


def test_every_warp_has_a_row_and_the_memory_is_busy_as_long_as_it_serves():
    found = scene(LoadLoop(8))
    assert len(found["warps"]) == 8
    assert found["warps"][0][:2] == [[0, 1, "issue"], [1, 640, "memory"]]
    assert found["end"] == 3 * 640
    busy = sum(end - start for start, end in found["memory"])
    assert busy / found["end"] == pytest.approx(found["share"], abs=0.01)
    assert found["title"] == "4.0 KiB in flight: 20 % of the bandwidth. The memory waits for loads"


def test_the_curve_rises_to_one_and_bends_exactly_where_bandwidth_times_latency_is():
    found = scene(LoadLoop(8), gpu=(132, 192))
    sizes, law, queued = zip(*found["curve"], strict=True)
    assert 20_480 in sizes
    assert law[sizes.index(20_480)] == 1
    assert list(sizes) == sorted(sizes)
    assert all(slower <= faster for slower, faster in zip(queued, law, strict=True))
    assert queued[-1] > 0.99


def test_the_explorers_sliders_move_its_picture():
    explorer = LatencyExplorer(LoadLoop(8), SM)
    assert "8 warps, 1 load of 512 bytes" in explorer.picture.scene["subtitle"]
    explorer.warps.value, explorer.lane_bytes.value, explorer.most_loads.value = 20, 4, 16
    assert "20 warps, 1 load of 128 bytes" in explorer.picture.scene["subtitle"]
    assert explorer.picture.scene["inFlight"] == 16 * 128
    assert "latency" in str(explorer.html())
