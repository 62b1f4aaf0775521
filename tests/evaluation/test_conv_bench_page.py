"""What the page of measured convolutions says is what the committed results say, and so are its words."""

import json
import re
from dataclasses import replace
from statistics import geometric_mean

import numpy as np
import pytest

from wavesim.evaluation import conv_bench_page as pages
from wavesim.evaluation.conv_bench_figures import chain_figure, single_figure
from wavesim.evaluation.conv_bench_results import (
    ASKED,
    ASKED_BY_PDL,
    CLOSELY,
    FILTERS_FIRST,
    FOLDER,
    NEAR_FILTERS,
    PICKED,
    bench_run,
)
from wavesim.evaluation.conv_bench_scores import fine_over_coarse, gain_errors, in_same_tiles
from wavesim.evaluation.conv_blind_scores import FOURTH, gains_of
from wavesim.evaluation.conv_choices import (
    FIRST_CHOICES,
    TODAYS_CHOICES,
    choices_of,
    read_choices,
    with_choices,
)
from wavesim.evaluation.conv_runs import pipeline_of, tried_plans
from wavesim.evaluation.layer_blind_cases import SHORT_FIRST
from wavesim.evaluation.layer_blind_runs import LayerBlindRun
from wavesim.evaluation.layer_graphs_table import times_of
from wavesim.model.device import default_device

RUN = with_choices(bench_run(), FIRST_CHOICES)
PLANS = ("stream", "pdl", "semaphores")
LABEL = "pdl, 64x128, K in 4 tiles"


def made(kind, name, images, times, **changes):
    finalists = [
        {"class": key, "label": key, "median_ns": ns, "rounds_ns": [ns, ns + 1]} for key, ns in times.items()
    ]
    shape = {"size": 14, "channels": 256, "filters": 256, "kernel_size": 3, "stride": 1, "count": 1}
    return {"kind": kind, "name": name, "images": images, **shape, **changes, "finalists": finalists}


def test_the_page_has_the_tables_that_its_command_writes_of_the_committed_runs():
    page = pages.PAGE.read_text("utf-8")
    assert f"<!-- convolutions: begin -->\n{pages.block(RUN)}\n<!-- convolutions: end -->" in page


def test_the_page_has_what_later_kernels_were_measured_at():
    page = pages.PAGE.read_text("utf-8")
    found = pages.block(with_choices(bench_run(FILTERS_FIRST)))
    assert f"<!-- filters-first: begin -->\n{found}\n<!-- filters-first: end -->" in page


def test_the_page_has_what_runs_gain_that_begin_by_dependent_launch_too():
    page = pages.PAGE.read_text("utf-8")
    by_pdl, speeds = next(one for one in ASKED_BY_PDL if "batch 1" in one.words), []
    for name, folder in (("near-filters", NEAR_FILTERS), ("closely", CLOSELY)):
        found = pages.block(bench_run(folder), (*ASKED, *ASKED_BY_PDL))
        assert f"<!-- {name}: begin -->\n{found}\n<!-- {name}: end -->" in page
    for folder in (FILTERS_FIRST, NEAR_FILTERS, CLOSELY):
        found = by_pdl.speeds(bench_run(folder).cases)
        assert len(found) == 13
        speeds.append(geometric_mean(found.values()))
    assert speeds == sorted(speeds)


def test_above_batch_1_dependent_launch_beats_stream_sync_and_semaphores_are_fastest_in_four_pairs():
    text = " ".join(pages.PAGE.read_text("utf-8").split())
    cases = bench_run(CLOSELY).cases
    pairs = [times_of(case) for case in cases if case["kind"] == "pair" and case["images"] > 1]
    over = [times["stream"] / times["pdl"] for times in pairs]
    assert f"in all {len(over)} pairs, {geometric_mean(over):.2f} times (geometric mean;" in text
    assert f"(geometric mean; {min(over):.2f} to {max(over):.2f})" in text
    fast = [ratio for times in pairs if (ratio := times["pdl"] / times["semaphores"]) > 1]
    assert len(fast) == 4
    assert f"in four of these, by {min(fast):.2f} to {max(fast):.2f} times over dependent launch" in text
    of_pairs = [times_of(case) for case in cases if case["kind"] == "pair"]
    taken = geometric_mean([times["pdl"] / min(times["pdl"], times["semaphores"]) for times in of_pairs])
    assert f"takes them where they pay has {taken:.2f}" in text
    chains = [times_of(case) for case in cases if case["kind"] == "chain"]
    slowest = min(times["stream"] / times["semaphores"] for times in chains)
    least = min(times["stream"] / times["pdl"] for times in chains)
    said = f"In {len(chains)} chains of four dependent launch is at least {least:.2f} times as fast"
    assert f"{said} as stream sync, semaphores {slowest:.2f}." in text


