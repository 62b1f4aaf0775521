"""The recorded blind run of layers says what the evidence page says."""

from pathlib import Path

import pytest

from wavesim.evaluation.layer_blind_cases import all_cases
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.evaluation.layer_blind_scores import (
    CHAINS,
    is_in_test_split,
    scores_of,
    scores_table,
    scores_today,
)

ROOT = Path(__file__).parents[2]
RUN = LayerBlindRun(ROOT / "wavesim" / "recordings" / "layers" / "h200-2026-11-22")


def test_the_page_has_the_scores_of_the_recorded_run():
    page = (ROOT / "docs" / "evidence.md").read_text()
    for basis in ("costs", "trace"):
        head, _, row = scores_table([scores_of(RUN, basis)]).splitlines()
        assert f"{head}\n" in page
        assert f"{row}\n" in page


def test_todays_gains_of_some_cases_that_no_constant_was_chosen_by_are_within_the_bound():
    """Small ones, as all take minutes: the page's figures are 0.8 and 2.3 points over all of that split."""
    cases = [
        case
        for case in all_cases()
        if case.kind in CHAINS and case.tokens <= 512 and is_in_test_split(case.name)
    ]
    _, held = scores_today(RUN, cases, "costs")
    assert held.gains >= 20
    assert held.gain_median <= 1.5
    assert held.sign_right >= 80


def test_all_cases_but_the_one_that_the_page_names_were_measured():
    missing = {case.name for case in all_cases()} - set(RUN.rounds)
    assert missing == {"decode gpt3-145b 1"}


@pytest.mark.parametrize("order", ["row", "reversed:row"])
def test_the_recordings_of_stream_sync_are_there(order):
    case = next(case for case in all_cases() if case.kind == "chain")
    assert RUN.stream(case, order).makespan_ns > 0
