"""What two H200s took, as the page shows it."""

from wavesim.evaluation import peer_page, peer_timed
from wavesim_gpu.peers.choice import takes_peers


def test_the_page_shows_what_was_timed():
    page = peer_page.PAGE.read_text(encoding="utf-8")
    block = peer_timed.timed_block(peer_timed.timed_lines())
    assert peer_page.with_blocks(page, {peer_timed.BLOCK: block}) == page


def test_a_way_that_was_wrong_has_no_time():
    for line in peer_timed.timed_lines():
        assert all(bool(way["ns"]) != bool(way["failure"]) for way in line["ways"].values())


def test_peers_are_taken_where_ours_was_measured_to_be_faster_and_nowhere_slower():
    faster = 0
    for line in peer_timed.timed_lines():
        m, k, n = line["size"]
        times = peer_timed.medians(line)
        if line["kind"] == "reduce-scatter" or "sequence" not in times:
            continue
        if takes_peers(line["kind"], (m, n, k), 2, (9, 0)):
            assert peer_timed.best_of_ours(times)[0] < times["sequence"]
            faster += 1
    assert faster == 3
