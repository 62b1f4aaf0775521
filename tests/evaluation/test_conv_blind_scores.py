"""The blind run of convolutions that is committed: whole, unchanged since, and scored as the docs say."""

from pathlib import Path

import pytest

from wavesim.errors import RecordingError
from wavesim.evaluation.conv_blind_cases import convolution_cases, second_convolution_cases
from wavesim.evaluation.conv_blind_scores import AGAIN, BASES, FOLDER, SECOND, gains_of, scores_of, table
from wavesim.evaluation.layer_blind_runs import LayerBlindRun

RUN = LayerBlindRun(FOLDER)
ROOT = Path(__file__).parents[2]


def test_every_case_was_measured_under_every_plan_and_predicted():
    cases = convolution_cases()
    assert set(RUN.rounds) == {case.name for case in cases}
    for case in cases:
        assert set(RUN.rounds[case.name]) == set(case.entries)
        for basis in BASES:
            assert {(case.name, *entry) for entry in case.entries} <= RUN.predictions(basis).keys()
    assert RUN.facts["failures"] == {}
    assert RUN.stream(cases[0], "row").cycles is not None


@pytest.mark.parametrize("run", [RUN, LayerBlindRun(SECOND)])
def test_the_page_has_the_scores_that_the_command_prints(run):
    page = (ROOT / "docs" / "convolutions.md").read_text("utf-8")
    assert "\n".join(table(run)) in page


def test_which_of_row_and_tile_was_faster_did_not_repeat():
    def apart(run, case):
        gains = gains_of(run, case)
        return gains["pdl+tile"] - gains["pdl+row"]

    again = LayerBlindRun(AGAIN)
    told = [case for case in RUN.rounds if abs(apart(RUN, case)) >= 1]
    same = sum(apart(RUN, case) * apart(again, case) > 0 for case in told)
    text = " ".join((ROOT / "docs" / "convolutions.md").read_text("utf-8").split())
    assert f"{same} of these {len(told)} kept their sign" in text


def test_no_case_of_the_second_run_is_one_of_the_first():
    names = [case.name for case in second_convolution_cases()]
    assert len(set(names)) == len(names) == 71
    assert not set(names) & {case.name for case in convolution_cases()}


def test_a_gain_is_of_rounds_paired_in_time():
    name = "chain 28x512 batch 6 128x128"
    assert gains_of(RUN, name)["pdl+row"] == pytest.approx(26.7, abs=0.1)
    assert scores_of(RUN, "fitted").median < scores_of(RUN, "costs").median


def test_predictions_that_were_changed_are_refused(tmp_path):
    for name in ("fitted.json", "fitted.sha256"):
        (tmp_path / name).write_bytes(
            (FOLDER / name).read_bytes().replace(b'"points": 0.0', b'"points": 9.0')
        )
    with pytest.raises(RecordingError, match="it was changed"):
        LayerBlindRun(tmp_path).predictions("fitted")
