"""The blind run of convolutions that is committed: whole, unchanged since, and scored as the docs say."""

import sys
from pathlib import Path

import numpy as np
import pytest

from wavesim.costs.layer_costs import costs_of_stages
from wavesim.errors import RecordingError
from wavesim.evaluation import conv_blind_register
from wavesim.evaluation.conv_bench_results import CLOSELY, FILTERS_FIRST, NEAR_FILTERS, bench_run
from wavesim.evaluation.conv_bench_results import FOLDER as BENCH
from wavesim.evaluation.conv_blind_cases import (
    convolution_cases,
    fifth_convolution_cases,
    fourth_convolution_cases,
    second_convolution_cases,
    sixth_convolution_cases,
    third_convolution_cases,
)
from wavesim.evaluation.conv_blind_scores import (
    AGAIN,
    BASES,
    FOLDER,
    MANY_ROUNDS,
    RUNS,
    SECOND,
    UNMEASURED,
    are_one_program,
    gains_of,
    picks_of,
    scores_of,
    table,
    today_table,
)
from wavesim.evaluation.layer_blind_cases import SHORT_FIRST
from wavesim.evaluation.layer_blind_predictions import stream_costs
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.model.device import default_device

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


@pytest.mark.parametrize("run", [LayerBlindRun(folder) for folder, _ in RUNS.values()])
def test_the_page_has_the_scores_that_the_command_prints(run):
    page = (ROOT / "docs" / "convolutions.md").read_text("utf-8")
    assert "\n".join(table(run)) in page


def test_the_models_page_says_how_far_the_fifth_run_was_off():
    found = scores_of(LayerBlindRun(RUNS["fifth"][0]), "costs")
    text = " ".join((ROOT / "docs" / "the-model.md").read_text("utf-8").split())
    assert f"off by {found.median:.1f} points (median) and {found.most_of_90:.1f} (90 %), on the four" in text


@pytest.mark.parametrize("name", [name for name in MANY_ROUNDS if name != "first"])
def test_the_page_has_what_todays_constants_say_of_what_they_were_fitted_to(name):
    page = (ROOT / "docs" / "convolutions.md").read_text("utf-8")
    assert "\n".join(today_table(name)) in page


def test_the_page_says_what_the_sixth_run_was_worst_at():
    run = LayerBlindRun(RUNS["sixth"][0])
    predicted, errors = run.predictions("costs"), {True: [], False: []}
    for case in run.rounds:
        for plan, points in gains_of(run, case).items():
            off = abs(predicted[case, SHORT_FIRST, plan].points - points)
            errors[plan.startswith("persistent")].append(off)
    said = [f"{np.median(errors[one]):.1f} and {np.percentile(errors[one], 90):.1f}" for one in (False, True)]
    text = " ".join((ROOT / "docs" / "convolutions.md").read_text("utf-8").split())
    tiles = f"a block per tile are off by {said[0]} ({len(errors[False])} gains)"
    assert f"{tiles}, persistent kernels by {said[1]}. Chains" in text
    found = scores_of(run, "costs")
    assert f"are off by {found.median:.1f} points at the median and {found.most_of_90:.1f} at 90 %" in text
    assert f"right in {found.order_right:.0f} % of {found.orders} cases" in text
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"convolutions' {found.median:.1f} ({found.most_of_90:.1f}; asked 1.2 and 4)" in readme


def test_row_and_tile_are_one_program_where_what_is_awaited_has_one_column():
    found = {case.name: are_one_program(case) for case in second_convolution_cases()}
    assert found["pair 28x128 batch 40 128x128"]
    assert not found["pair 14x256 batch 4 128x128"]
    assert not found["squeeze 7x512 batch 22 128x128"]  # sixteen columns are awaited


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


def _sizes(cases):
    return {(case.kind, case.size, case.channels, case.images) for case in cases}


