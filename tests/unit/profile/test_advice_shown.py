"""Advice as a person reads it: findings, tables, the browser and the figures."""

from pathlib import Path

import pytest

from wavesim.predict.recommendation import verdict_on
from wavesim.profile.advice import Advice, advise
from wavesim.profile.advice_text import (
    findings,
    headline,
    pair_rows,
    pairs_left_out,
    summary_text,
    tile_lines,
)
from wavesim.profile.pair_file import pair_description
from wavesim.profile.profile_file import load_profile

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def browser(advices: dict[str, Advice]):
    """Of the H100's advice; to find the first pair's tile times takes seconds, so that the tests share it."""
    from wavesim.widgets.advice_browser import AdviceBrowser

    return AdviceBrowser(advices["h100"])


def test_findings_tell_pair_and_gaps_in_the_headlines_order_then_what_is_hidden(advices: dict[str, Advice]):
    for advice in advices.values():
        *two, third = findings(advice)
        gap, pair = two if headline(advice).startswith("Launch gaps") else reversed(two)
        assert "tile sync" in pair
        assert "nothing runs" in gap
        assert "cannot see" in third
        assert "%" in headline(advice)


def test_a_line_has_one_unit_and_the_table_says_what_it_leaves_out(advices: dict[str, Advice]):
    advice = advices["h100"]
    text = summary_text(advice)
    assert "would save 0.09 ms (-0.22 to 0.17 ms), 0.2 % of" in text
    assert len(pair_rows(advice)) < len(advice.pairs)
    assert f"The first {len(pair_rows(advice))} of {len(advice.pairs)} pairs" in text
    advice = advise(load_profile(ROOT / "gpu" / "results" / "advice" / "triton-gelu-m1536.json.gz"))
    assert "Together" not in findings(advice)[0]
    assert not pairs_left_out(advice)


def test_another_tile_says_what_differs(advices: dict[str, Advice]):
    (line,) = tile_lines(advices["v100"])
    assert "2.10 waves as before, the last one faster because" in line


@pytest.mark.slow
def test_the_browser_shows_each_pair_and_keeps_what_the_reader_says(advices: dict[str, Advice], browser):
    browser.choice.value = 1
    assert browser.picture.children[0].value.startswith("<p>Drawn with tile semaphores. For the plan to run")
    browser.mark.value = "no"
    assert browser.pair.is_dependent is False
    assert browser.pair.saving.high_ns == 0
    browser.mark.value = "unknown"
    assert browser.pair.saving == advices["h100"].pair(1).saving
    hidden = next(pair for pair in advices["h100"].pairs if not pair.is_visible)
    browser.choice.value = hidden.number
    assert "persistent" in browser.picture.children[0].value


@pytest.mark.slow
def test_a_small_pair_is_shown_under_the_plan_that_predict_recommends(advices: dict[str, Advice], browser):
    from wavesim.widgets.advice_browser import MOST_RANKED

    small = next(
        pair
        for pair in advices["h100"].visible_pairs
        if pair.producer.waves.blocks + pair.consumer.waves.blocks <= MOST_RANKED
    )
    browser.choice.value = small.number
    found = pair_description(small)
    best = verdict_on(found.pipeline, found.device, found.kernel_ns).best
    assert browser.picture.children[0].value.startswith(f"<pre>Run: {best} ")


@pytest.mark.slow
def test_a_pair_opens_in_the_explorer_with_the_profiles_kernels(
    advices: dict[str, Advice], browser, monkeypatch
):
    from wavesim.widgets.what_if import WhatIf

    browser.choice.value = 1
    drawn = browser.picture.children
    with monkeypatch.context() as without:  # what the picture has found, tile times, is not sought again
        without.delattr("wavesim.widgets.advice_browser.costs_from_kernel_times")
        browser.open_button.click()
    (explorer,) = browser.picture.children
    assert isinstance(explorer, WhatIf)
    scenario, pair = explorer.scenario, browser.pair
    assert [stage.grid.size for stage in scenario.pipeline.stages] == [
        pair.producer.waves.blocks,
        pair.consumer.waves.blocks,
    ]
    assert scenario.whole_device == pair.producer.device
    before = explorer.answer.chosen
    explorer.controls.sm_count.value = 100
    assert explorer.answer.chosen.makespan_ns > before.makespan_ns
    assert explorer.scenario.given is scenario.given
    assert "Which tile reads which is assumed" in explorer.costs.value
    browser.choice.value = browser.advice.visible_pairs[1].number
    assert browser.picture.children != drawn
    assert not isinstance(browser.picture.children[0], WhatIf)
    browser.choice.value = next(pair for pair in advices["h100"].pairs if not pair.is_visible).number
    assert browser.open_button.disabled


def test_figures_need_no_more_than_the_advice_and_agree_with_it(advices: dict[str, Advice]):
    from wavesim.profile.timeline_data import step_picture

    for advice in advices.values():
        picture = step_picture(advice)
        assert all(abs(sum(values) - 1) < 1e-9 for values in zip(*picture.shares.values(), strict=True))
        assert min(float(share.min()) for share in picture.shares.values()) >= -1e-9
