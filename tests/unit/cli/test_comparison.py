"""Comparison cells: live with a runner, from recordings without, and what they say about it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from recorded import pretended

from wavesim.comparison import compare
from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.order import Grouped
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.stream_k import StreamK
from wavesim.recordings.runner import described_measurement, find_runner
from wavesim.trace.trace import Trace
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.figure_one import toy
from wavesim.workloads.mlps import gpt3_mlp


class PretendedRunner:
    """A runner whose GPU is the simulator with known costs."""

    def measure(self, pipeline: Pipeline, plans: Sequence[Plan], *, rounds: int = 20) -> list[Trace]:
        tokens = int(pipeline.parameters["tokens"])
        return [pretended(tokens, plan.name, plan.order.name) for plan in plans]


def test_a_runner_is_measured_live_and_the_prediction_uses_its_stream_run_alone():
    plan = SemaphoreSync(RowSync(), order=Grouped(4))  # in step, so that DRAM adds nothing
    comparison = compare(gpt3_mlp(1024), [plan], load("h200"), PretendedRunner())
    assert [row.plan for row in comparison.rows] == ["stream", "row"]
    assert comparison.source.startswith("live, h200, 2026-01-01, commit abcdef0")
    assert "the measured stream-sync run; used: tile times of 192 and 384 blocks, 1.6 us" in comparison.basis
    assert "behind them an L2 of 36 MB and 4.4 TB/s" in comparison.basis
    assert comparison.rows[1].error_points == pytest.approx(0.0, abs=0.3)
    assert "error" in comparison.table()


def test_a_measurement_outside_a_checkout_names_no_commit():
    trace = pretended(1024, "stream", "row")
    bare = replace(trace, header=replace(trace.header, commit=""))
    assert "commit abcdef0, medians of" in described_measurement(trace)
    assert "2026-01-01, medians of" in described_measurement(bare)


def test_plans_that_need_other_kernels_are_predicted_beside_the_measured_ones_and_say_so():
    plans = [
        Plan(launch=DependentLaunch()),
        StreamSync(launch="host"),
        SemaphoreSync(RowSync()),
        Plan(StreamK()),
    ]
    comparison = compare(gpt3_mlp(1024), plans, load("h200"), PretendedRunner())
    assert [(row.plan, row.measured_ns is None) for row in comparison.rows] == [
        ("stream", False),
        ("pdl", True),
        ("host", True),
        ("row", False),
        ("stream-k", True),
    ]
    assert {plan.caveat for plan in plans if plan.caveat} <= set(comparison.notes)
    assert [bool(plan.caveat) for plan in plans] == [True, True, False, True]
    assert all(len(row.label) < comparison.table().index("time") for row in comparison.rows)


def test_a_runner_that_says_what_it_refuses_measures_all_else():
    class Choosy(PretendedRunner):
        def refusal(self, pipeline: Pipeline, plan: Plan) -> str:
            return "no Stream-K" if plan.name == "stream-k" else ""

    plans = [Plan(launch=DependentLaunch()), Plan(StreamK())]
    comparison = compare(gpt3_mlp(1024), plans, load("h200"), Choosy())
    assert [(row.plan, row.measured_ns is None) for row in comparison.rows] == [
        ("stream", False),
        ("pdl", False),
        ("stream-k", True),
    ]


def test_without_runner_and_recording_only_the_prediction_is_shown_and_said_so():
    comparison = compare(toy(), [SemaphoreSync(TileSync())], load("toy"), costs=zero_cost(toy(), 1_000))
    assert comparison.rows[1].predicted_points == 25.0
    assert comparison.rows[1].measured_points is None
    assert "no recording" in comparison.source


def test_the_baseline_is_put_first_whatever_the_order_of_plans():
    plans = [SemaphoreSync(TileSync()), StreamSync(), SemaphoreSync(RowSync())]
    comparison = compare(toy(), plans, load("toy"), costs=zero_cost(toy(), 1_000))
    assert [row.plan for row in comparison.rows] == ["stream", "tile", "row"]


def test_jupyter_shows_a_table_of_the_records_with_a_dash_for_what_was_not_measured():
    comparison = compare(toy(), [SemaphoreSync(TileSync())], load("toy"), costs=zero_cost(toy(), 1000))
    stream, tile = comparison.records
    assert (stream["predicted_us"], tile["predicted_us"], tile["predicted_points"]) == (4.0, 3.0, 25.0)
    assert tile["measured_us"] is None
    shown = comparison._repr_html_()
    assert "<td>3.0</td><td>+25.0</td>" in shown
    assert shown.count("<tr>") == 3
    assert "<td>–</td>" in shown
    assert shown.index("predicted: simulated") < shown.index("<details>")
    hostile = replace(comparison, workload="<script>")
    assert "<script>" not in hostile._repr_html_()


def test_no_plans_is_an_error():
    with pytest.raises(DescriptionError, match="plans is empty"):
        compare(toy(), [], load("toy"))


def test_a_gpu_that_is_required_but_missing_is_an_error_that_names_the_install_line(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("wavesim.recordings.runner.entry_points", lambda group: [])
    assert find_runner("auto") is None
    assert find_runner("never") is None
    with pytest.raises(DeviceError, match="pip install"):
        find_runner("require")
    with pytest.raises(DescriptionError, match="'maybe'"):
        find_runner("maybe")  # type: ignore[arg-type]


def test_recordings_of_other_hardware_are_not_set_beside_a_prediction():
    comparison = compare(gpt3_mlp(512), [SemaphoreSync(TileSync())], load("h200").with_sm_count(66))
    assert comparison.rows[1].measured_ns is None
    assert "no recording" in comparison.source


def test_recordings_of_other_kernels_of_the_same_grid_are_not_set_beside_a_prediction():
    pipeline = gpt3_mlp(1024)
    first, second = (stage.gemm for stage in pipeline.stages)
    stages = Stage("gemm1", replace(first, k=1_024)), Stage("gemm2", second)
    shallow = Pipeline("gpt3-mlp", stages, [gemm_rows(*stages)], pipeline.parameters)
    assert compare(shallow, [SemaphoreSync(RowSync())], load("h200")).rows[1].measured_ns is None
    assert compare(pipeline, [SemaphoreSync(RowSync())], load("h200")).rows[1].measured_ns is not None


def test_plans_that_are_safe_for_the_same_reason_share_a_printed_line_and_have_their_own_in_the_json():
    plans = [SemaphoreSync(RowSync()), SemaphoreSync(TileSync())]
    comparison = compare(gpt3_mlp(1024), plans, load("h200"))
    own = [note for note in comparison.notes if "safety:" in note]
    shown = [note for note in comparison.shown_notes if "safety:" in note]
    assert [note.partition(":")[0] for note in own] == ["Row semaphores", "Tile semaphores"]
    assert [note.partition(":")[0] for note in shown] == ["Row semaphores, Tile semaphores"]
    assert {note.partition(":")[2] for note in own} == {note.partition(":")[2] for note in shown}
    assert comparison.table().count("Row semaphores, Tile semaphores: safe only if") == 1


def test_the_interval_is_of_a_plan_that_is_compared_with_stream_sync_even_if_none_gains():
    comparison = compare(gpt3_mlp(256), [SemaphoreSync(RowSync())], load("h200"))
    (interval,) = [note for note in comparison.notes if note.startswith("interval:")]
    assert "Row semaphores" in interval
    alone = compare(gpt3_mlp(256), [StreamSync()], load("h200"))
    assert any("interval: Stream sync, +0.0 to +0.0" in note for note in alone.notes)