@pytest.mark.parametrize(
    ("cases", "count", "before"),
    [
        (third_convolution_cases(), 48, (*convolution_cases(), *second_convolution_cases())),
        (
            fourth_convolution_cases(),
            67,
            (*convolution_cases(), *second_convolution_cases(), *third_convolution_cases()),
        ),
        (
            fifth_convolution_cases(),
            63,
            (
                *convolution_cases(),
                *second_convolution_cases(),
                *third_convolution_cases(),
                *fourth_convolution_cases(),
            ),
        ),
        (
            sixth_convolution_cases(),
            61,
            tuple(case for name, (_, cases) in RUNS.items() if name != "sixth" for case in cases()),
        ),
    ],
)
def test_no_case_of_a_later_run_is_one_of_those_before_or_of_the_benchmark(cases, count, before):
    names = {case.name for case in cases}
    assert len(names) == len(cases) == count
    assert not names & {case.name for case in before}
    benchmark = {
        (one["kind"], one["size"], one["channels"], one["images"])
        for folder in (BENCH, FILTERS_FIRST, NEAR_FILTERS, CLOSELY)
        for one in bench_run(folder).cases
    }
    assert not _sizes(cases) & benchmark
    persistent = {case.kind for case in cases if "persistent-stream" in case.plans}
    assert persistent == {"pair", "chain", "squeeze"}


def test_sizes_of_the_fourth_run_are_not_those_that_costs_were_fitted_to():
    fitted = _sizes((*convolution_cases(), *second_convolution_cases(), *third_convolution_cases()))
    assert not _sizes(fourth_convolution_cases()) & fitted
    assert not _sizes(fifth_convolution_cases()) & (fitted | _sizes(fourth_convolution_cases()))


def test_in_most_of_the_fifth_run_row_and_tile_semaphores_are_two_programs():
    cases = [case for case in fifth_convolution_cases() if {"pdl+row", "pdl+tile"} <= set(case.plans)]
    assert sum(not are_one_program(case) for case in cases) >= 20


@pytest.mark.parametrize("name", ["third", "fourth", "fifth", "sixth"])
def test_a_later_run_was_registered_whole_and_the_page_has_its_hashes(name):
    folder, cases_of = RUNS[name]
    run, cases = LayerBlindRun(folder), cases_of()
    entries = {(case.name, *entry) for case in cases for entry in case.entries}
    assert run.predictions("costs").keys() == entries
    assert {(case, *entry) for case, found in run.rounds.items() for entry in found} == entries
    picks = picks_of(run)
    assert {(name, SHORT_FIRST, plan) for name, plan in picks.items()} <= entries
    assert len(picks) == len(cases)
    page = (ROOT / "docs" / "convolutions.md").read_text("utf-8")
    for what in ("costs", "picks"):
        assert (folder / f"{what}.sha256").read_text()[:16] in page


def test_predictions_that_are_written_down_are_not_written_again(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["conv_blind_register", "fourth", "abc"])
    with pytest.raises(SystemExit, match="2"):
        conv_blind_register.main()
    assert "costs.json is there already; what is predicted is written down once" in capsys.readouterr().err


def test_a_run_that_was_not_measured_says_so(tmp_path):
    assert list(table(LayerBlindRun(tmp_path))) == [UNMEASURED]


def test_a_recording_of_blocks_with_a_tile_each_says_what_persistent_ones_take():
    run, device = LayerBlindRun(SECOND), default_device()
    case = next(one for one in second_convolution_cases() if one.name == "pair 56x64 batch 40 256x64")
    trace = run.stream(case, "row")
    own, recorded = costs_of_stages(case.pipeline(), device), stream_costs(case, trace, device, False)
    stays = costs_of_stages(case.pipeline(), device, schedule="persistent")
    found = stream_costs(case, trace, device, False, "persistent")
    for stage, times in found.tile_ns.items():
        longer = sum(recorded.tile_ns[stage]) / sum(own.tile_ns[stage])
        assert sum(times) / sum(stays.tile_ns[stage]) == pytest.approx(longer, rel=1e-3)
        assert times[0] > times[-1]  # the first wave's, before pixels are loaded ahead
    assert found.boundary_ns == recorded.boundary_ns


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
