"""What two H200s took, as the page shows it, as the operators choose by it, and as it was registered."""

import pytest

from wavesim.evaluation import peer_page, peer_registered, peer_timed
from wavesim.peers.prediction import REGISTERED
from wavesim_gpu.peers.choice import takes_peers, tile_of


def test_the_page_shows_what_was_timed_and_how_it_was_registered():
    page = peer_page.PAGE.read_text(encoding="utf-8")
    blocks = {
        "timed": peer_timed.timed_block(),
        "blind": peer_registered.blind_text(),
        "predicted": peer_page.predicted_block(),
    }
    assert peer_page.with_blocks(page, blocks) == page
    assert REGISTERED.read_text(encoding="utf-8") == peer_registered.tiles_text()


def test_a_way_that_was_wrong_has_no_time():
    for line in peer_timed.timed_lines():
        assert all(bool(way["ns"]) != bool(way["failure"]) for way in line["ways"].values())


@pytest.mark.parametrize(("kind", "count"), [("all-reduce", 20), ("reduce-scatter", 16), ("all-gather", 0)])
def test_peers_are_taken_where_stores_was_not_slower_in_the_tile_that_is_then_taken(kind, count):
    taken = 0
    for line in peer_timed.timed_lines():
        m, k, n = line["size"]
        if line["kind"] != kind or not takes_peers(kind, (m, n, k), 2, (9, 0)):
            continue
        times = peer_timed.medians(line)
        assert times["stores"] <= 1.01 * times["sequence"]
        tile = "x".join(map(str, tile_of(kind, (m, n, k))))
        assert line["ways"]["stores"]["words"] == f"{tile}, K in 1, 0 SMs add"
        taken += 1
    assert taken == count


def test_what_is_left_to_the_library_was_faster_there_but_for_a_few_all_gathers():
    won = 0
    for line in peer_timed.timed_lines():
        m, k, n = line["size"]
        times = peer_timed.medians(line)
        if not takes_peers(line["kind"], (m, n, k), 2, (9, 0)):
            won += peer_timed.best_of_ours(times)[0] < times["sequence"]
    assert won == 4
