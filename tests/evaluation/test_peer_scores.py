"""Simulated times of two GPUs against the measured tables: how far off, and that nothing else was fitted."""

from statistics import median

import pytest

from wavesim.costs.peer_costs import peer_costs_of
from wavesim.evaluation import peer_page, peer_published
from wavesim.evaluation.peer_scores import (
    DEVICE,
    fitted_burst_ratio,
    scores,
    scores_text,
    summary,
)
from wavesim.model.description import load_description
from wavesim.safe_io.documents import read_toml
from wavesim.sim.peers.prediction import SCORES, history_text
from wavesim.sim.peers.two_gpu_tables import measured_tables


@pytest.fixture(scope="module")
def found():
    return scores()


def of(found, way: str):
    return summary([one for one in found if one.way == way])


def test_the_clock_of_short_runs_is_that_of_the_development_rows():
    assert peer_costs_of(DEVICE).burst_ratio == pytest.approx(fitted_burst_ratio(), rel=0.01)


def test_an_all_reduce_alone_is_predicted_by_a_rate_and_the_library_s_own_latencies(found):
    """But for the smallest, of which its launch by the host was timed."""
    assert of(found, "all-reduce")["median"] <= 8
    assert of(found, "all-reduce")["p90"] <= 15


def test_one_after_the_other_is_predicted_within_a_tenth_where_each_kernel_is_launched_by_the_host(found):
    """Constants are fitted to ten calls in a graph; these were launched one by one, and nothing fitted to."""
    assert of(found, "sequence")["median"] <= 3
    assert of(found, "sequence")["worst"] <= 10


def test_chunks_are_predicted_however_small_as_a_product_that_the_memory_bounds_leaves_sms(found):
    assert of(found, "chunks:2")["median"] <= 5
    assert of(found, "chunks:4")["median"] <= 5
    assert of(found, "chunks:8")["worst"] <= 30
    small = next(one for one in found if one.way == "chunks:8" and one.m == 256)
    assert abs(small.error) < 5


def test_a_reduce_scatter_is_simulated_too_fast_where_it_is_large_and_said_to_be(found):
    """Two GPUs' reduce-scatter carries less than their all-reduce does; nothing published says why."""
    errors = {one.m: one.error for one in found if one.way == "reduce-scatter"}
    assert all(-12 < error < 10 for error in errors.values())
    assert errors[4096] < -5
    assert "reduce-scatter" in peer_page.PAGE.read_text(encoding="utf-8")


def test_an_epilogue_that_stores_to_the_peer_is_predicted_with_nothing_fitted(found):
    with_stores = [one for one in found if one.way == "with stores"]
    assert summary(with_stores)["median"] <= 4
    assert summary(with_stores)["worst"] <= 10
    assert summary([one for one in found if one.way == "and added"])["median"] <= 6


def test_every_row_of_the_tables_is_scored(found):
    tables = measured_tables()
    expected = 3 * len(tables["sequence"]) + 5 * len(tables["chunks"]) + 2 * len(tables["stores"])
    assert len(found) == expected


def test_what_users_are_told_of_past_errors_is_what_is_scored(found):
    assert SCORES.read_text(encoding="utf-8") == scores_text(found)
    assert "on two H200s of one host one by one: off by one after the other" in history_text()


def test_the_page_has_the_tables_as_they_are_made(found):
    page = peer_page.PAGE.read_text(encoding="utf-8")
    blocks = {
        "scored": peer_page.scored_block(found),
        "predicted": peer_page.predicted_block(),
        "collectives": peer_page.collectives_block(),
        "crossover": peer_page.crossover_block(),
    }
    assert peer_page.with_blocks(page, blocks) == page


def test_what_others_published_of_a_product_is_on_the_page_as_it_is_simulated():
    table = read_toml(peer_published.FILE)["products"][0]
    first = peer_published.product_of(table, table["rows"][0])
    assert peer_page.product_line(first) in peer_page.PAGE.read_text(encoding="utf-8")
    # A small product gains over NCCL, and next to nothing over a library that stores to its peers itself.
    assert first.simulated_library / first.simulated_overlapped < 1.1


def test_published_collectives_of_eight_gpus_are_within_a_quarter_and_single_sizes_within_two_fifths():
    found = peer_published.published_collectives()
    errors = sorted(abs(one.error) for one in found)
    assert errors[-2] < 41  # the last is an outlier of the table's own
    for source, most in (("Triton-distributed #57", 24), ("Megatron-LM #5596", 18), ("vLLM #24111", 8)):
        own = [abs(one.error) for one in found if one.source.startswith(source)]
        assert median(own) < most


def test_what_was_measured_of_a_registered_shape_is_shown_beside_it(monkeypatch, tmp_path):
    path = tmp_path / "measured.json"
    path.write_text('[{"m": 16, "k": 7168, "n": 4096, "way": "sequence", "ns": 54321}]')
    monkeypatch.setattr(peer_page, "MEASURED", path)
    first = peer_page.predicted_block().splitlines()[2]
    assert first.endswith("| 54 | not measured yet |")


def test_the_description_of_the_page_is_read(tmp_path):
    page = peer_page.PAGE.read_text(encoding="utf-8")
    path = tmp_path / "two.toml"
    path.write_text(page.split("```toml\n")[1].split("```")[0])
    assert load_description(path, may_have_host=True).host.gpus == 2
