"""The explorer of places of semaphores: what it draws follows the simulation, and its controls."""

import pytest

from wavesim.labs.waiting_places import places_on
from wavesim.widgets import PlaceExplorer
from wavesim.widgets.place_explorer import placed_ns, places_of


@pytest.fixture(scope="module")
def explorer():
    return PlaceExplorer(tokens=768, blocks=16)


def test_the_picture_has_what_was_simulated(explorer):
    scene, runs = explorer.picture.scene, places_of(768, explorer.hop.value)
    assert [one["ns"] for one in scene["runs"]] == [
        runs.stream_ns,
        runs.global_ns,
        runs.cluster_ns,
        runs.free_ns,
        placed_ns(768, 16),
    ]
    assert (scene["clusters"], scene["groups"], scene["most"]) == (8, 6, 1)
    assert "holding rows in clusters of 16 loses" in scene["title"]
    assert "simulated from the stream-sync recording" in scene["subtitle"]
    assert "global memory, measured on one" in scene["told"]


def test_a_slower_way_in_the_cluster_is_drawn_and_said(explorer):
    usual = explorer.hop.value
    won = places_of(768, usual).won_points
    explorer.hop.value = 500
    assert explorer.picture.scene["handovers"][1]["hop"] == 500
    assert explorer.picture.scene["handovers"][1]["source"] == "as set"
    assert f"would win {places_of(768, 500).won_points:.2f};" in explorer.picture.scene["title"]
    assert places_of(768, 500).won_points < won
    explorer.hop.value = usual
    assert explorer.picture.scene["handovers"][1]["source"] == places_on(explorer.device)[1].source
    assert "semaphores" in str(explorer.html())
