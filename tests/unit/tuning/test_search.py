"""Tuning: the ranking, what is left out and why, and that stream sync wins when nothing beats it."""

import json
from dataclasses import replace

import pytest

from wavesim.cli.command_line import main
from wavesim.cli.gen import described_plan
from wavesim.cli.subject import with_split_k
from wavesim.costs.cost_model import CostModel, zero_cost
from wavesim.costs.data_sheet import roofline
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.order import Grouped, RowMajor, SlicesLast
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.sync import Semaphores
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import SafetyVerdict
from wavesim.sim.simulation import simulate
from wavesim.tuning.ranking import TunedPlan
from wavesim.tuning.search import tune
from wavesim.tuning.tuning_costs import bytes_per_wave
from wavesim.workloads.catalogue import workload

TOY, DEVICE, H200 = workload("toy"), load("toy"), load("h200")


def costs_of(pipeline, first=150_000, second=80_000):
    return CostModel({"gemm1": first, "gemm2": second}, boundary_ns=1_050)


def test_figure_one_is_tuned_to_three_waves():
    best = tune(TOY, DEVICE).accepting("idle").best
    assert (best.predicted_ns, best.improvement_points) == (3_000, 25.0)
    assert best.plan.sync.has_semaphores


def test_eight_times_in_ten_is_said_only_where_such_predictions_were_scored():
    plans, pipeline = [SemaphoreSync(RowSync())], workload("gpt3-mlp", 512)
    for unscored in (tune(TOY, DEVICE), tune(pipeline, H200, costs_of(pipeline), plans=plans)):
        assert not unscored.accepting("idle").forecast.scored
        assert "was ever scored" in "".join(unscored.notes)
    kept = tune(pipeline, H200, plans=plans).accepting("seen")
    assert kept.best.plan.is_stream_sync
    assert kept.forecast.scored
    assert (kept.forecast.low, kept.forecast.points) == (0.0, 0.0)
    tuning = tune(workload("gpt3-mlp", 768), H200, plans=plans).accepting("seen")
    assert tuning.forecast.scored
    assert tuning.forecast.low < tuning.best.improvement_points < tuning.forecast.high
    assert "points, 8 times in 10" in "".join(tuning.notes)


def test_the_plan_to_run_is_said_in_words():
    assert tune(TOY, DEVICE).accepting("idle").best.text == "row semaphores, row order"


def test_an_order_of_two_words_is_said_whole():
    plan = Plan(launch=DependentLaunch(), sync=Semaphores(RowSync()))
    row = TunedPlan(
        "row derived grouped:4 pdl", TOY, plan, "derived grouped:4", 1, 0.0, 3, SafetyVerdict(True, "")
    )
    assert row.text == "row semaphores, derived grouped:4 order, pdl"


def test_the_fastest_plans_are_not_run_where_their_predictions_are_off_by_more_than_they_gain():
    tuning = tune(TOY, DEVICE).accepting("idle")
    fastest_ns = tuning.best.predicted_ns
    rows = tuple(
        replace(row, needed_points=90.0) if row.predicted_ns == fastest_ns else row for row in tuning.plans
    )
    unsure = replace(tuning, plans=rows)
    assert unsure.best.predicted_ns > fastest_ns
    assert unsure.unsure is not None
    assert f"faster, but not for sure: {unsure.unsure.name}" in "".join(unsure.notes)
    assert "not for sure" not in "".join(tuning.notes)


def test_the_ranking_is_sorted_and_its_figures_are_the_simulators():
    tuning = tune(TOY, DEVICE)
    times = [row.predicted_ns for row in tuning.plans]
    assert times == sorted(times)
    for row in tuning.plans[:5] + tuning.plans[-5:]:
        assert simulate(TOY, row.plan, DEVICE, zero_cost(TOY, 1_000)).makespan_ns == row.predicted_ns


def test_no_plan_that_can_deadlock_is_ranked():
    tuning = tune(TOY, DEVICE)
    assert all(safety_of(TOY, row.plan, DEVICE).is_safe for row in tuning.plans)
    assert tuning.left_out["can deadlock"] > 0


def test_stream_sync_wins_when_nothing_beats_it():
    pipeline = workload("gpt3-mlp", 256)
    tuning = tune(pipeline, H200.with_sm_count(24), costs_of(pipeline))  # 48 and 96 tiles: whole waves
    assert tuning.best.plan.is_stream_sync
    assert tuning.best.improvement_points == 0.0


def test_a_pipeline_without_dependencies_is_tuned_to_stream_sync():
    alone = Pipeline("alone", [Stage("gemm1", Kernel("gemm1", Grid(3, 2), Block(1024, 64)))])
    tuning = tune(alone, DEVICE, CostModel({"gemm1": 1_000}))
    assert tuning.best.plan.is_stream_sync


