"""The card: one answer, one bar that adds up, one next command, and what to do about launch gaps."""

from dataclasses import replace

import pytest

from wavesim.profile.advice_card import card_html, card_of, graph_saving, shares_of


@pytest.fixture
def gaps(advices):
    """A step in which most of the time nothing runs."""
    return advices["a100"]


def test_launch_gaps_get_a_cuda_graph_with_its_code_and_its_gain(gaps):
    card = card_of(gaps)
    saving = graph_saving(gaps)
    assert 0 < saving.likely_ns < gaps.launch_gap_ns
    assert "torch.cuda.graph(graph)" in card.code
    assert f"{100 * saving.likely_ns / gaps.profile.span_ns:.1f} %" in card.sentence
    assert card.code.splitlines()[0] in card_html(gaps)


def test_a_step_that_a_graph_launches_already_is_sent_to_dependent_launch(gaps):
    launches = replace(gaps.profile.launches, is_replayed=gaps.profile.launches.is_kernel | True)
    card = card_of(replace(gaps, profile=replace(gaps.profile, launches=launches)))
    assert card.command.startswith("wavesim pdl ")
    assert card.code == ""


def test_the_bar_is_the_whole_profiled_time(gaps):
    shares = shares_of(gaps)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares.values()) >= 0.0


def test_the_answer_follows_what_the_simulator_said(gaps):
    short = replace(gaps, launch_gap_ns=0)
    worth = replace(
        short, pairs=tuple(replace(p, saving=replace(p.saving, likely_ns=1e9)) for p in short.pairs)
    )
    first = worth.visible_pairs[0].number
    assert card_of(worth).tile_sync == "measure"
    assert card_of(worth.with_simulated({first: 4.0})).tile_sync == "yes"
    assert "--ask --toml pair.toml" in card_of(worth).command
    refuted = worth.with_simulated({pair.number: 0.0 for pair in worth.pairs})
    assert card_of(refuted).tile_sync == "no"
