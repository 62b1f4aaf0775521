"""Places of semaphores: where their figures come from, what they change in a cost model, and bad files."""

import json

import pytest

from wavesim.costs.cost_model import CostModel
from wavesim.errors import DescriptionError, RecordingError
from wavesim.labs import waiting_places
from wavesim.labs.waiting_places import (
    CLUSTER,
    GLOBAL,
    SERVER,
    WaitingPlace,
    costs_at,
    places_on,
    read_places,
    shipped_places,
    without_waits,
)
from wavesim.model.device import load

H200 = load("h200")
COSTS = CostModel({"gemm1": 1_000}, poll_ns=900, post_ns=400, refill_ns=50, tile_fetch_ns=600)
FILE = {
    "date": "2026-01-01",
    "device": {"name": "made up"},
    "commit": "abc",
    "gpcs": [16, 18],
    "clusters": {"2": 8},
    "grid": [{"is_same_gpc": True, "one_way_ns": 500.0}, {"is_same_gpc": False, "one_way_ns": 700.0}],
    "cluster": [{"way": "remote arrive", "blocks": 2, "partner": 1, "one_way_ns": [90.0, 120.0, 100.0]}],
    "looks": [{"where": "own", "blocks": 2, "look_ns": [20.0]}],
    "tile_posts_ns": {"nothing": [1_000.0], "global": [1_700.0], "remote": [1_600.0]},
    "served": [{"pairs": 4, "one_way_ns": [1_500.0]}],
}


def written(tmp_path, **changed):
    path = tmp_path / "places.json"
    path.write_text(
        json.dumps({name: value for name, value in {**FILE, **changed}.items() if value is not None})
    )
    return path


def test_without_measurements_a_server_is_two_ways_and_a_cluster_keeps_the_post(monkeypatch):
    monkeypatch.setattr(waiting_places, "shipped_places", lambda: None)
    everywhere, cluster, server = places_on(H200, hop_ns=100)
    assert [one.name for one in (everywhere, cluster, server)] == [GLOBAL, CLUSTER, SERVER]
    assert everywhere.post_ns == cluster.post_ns == server.post_ns > 0
    assert (cluster.hop_ns, everywhere.source[:8]) == (100, "measured")
    assert server.hop_ns == 2 * everywhere.hop_ns
    assert places_on(H200)[1].source == "published figures"
    assert places_on(H200)[1].hop_ns == round(180 / 1.98)
    assert cluster.tile_ns == cluster.post_ns + 100 + cluster.look_ns


def test_places_have_what_the_shipped_run_measured():
    run = shipped_places()
    everywhere, cluster, server = places_on(H200)
    assert cluster.post_ns - everywhere.post_ns == round(run.posts_ns["remote"] - run.posts_ns["global"]) > 0
    assert cluster.hop_ns < everywhere.hop_ns < server.hop_ns
    assert cluster.source == server.source == run.provenance


def test_a_place_changes_the_post_the_look_and_the_hop_and_nothing_else():
    usual = places_on(H200)[0]
    other = WaitingPlace("near", usual.post_ns + 30, 7, usual.look_ns - 200, "made up")
    found = costs_at(COSTS, other, H200)
    assert (found.poll_ns, found.post_visibility_ns) == (700, 7)
    assert (found.post_ns, found.refill_ns, found.tile_fetch_ns) == (430, 50, 600)
    free = without_waits(COSTS)
    assert (free.poll_ns, free.post_ns, free.refill_ns, free.tile_fetch_ns) == (0, 0, 0, 600)


def test_a_file_is_read_with_medians_and_what_a_post_adds(tmp_path):
    found = read_places(written(tmp_path))
    assert found.grid_ns == {False: 700.0, True: 500.0}
    assert found.cluster_ns == {("remote arrive", 2, 1): 100.0}
    assert found.posts_ns == {"global": 700.0, "remote": 600.0}
    assert "global flag, within these groups: 500 ns one way" in found.text()
    assert found.text().splitlines()[0] == "measured on one made up, 2026-01-01"
    assert "a post behind a tile, remote: 600 ns" in found.text()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"grid": None}, "field 'grid' is missing"),
        ({"looks": []}, "looks is 0"),
        ({"tile_posts_ns": {"global": [1.0]}}, "field 'nothing' is missing"),
        ({"served": [{"pairs": 0, "one_way_ns": [1.0]}]}, "pairs is 0"),
        ({"cluster": [{"way": "x", "blocks": 2, "partner": 1, "one_way_ns": []}]}, "no median"),
        ({"gpcs": ["sixteen"]}, "gpcs is 'sixteen'"),
        ({"clusters": [2]}, "no attribute 'items'"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_field(tmp_path, changed, said):
    path = written(tmp_path, **changed)
    with pytest.raises(RecordingError, match=said) as caught:
        read_places(path)
    assert str(path) in str(caught.value)


def test_a_place_of_no_time_is_refused():
    with pytest.raises(DescriptionError, match="hop_ns is -1"):
        WaitingPlace("nowhere", 0, -1, 0, "made up")
