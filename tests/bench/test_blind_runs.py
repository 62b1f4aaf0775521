"""Judged runs end to end, on a measurer that pretends: what comes first, what is hashed, what is kept."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pretended_measurer import HOPPER, PORTABLE, Pretender, pretended, stamped

from wavesim.bench.blind_predictions import (
    model_standing,
    predictions_of_runs,
    register_predictions,
    unmeasured,
)
from wavesim.bench.blind_runs import BlindRun, find_runs, model_sources, trace_path
from wavesim.bench.blind_sizes import BASELINE, all_sizes, second_sizes, shard_of
from wavesim.bench.regret import regret_text, size_regrets
from wavesim.bench.validation import scores
from wavesim.errors import DescriptionError, DeviceError, RecordingError
from wavesim.model.device import load
from wavesim.model.occupancy import occupancy_of
from wavesim.plan.parsing import parse_plan
from wavesim.recordings.split import split_of
from wavesim.trace.trace_archive import load_trace
from wavesim_gpu.bench.blind_run import BlindRunner, Shard, predict_in_processes
from wavesim_gpu.bench.blind_worker import Worker
from wavesim_gpu.bench.measuring_process import WorkerError


def predict(found):
    return [one for size, streams in found for one in register_predictions(size, streams, "h200")]


def make_run(folder: Path, sizes=(PORTABLE,), **more) -> tuple[Pretender, BlindRunner]:
    measurer = Pretender(folder)
    for name, value in more.pop("pretender", {}).items():
        setattr(measurer, name, value)
    runner = BlindRunner(folder, sizes, measurer, predict, commit="abcdef0", **more)
    runner.run()
    return measurer, runner


def test_stream_sync_comes_first_then_the_hash_then_the_plans(tmp_path: Path, capsys):
    measurer, runner = make_run(tmp_path / "run", (PORTABLE, HOPPER))
    order = [(what, is_written) for what, _, is_written in measurer.asked]
    expected = [("prepare", False), *[("streams", False)] * 2, *[("repeat 0", True)] * 2]
    assert order == [*expected, *[("repeat 1", True)] * 2]
    assert runner.failures == {}
    (stamp,) = re.findall(r"SHA-256 ([0-9a-f]{64})", capsys.readouterr().err)
    (run,) = find_runs(tmp_path)
    assert run.stamp == stamp
    assert all(run.trace(PORTABLE, "row", word) for word in ("row", "tile"))
    assert run.trace(HOPPER, "row", "stream-k") is None


def test_a_run_is_scored_as_sets_of_its_own_with_its_noise_and_what_was_said_before(tmp_path: Path):
    make_run(tmp_path / "run", (PORTABLE, HOPPER))
    found = predictions_of_runs(tmp_path)
    assert {one.split for one in found} == {"test"}
    assert len(found) == 2 * (2 * 2 + 2 * 4)  # from the trace, and from kernel times alone
    by_name = {score.name: score for score in scores(found)}
    names = {"portable-1-block", "hopper-1-block", "hopper-pdl", "hopper-stream-k"}
    assert set(by_name) == names | {"judged-all", "judged-replay", "judged-kernel-times"}
    score = by_name["portable-1-block"]
    assert score.cases == 4
    assert score.median_abs_error_points == pytest.approx(0.1, abs=0.06)  # half of the 0.2 % of the repeat
    assert score.before_median_abs_error_points == pytest.approx(score.median_abs_error_points, abs=1e-6)
    assert score.repeat_noise_points == pytest.approx(0.2, abs=0.03)
    assert by_name["judged-replay"].p90_time_error_percent == pytest.approx(0.0, abs=0.6)  # what a wait costs


def test_what_the_model_says_now_stands_beside_what_it_said_before(tmp_path: Path, monkeypatch):
    make_run(tmp_path / "run")
    (run,) = find_runs(tmp_path)
    assert "the model is the same now" in model_standing(run, model_sources())
    assert "has changed since" in model_standing(run, "other")
    from wavesim.bench import blind_predictions

    real = blind_predictions.predict_from_stream
    monkeypatch.setattr(blind_predictions, "predict_from_stream", lambda *a: (real(*a)[0], real(*a)[1] + 5.0))
    members = [one for one in predictions_of_runs(tmp_path) if one.source == "judged"]
    assert [one.predicted - one.before for one in members] == pytest.approx([5.0] * 4)


def test_regret_is_what_the_plan_predicted_best_loses_to_the_best_measured(tmp_path: Path):
    make_run(tmp_path / "run")
    (run,) = find_runs(tmp_path)
    (found,) = size_regrets(run)
    assert (found.plans, found.points) == (6, 0.0)
    assert found.best[1] != "stream"  # the boundary between the kernels is gained, the same in all plans
    assert "of 6 to 6 all measured, test split: mean regret 0.00 points over 1 sizes" in regret_text(run)
    now = predictions_of_runs(tmp_path)
    assert size_regrets(run, now=now) == [found]
    of_another = [replace(p, run="another", predicted=-p.predicted) for p in now]
    assert size_regrets(run, now=[*now, *of_another]) == [found]
    worse = [replace(one, predicted=-5.0) for one in now]
    (chosen,) = size_regrets(run, now=worse)
    assert chosen.chosen[1] == "stream"
    assert chosen.points > 0.0
    assert "predicted fastest now, after the model was changed, of 6" in regret_text(run, worse)
    path = tmp_path / "run" / "comparisons.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["rounds"]["row row"]["ns"] = [int(ns * 0.9) for ns in line["rounds"]["row stream"]["ns"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (again,) = size_regrets(BlindRun(run.folder))
    assert again.best == ("row", "row") != again.chosen
    assert again.points == pytest.approx(10.0 - 0.9, abs=0.1)  # tile, the boundary and a faster build


def test_a_changed_prediction_is_refused(tmp_path: Path):
    make_run(tmp_path / "run")
    path = tmp_path / "run" / "predictions.json"
    document = json.loads(path.read_text())
    document["predictions"][0]["improvement_points"] += 1.0
    path.write_text(json.dumps(document))
    with pytest.raises(RecordingError, match="the predictions were changed afterwards"):
        predictions_of_runs(tmp_path)


def test_a_trace_of_before_the_predictions_is_refused(tmp_path: Path):
    make_run(tmp_path / "run")
    (run,) = find_runs(tmp_path)
    path = trace_path(run.folder, PORTABLE, "grouped:4", "tile")
    stamped(load_trace(path), "0" * 64).save(path)
    with pytest.raises(RecordingError, match="carries the predictions' hash 0000"):
        predictions_of_runs(tmp_path)
    assert run.name == "run"


def test_a_changed_round_changes_the_score_and_a_damaged_one_is_named(tmp_path: Path):
    make_run(tmp_path / "run")
    before = scores(predictions_of_runs(tmp_path))[0]
    path = tmp_path / "run" / "comparisons.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["rounds"]["row row"]["ns"] = [int(ns * 1.05) for ns in line["rounds"]["row row"]["ns"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    after = scores(predictions_of_runs(tmp_path))[0]
    assert after.p90_abs_error_points > before.p90_abs_error_points + 2.0
    path.write_text(path.read_text() + '{"size": "x"}\n')
    with pytest.raises(RecordingError, match=r"comparisons\.jsonl: line 3 is damaged"):
        predictions_of_runs(tmp_path)


def test_a_size_that_fails_is_named_and_the_others_are_kept(tmp_path: Path):
    _, runner = make_run(tmp_path / "run", (PORTABLE, HOPPER), pretender={"refuses": HOPPER.name})
    assert runner.failures == {f"{HOPPER.name}, stream sync": "no room"}
    (run,) = find_runs(tmp_path)
    assert [size.name for size in run.sizes()] == [PORTABLE.name]
    assert unmeasured(run) == [f"{HOPPER.name}, stream sync: no room"]


def test_a_plan_with_wrong_results_is_named_and_the_others_are_kept(tmp_path: Path):
    _, runner = make_run(tmp_path / "run", pretender={"wrong": {"tile"}})
    assert runner.failures[f"{PORTABLE.name} row tile, repeat 0"] == "wrong"
    members = predictions_of_runs(tmp_path)
    assert {one.plan for one in members} == {"row"}


def test_a_rival_that_hangs_is_left_out_and_the_semaphores_are_measured(tmp_path: Path):
    measurer, runner = make_run(tmp_path / "run", (HOPPER,), pretender={"broken": {"stream-k"}})
    assert [what for what, _, _ in measurer.asked].count("repeat 0") == 2
    assert any("stream-k from" in name for name in runner.failures)
    members = predictions_of_runs(tmp_path)
    assert {one.plan for one in members} == {"row", "tile", "pdl"}


def test_kernels_that_hang_twice_are_given_up(tmp_path: Path):
    others = [replace(PORTABLE, tokens=tokens) for tokens in (200, 640, 900)]
    measurer, runner = make_run(tmp_path / "run", [PORTABLE, *others], pretender={"broken": {"row"}})
    assert [what for what, _, _ in measurer.asked].count("repeat 0") == 2
    assert sum("broke down before" in reason for reason in runner.failures.values()) == 6


def test_after_its_seconds_nothing_is_begun_and_everything_is_said(tmp_path: Path):
    measurer, runner = make_run(tmp_path / "run", seconds=-1.0)
    assert [what for what, _, _ in measurer.asked] == ["prepare"]
    assert list(runner.failures.values()) == ["not begun: the -1 s were over"]
    assert find_runs(tmp_path)[0].predictions == {}


def test_a_run_starts_in_an_empty_folder(tmp_path: Path):
    make_run(tmp_path / "run")
    with pytest.raises(DescriptionError, match="is not empty"):
        make_run(tmp_path / "run")


def test_a_plan_that_cannot_be_predicted_is_written_down_with_the_reason(tmp_path: Path):
    stream = pretended(PORTABLE, "row", BASELINE)
    partial = replace(
        stream, **{name: getattr(stream, name)[:-1] for name in ("stage", "x", "y", "z", "sm", "slot")},
        **{f"{name}_ns": getattr(stream, f"{name}_ns")[:-1] for name in ("issue", "start", "wait", "end")},
    )  # fmt: skip
    found = register_predictions(PORTABLE, {"row": partial}, "h200")
    assert [one.plan for one in found] == ["row", "tile"] * 2
    from_trace = [one for one in found if one.basis == "trace"]
    assert all("calibrate on a whole run" in one.error for one in from_trace)
    assert not any(one.error for one in found if one.basis == "kernel-times")


def test_predictions_in_processes_are_those_of_one_process():
    streams = {"row": pretended(PORTABLE, "row", BASELINE)}
    assert predict_in_processes("h200")([(PORTABLE, streams)]) == register_predictions(
        PORTABLE, streams, "h200"
    )


def test_the_list_has_all_that_it_should_and_fits_the_device():
    sizes = all_sizes()
    assert len({size.name for size in sizes}) == len({size.stem for size in sizes}) == len(sizes)
    assert sum(len(size.orders) for size in sizes) >= 160
    assert {split for size in sizes for split in size.split_k} == {1, 2, 3, 4}
    assert {len(size.tiles) for size in second_sizes()} == {2, 3, 4}
    assert {word for size in sizes for word in size.plans} == {"row", "tile", "pdl", "stream-k"}
    device, per_sm = load("h200"), set()
    for size in sizes:
        pipeline = size.pipeline()
        assert pipeline.parameters["judged_size"] == size.name
        counts = {occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages}
        per_sm |= counts
        word = size.set_name.split("-")[1]
        assert not word.isdigit() or counts == {int(word)}
        assert [len(size.split_k), len(pipeline.stages)] == [len(size.tiles)] * 2
        assert parse_plan(BASELINE, size.orders[0]).is_stream_sync
    assert per_sm == {1, 2, 4}
    assert {split_of(size.name) for size in sizes} == {"development", "test"}


def test_shards_are_all_sizes_once_each_mixed_and_a_run_each_in_their_runs_folder(tmp_path: Path):
    sizes = second_sizes()
    parts = [shard_of(sizes, number, 4) for number in (1, 2, 3, 4)]
    assert sorted(size.name for part in parts for size in part) == sorted(size.name for size in sizes)
    assert all(len({size.set_name for size in part}) >= 5 for part in parts)
    make_run(Shard(1, 2).folder(tmp_path / "run"), (PORTABLE,))
    make_run(Shard(2, 2).folder(tmp_path / "run"), (HOPPER,))
    runs = find_runs(tmp_path)
    assert [run.name for run in runs] == ["run shard-1", "run shard-2"]
    assert [size.name for run in runs for size in run.sizes()] == [PORTABLE.name, HOPPER.name]
    assert {one.run for one in predictions_of_runs(tmp_path)} == {run.name for run in runs}


def test_chains_are_described_with_every_stage_on_the_one_before():
    (chain,) = [s for s in second_sizes() if s.workload == "llama-out-mlp-qkv" and s.tokens == 710]
    pipeline = chain.pipeline()
    assert [(one.gemm.n, one.gemm.k) for one in pipeline.stages] == [
        (8192, 1024),
        (5632, 8192),
        (8192, 2816),
        (3072, 8192),
    ]
    assert [one.producers for one in pipeline.dependencies] == [("gemm1",), ("gemm2",), ("gemm3",)]
    assert chain.set_name == "hopper-chain"


class Sleeper:
    """A measurer for the worker's process: hangs, faults and refuses when asked to."""

    def __init__(self, commit: str) -> None:
        self.commit = commit

    def facts(self):
        return {"commit": self.commit}

    def streams(self, size):
        time.sleep(60)

    def prepare(self, sizes):
        raise (DeviceError if sizes else RuntimeError)("illegal address")


def test_a_worker_that_hangs_or_faults_is_replaced():
    worker = Worker("abc", Sleeper, measuring_s=0.5)
    try:
        assert worker.facts() == {"commit": "abc"}
        with pytest.raises(WorkerError, match=r"no answer within 0\.5 s"):
            worker.streams(PORTABLE)
        with pytest.raises(WorkerError, match="RuntimeError: illegal address"):
            worker.prepare([])
        with pytest.raises(DeviceError, match="illegal address"):
            worker.prepare([PORTABLE])
        assert worker.facts() == {"commit": "abc"}
    finally:
        worker.close()
