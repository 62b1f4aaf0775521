"""What is drawn of several GPUs: their SMs, how much of the links is in use, what crosses, and how fast."""

import time

import pytest

from wavesim.widgets.peer_explorer import ROWS, WAYS, PeerExplorer


def test_one_after_the_other_shows_an_idle_link_and_tiles_show_it_in_use():
    shown = PeerExplorer(rows=512)
    before = shown.picture.scene
    assert "the link idles" in before["title"]
    assert not before["arrows"]
    shown.way.value = "tiles as they are made"
    after = shown.picture.scene
    assert after["endNs"] < before["endNs"]
    assert "simulated, not measured" in after["subtitle"]
    assert {target for _, _, target, _ in after["arrows"]} == {0, 1}
    sent = int(shown.trace.transfers.bytes[shown.trace.transfers.source == 0].sum())
    used = sum(after["links"][0]["used"]) / len(after["links"][0]["used"])
    assert used * 346 * after["endNs"] == pytest.approx(sent, rel=0.02)


def test_a_library_at_work_on_the_link_is_said_where_its_use_is_not_known():
    scene = PeerExplorer(rows=512).picture.scene
    collective = [
        (ready, end)
        for _, _, _, ready, end, stage, *_ in scene["blocks"]
        if ".all-reduce." in scene["names"][stage]
    ]
    (span,) = scene["byLibrary"]
    assert span == [min(ready for ready, _ in collective), max(end for _, end in collective)]
    assert PeerExplorer(rows=512, way="tiles as they are made").picture.scene["byLibrary"] == []


def test_every_block_on_the_drawn_gpus_is_there_with_its_wait():
    shown = PeerExplorer(rows=256, gpus=4, way="tiles as they are made")
    scene = shown.picture.scene
    assert (scene["gpus"], scene["left"]) == (2, 2)
    assert len(scene["blocks"]) == int((shown.trace.device < 2).sum())
    assert all(start <= ready <= end <= scene["endNs"] for _, _, start, ready, end, *_ in scene["blocks"])


@pytest.mark.parametrize("way", WAYS)
def test_every_way_that_is_offered_is_drawn_and_an_exchange_of_four_is_refused_in_words(way):
    shown = PeerExplorer(way=way, rows=512)
    assert shown.trace.header.plan.startswith(WAYS[way])
    assert shown.picture.scene["blocks"]
    shown.gpus.value = 4
    assert ("is for one GEMM on 2 GPUs" in str(shown.problem.value)) == (WAYS[way] == "exchange")


def test_a_move_is_drawn_at_once():
    """As much processor time as a move may take; a machine that does more takes longer on the clock."""
    shown = PeerExplorer(way="tiles as they are made", rows=ROWS[0])
    shown.gpus.value = 4
    began = time.process_time()
    shown.rows.value = ROWS[-1]
    assert time.process_time() - began < 0.3
