"""What two H200s took, as the page shows it, as the operators choose by it, and as it was registered."""

from math import inf

import pytest

from wavesim.evaluation import peer_page, peer_registered, peer_timed
from wavesim.sim.peers.prediction import REGISTERED
from wavesim_gpu.bench.kinds.two_gpus.choices import choices_text
from wavesim_gpu.peers.choice import CHOICES, FEWEST_ROWS, LIBRARY, choice_of

LEAST_TAKEN = {"all-reduce": 20, "reduce-scatter": 16, "all-gather": 0}


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


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
def test_operators_take_peers_where_that_was_not_slower_in_the_way_and_tile_that_they_take(kind):
    lines = [line for line in peer_timed.timed_lines() if line["kind"] == kind]
    known = {tuple(line["size"]): peer_timed.medians(line) for line in lines}
    faster = {
        size
        for size, times in known.items()
        if size[0] >= FEWEST_ROWS[kind]
        and any(times.get(way, inf) <= times["sequence"] for way in peer_timed.OPERATORS[kind])
    }
    taken = set()
    for line in lines:
        m, k, n = size = tuple(line["size"])
        chosen = choice_of(kind, (m, n, k), 2, (9, 0))
        if chosen.way != LIBRARY:
            assert known[size][chosen.way] <= 1.01 * known[size]["sequence"]
            assert line["ways"][chosen.way]["words"].startswith("x".join(map(str, chosen.tile)))
            taken.add(size)
    assert taken == faster
    assert len(taken) >= LEAST_TAKEN[kind]


def test_what_operators_take_is_written_from_the_recorded_times():
    assert CHOICES.read_text(encoding="utf-8") == choices_text()