def test_the_page_has_what_is_picked_today_and_its_measured_times():
    page = pages.PAGE.read_text("utf-8")
    assert f"<!-- picked-today: begin -->\n{pages.picked_today()}\n<!-- picked-today: end -->" in page
    tried = tried_plans({"cases": bench_run(NEAR_FILTERS).cases})
    measured = {(one.case, one.plan, one.tiles): one.measured_ns for one in tried}
    picked = read_choices(TODAYS_CHOICES)
    assert len(picked) == 13
    for (kind, name), one in picked.items():
        assert measured[f"{kind} {name}", one.plan, one.tiles] == one.measured_ns


def test_in_many_waves_of_56x56_images_persistent_kernels_are_picked_and_in_one_wave_none():
    cases = [case for case in bench_run(FILTERS_FIRST).cases if case["name"].startswith("3x3 56x56 64 to")]
    run = replace(bench_run(FILTERS_FIRST), cases=tuple(cases))
    found = {one.name.rpartition(" ")[2]: one for one in choices_of(run, default_device())}
    assert found["64"].plan.startswith("persistent")
    assert found["1"].plan == "pdl"
    committed = read_choices(TODAYS_CHOICES)
    assert committed["pair", "3x3 56x56 64 to 64 batch 1"].plan == "pdl"


def test_what_the_page_says_of_the_fourth_run_is_how_far_it_was_off():
    run = LayerBlindRun(FOURTH)
    predicted, errors = run.predictions("costs"), {True: [], False: []}
    for case in run.rounds:
        for plan, points in gains_of(run, case).items():
            off = abs(predicted[case, SHORT_FIRST, plan].points - points)
            errors[plan.startswith("persistent")].append(off)
    text = " ".join(pages.PAGE.read_text("utf-8").split())
    (block, block_90), (stays, stays_90) = (
        (np.median(errors[is_persistent]), np.percentile(errors[is_persistent], 90))
        for is_persistent in (False, True)
    )
    said = f"a block per tile are off by {block:.1f} and {block_90:.1f} ({len(errors[False])} gains)"
    assert f"{said}, persistent kernels by {stays:.1f} and {stays_90:.1f}" in text


def test_what_the_page_says_of_pairs_at_batch_1_is_what_was_measured():
    text = " ".join(pages.PAGE.read_text("utf-8").split())
    new = {one["name"]: times_of(one) for one in bench_run(FILTERS_FIRST).cases if one["kind"] == "pair"}
    new = {name: times for name, times in new.items() if name.endswith("batch 1")}
    fastest = [times["torch"] / min(times[plan] for plan in PLANS) for times in new.values()]
    assert f"{geometric_mean(fastest):.2f} times as fast as cuDNN (geometric mean of the {len(new)}" in text
    old = {one["name"]: times_of(one) for one in bench_run().cases if one["kind"] == "pair"}
    for plan in ("stream", "semaphores"):
        over = [old[name][plan] / new[name][plan] for name in old.keys() & new.keys()]
        assert f"{min(over):.2f} to {max(over):.2f} times" in text


