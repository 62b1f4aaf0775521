"""The recorded blind run of layers says what the evidence page says."""

from pathlib import Path

import pytest

from wavesim.evaluation.layer_blind_cases import all_cases
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.evaluation.layer_blind_scores import scores_of, scores_table

ROOT = Path(__file__).parents[2]
RUN = LayerBlindRun(ROOT / "wavesim" / "recordings" / "layers" / "h200-2026-11-22")


def test_the_page_has_the_scores_of_the_recorded_run():
    table = scores_table([scores_of(RUN, basis) for basis in ("costs", "trace")])
    assert table in (ROOT / "docs" / "evidence.md").read_text()


def test_all_cases_but_the_one_that_the_page_names_were_measured():
    missing = {case.name for case in all_cases()} - set(RUN.rounds)
    assert missing == {"decode gpt3-145b 1"}


@pytest.mark.parametrize("order", ["row", "reversed:row"])
def test_the_recordings_of_stream_sync_are_there(order):
    case = next(case for case in all_cases() if case.kind == "chain")
    assert RUN.stream(case, order).makespan_ns > 0