def test_variants_are_searched_too_and_hopeless_ones_left_out():
    base, plans = workload("gpt3-mlp", 512), [SemaphoreSync(RowSync())]
    small = workload("gpt3-mlp", 512, (128, 128))
    tuning = tune(base, H200, variants={"128x128": small}, plans=plans)
    assert {row.name for row in tuning.plans} >= {"stream row", "stream row 128x128", "row row"}
    slow = {"slow": with_split_k(base, 4)}
    assert (
        tune(base, H200, costs_of(base), variants=slow, plans=plans).left_out["cannot beat stream sync"] == 1
    )


def test_a_users_own_plans_are_ranked_with_a_baseline():
    plans = [SemaphoreSync(TileSync()), SemaphoreSync(RowSync(), wait_kernel=False)]
    tuning = tune(TOY, DEVICE, plans=plans)
    assert {row.name for row in tuning.plans} == {"stream row", "tile row"}
    assert tuning.left_out["can deadlock"] == 1


def test_orders_that_differ_in_their_splits_alone_are_both_simulated():
    split = with_split_k(workload("gpt3-mlp", 512), 2)
    plans = [StreamSync(), StreamSync(SlicesLast())]
    tuning = tune(split, H200, costs_of(split), plans=plans)
    assert {row.name for row in tuning.plans} == {"stream row", "stream slices-last:row"}
    assert tuning.left_out["same schedule as another"] == 0


def test_split_k_keeps_the_dependencies():
    split = with_split_k(workload("gpt3-mlp", 256), 2)
    assert [stage.grid.z for stage in split.stages] == [2, 2]
    assert str(split.dependencies[0]) == "gemm2[x, y] needs gemm1[:, y]"


def test_of_equally_fast_plans_the_one_that_reads_least_of_memory_comes_first():
    pipeline = workload("gpt3-mlp", 2_048)
    stage = pipeline.stages[1]
    assert bytes_per_wave(stage, RowMajor(), H200) > 2 * bytes_per_wave(stage, Grouped(8), H200)
    plans = [StreamSync(order) for order in (RowMajor(), Grouped(8), Grouped(2))]
    tuning = tune(pipeline, H200, costs_of(pipeline), plans=plans)
    assert tuning.best.name == "stream grouped:8"


def test_plans_are_named_as_gen_lists_them():
    attention = workload("attention-as-published")
    plan = described_plan(attention, "row", "derived")
    assert plan.order_of("qkv").name == "derived"
    with pytest.raises(DescriptionError, match="policy is 'strided:5'"):
        described_plan(attention, "strided:5", "row")
    assert described_plan(attention, "stream", "grouped:4").name == "stream"


def run_json(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_gen_prints_what_can_be_generated_as_json(capsys):
    document = run_json(capsys, "gen", "gpt3-mlp", "--tokens", "1024")
    assert set(document) == {"dependencies", "policies", "orders", "options", "safety"}
    row = next(policy for policy in document["policies"] if policy["name"] == "row")
    assert (row["dependency"], row["semaphores"], row["values"]) == ("gemm1 -> gemm2", 8, [24] * 8)
    assert all(set(option) >= {"name", "used", "why"} for option in document["options"])


def test_gen_writes_the_header(capsys, tmp_path):
    path = tmp_path / "mlp.cuh"
    assert main(["gen", "gpt3-mlp", "--order", "grouped:4", "--out", str(path)]) == 0
    assert "struct gemm1_to_gemm2" in path.read_text()
    capsys.readouterr()
    assert main(["gen", "toy"]) == 0
    assert "#pragma once" in capsys.readouterr().out


def test_tune_prints_the_ranking_as_json(capsys):
    document = run_json(capsys, "tune", "toy")
    assert set(document) >= {"plans", "seconds"}
    assert document["plans"][0]["predicted_ns"] == 3_000
    assert document["plans"][-1]["predicted_ns"] >= document["plans"][0]["predicted_ns"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gen", "gpt9"], "workload is 'gpt9'; known are"),
        (["tune", "gpt9"], "workload is 'gpt9'; known are"),
        (["gen", "toy", "--sync", "magic"], "policy is 'magic'"),
        (["gen", "toy", "--order", "magic"], "order is 'magic'"),
        (["gen", "toy", "--out", "/dev/null/at/all.cuh"], "/dev/null/at/all.cuh: cannot be written"),
        (["tune", "toy", "--split-k", "none"], "split-k is 'none'"),
        (["tune", "toy", "--split-k", "2"], "not a Gemm"),
        (["tune", "toy", "--results", "/"], "cannot be opened for results"),
    ],
)
def test_bad_input_is_one_line_and_status_two(capsys, arguments, words):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_costs_from_the_catalogue_do_where_nothing_was_measured():
    pipeline = workload("gpt3-mlp", 1_024)
    device = load("a100-80gb")
    tuning = tune(pipeline, device, plans=[SemaphoreSync(RowSync())])
    assert "roofline" in tuning.forecast.basis
    stream = simulate(pipeline, StreamSync(), device, roofline(pipeline, device))
    assert tuning.best.predicted_ns == stream.time_ns
