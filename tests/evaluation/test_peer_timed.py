"""What two H200s took, as the page shows it, as the operators choose by it, and as it was registered."""

import pytest

from wavesim.evaluation import peer_page, peer_registered, peer_timed
from wavesim.peers.prediction import REGISTERED
from wavesim_gpu.evaluation.two_gpus.choices import choices_text
from wavesim_gpu.peers.choice import CHOICES, LIBRARY, choice_of


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
def test_operators_take_peers_where_that_was_not_slower_in_the_way_and_tile_that_they_take(kind, count):
    taken = 0
    for line in peer_timed.timed_lines():
        m, k, n = line["size"]
        chosen = choice_of(kind, (m, n, k), 2, (9, 0))
        if line["kind"] == kind and chosen.way != LIBRARY:
            assert peer_timed.medians(line)[chosen.way] <= 1.01 * peer_timed.medians(line)["sequence"]
            assert line["ways"][chosen.way]["words"].startswith("x".join(map(str, chosen.tile)))
            taken += 1
    assert taken == count


def test_what_operators_take_is_written_from_the_recorded_times():
    assert CHOICES.read_text(encoding="utf-8") == choices_text()