def test_what_the_page_says_of_row_and_tile_is_what_was_measured():
    text = " ".join(pages.PAGE.read_text("utf-8").split())
    found = fine_over_coarse(in_same_tiles(sorted(FILTERS_FIRST.glob("*.json"))))
    apart, far = sorted(map(abs, found)), [one for one in found if abs(one) >= 1]
    said = re.search(r"of (\d+) pairs and chains, each in each of its tiles, they are ([\d.]+) points", text)
    assert said is not None
    assert (int(said[1]), float(said[2])) == (len(found), round(apart[len(apart) // 2], 1))
    rows = sum(one < 0 for one in far)
    assert f"point or more in {len(far)}, of which row semaphores are the faster in {rows}." in text


def test_a_pick_has_the_time_of_its_plan_and_tiles_in_the_run_beside_it():
    alike = 0
    for case in with_choices(bench_run(FILTERS_FIRST)).cases:
        *measured, last = case.get("finalists", ({},))
        times = {one["label"].removesuffix(" tiles"): one["median_ns"] for one in measured}
        if last.get("class") == PICKED and last["label"] in times:
            alike += 1
            assert last["median_ns"] == times[last["label"]]
    assert alike >= 10


def test_a_figure_is_judged_by_its_own_cases_and_a_miss_is_said():
    cases = [
        made("pair", "one", 1, {"stream": 110, "semaphores": 100, "pdl": 100}),
        made("pair", "two", 32, {"stream": 100, "semaphores": 98, "pdl": 90}),
        made("chain", "three", 32, {"stream": 100, "semaphores": 98, "pdl": 90, "picked": 99}, count=4),
    ]
    rows = {one.words: one.row(cases) for one in ASKED}
    everywhere, picked = "semaphores everywhere, over", "as picked before, over"
    row = rows[f"pairs at batch 1, {everywhere} stream sync"]
    assert row.endswith("1.10 | must | 1, 1.10 to 1.10 |")
    assert "1.02 | **missed** |" in rows[f"pairs at batch 32 and more, {everywhere} stream sync"]
    assert "0.96 | **missed** | 2, 0.92 to 1.00 |" in rows[f"pairs, {everywhere} dependent launch"]
    assert "1.02 | aim | 1," in rows[f"chains of four, {everywhere} stream sync"]
    assert "1.01 | aim | 1," in rows[f"chains of four, {picked} stream sync"]
    assert rows["one 1x1, over cuDNN"].endswith("not measured yet | | |")


def test_without_results_the_page_says_so(tmp_path):
    assert bench_run(tmp_path) is None
    assert pages.block(None).startswith("Not measured yet.")


def test_a_case_in_two_files_is_the_newer_ones(tmp_path):
    head = {"device": {"name": "G"}, "date": "2026-11-23T00", "commit": "aaaaaaa"}
    for number, ns in enumerate((100, 90)):
        case = made("pair", "one", 1, {"stream": ns, "semaphores": 90})
        text = json.dumps({**head, "commit": "ab"[number] * 7, "cases": [case]})
        (tmp_path / f"{number}.json").write_text(text)
    run = bench_run(tmp_path)
    assert run.commit == "aaaaaaa, bbbbbbb"
    assert [one["median_ns"] for one in run.cases[0]["finalists"]] == [90, 90]


@pytest.mark.parametrize("run", [RUN, bench_run(FILTERS_FIRST)])
def test_a_picture_has_a_dot_for_each_case_measured(run):
    for figure, kinds in ((single_figure, ("single",)), (chain_figure, ("pair", "chain"))):
        cases = [case for case in run.cases if case["kind"] in kinds and "failed" not in case]
        if cases:
            dots = [value for one in figure(run).data for value in one.x]
            assert len(dots) == len(cases) * (1 if figure is single_figure else 2)


def test_batches_of_a_panel_follow_each_other_and_a_1x1_before_has_a_panel_of_its_own():
    later = chain_figure(bench_run(FILTERS_FIRST))
    titles = " ".join(str(one.text) for one in later.layout.annotations)
    assert "1x1, then 3x3" in titles
    assert "two of 56x56x64" in titles
    ticks = [one.ticktext for one in later.select_xaxes() if one.ticktext]
    batches = [[int(text) for text in panel] for panel in ticks if all(text.isdigit() for text in panel)]
    assert len(batches) >= 8
    assert all(panel == sorted(panel) for panel in batches)


def test_a_tried_plan_is_the_convolutions_that_were_measured():
    case = made("chain", "x", 8, {}, count=4)
    pipeline = pipeline_of(case, "64x128, K in 4")
    assert [stage.backend for stage in pipeline.stages] == ["hopper-convolution-chained"] * 4
    work = pipeline.stages[0].work
    assert (work.tile_m, work.tile_n, work.split_k, work.activation) == (64, 128, 4, "relu")
    assert pipeline.stages[-1].work.activation is None
    assert pipeline_of(made("pair", "x", 8, {}, count=2), "128x128").stages[0].backend == "hopper-convolution"


def test_what_was_picked_is_a_plan_that_was_measured_and_its_time_is_that():
    results = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    tried = [one for found in results for one in tried_plans(found)]
    measured = {(one.case, one.plan, one.tiles): one.measured_ns for one in tried}
    picked = read_choices(FIRST_CHOICES)
    assert len(picked) >= 20
    for (kind, name), one in picked.items():
        assert measured[f"{kind} {name}", one.plan, one.tiles] == one.measured_ns


def test_picks_are_the_fastest_predicted_that_are_worth_it():
    found = {one.name: one for one in choices_of(bench_run(NEAR_FILTERS), default_device())}
    assert {one.plan for one in found.values()} == {"pdl", "persistent+pdl+row"}
    assert all(one.predicted_points >= 1 for one in found.values() if one.plan != "stream")


def test_gains_of_a_measured_part_are_predicted_as_well_as_the_model_page_says():
    found = in_same_tiles(sorted(NEAR_FILTERS.glob("*.json")))
    for plan, most in (("pdl", 1.5), ("pdl+row", 4.0)):
        errors = sorted(map(abs, gain_errors(found, plan, default_device())))
        assert errors[len(errors) // 2] < most
