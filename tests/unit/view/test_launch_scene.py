"""The launch explorer's picture: the pool over time, calls that are lost, and grids by depth."""

from wavesim.labs.device_launches.uneven_work import UnevenWork, nested
from wavesim.sim.streams.device_launch_engine import simulate_launches
from wavesim.sim.streams.device_launches import load_launch_machine
from wavesim.view.streams_scene import MOST_POINTS, scene_of_launches
from wavesim.widgets import LaunchExplorer
from wavesim.widgets.stream_explorers import NESTED, VIRTUALISED

ASSUMED = load_launch_machine("assumed")


def test_a_full_pool_and_its_lost_calls_are_drawn_and_many_grids_are_not():
    timeline = simulate_launches(UnevenWork("thread").grid(), ASSUMED)
    found = scene_of_launches(timeline)
    assert f"of which {timeline.lost:,} are lost" in found["title"]
    assert "not measured" in found["subtitle"]
    assert sum(count for _, count in found["lost"]) == timeline.lost > 0
    assert [one["name"] for one in found["grids"]] == ["parent"]
    assert found["left"] == 4_096
    assert max(count for _, count in found["pending"]) == max(count for _, count in timeline.pending)
    assert len(found["pending"]) <= 2 * MOST_POINTS + 2
    assert len(found["busy"]) <= 2 * MOST_POINTS + 2


def test_few_grids_have_a_row_each():
    found = scene_of_launches(simulate_launches(nested(2), ASSUMED))
    assert [(one["name"], one["depth"]) for one in found["grids"]][:4] == [
        ("0", 0),
        ("0.0", 1),
        ("0.1", 1),
        ("0.0.0", 2),
    ]
    assert found["left"] == 0
    assert found["title"].endswith("with 6 launches; at most 4 of them are pending")
    nobody = simulate_launches(UnevenWork("nobody").grid(), ASSUMED)
    assert scene_of_launches(nobody)["title"] == "205 µs; nobody launches"


def test_the_explorer_moves_with_its_controls_and_greys_out_the_others():
    explorer = LaunchExplorer()
    assert "are lost" in explorer.picture.scene["title"]
    explorer.full.value = VIRTUALISED
    assert "lost" not in explorer.picture.scene["title"]
    explorer.launcher.value = "block"
    assert explorer.picture.scene["left"] == 0
    assert len(explorer.picture.scene["grids"]) == 17
    explorer.launcher.value = "nobody"
    assert explorer.threshold.disabled
    explorer.program.value = NESTED
    assert [one.disabled for one in explorer.controls] == [False, True, True, False, False, False]
    assert len(explorer.picture.scene["grids"]) == 15
    assert "launches" in str(explorer.html())
