"""Screening, where there is no GPU: who is chosen, who is a finalist, and who was wrong before or after."""

from types import SimpleNamespace

import pytest

from wavesim.errors import DeadlockError
from wavesim.model.device import load
from wavesim.plan.order import parse_order
from wavesim_gpu.bench import contenders
from wavesim_gpu.bench.contenders import CheckedCandidate, time_and_judge
from wavesim_gpu.bench.kinds import bench_sizes as bench
from wavesim_gpu.bench.kinds import pairs
from wavesim_gpu.bench.kinds.pairs import PairStudy
from wavesim_gpu.bench.kinds.products import ways_of
from wavesim_gpu.bench.kinds.variants import (
    HOPPER,
    PairConfig,
    PlanConfig,
    TileConfig,
    mlp_pair,
)
from wavesim_gpu.driver.clocks import Reading
from wavesim_gpu.run.runner import OutputCheck
from wavesim_gpu.run.timing import Rounds

ROW = parse_order("row")
GOOD = OutputCheck({}, is_right=True, has_right_semaphores=True)
WIDE, SQUARE = TileConfig(128, 256), TileConfig(128, 128)


@pytest.fixture
def study():
    """Screening is done: stream sync is best in one cut, semaphores gain most in the other."""
    made = PairStudy.__new__(PairStudy)
    stream, row = (
        PlanConfig("stream", "persistent-stream", "hopper"),
        PlanConfig("row", "persistent+streams+row", "hopper"),
    )
    times = {(stream, WIDE): 100.0, (row, WIDE): 101.0, (stream, SQUARE): 150.0, (row, SQUARE): 120.0}
    made._screened = {PairConfig(kind, (cut, cut), ROW): time for (kind, cut), time in times.items()}
    made._shortlisted = dict(made._screened)
    return made


class ModelGpu:
    """Stands for an H200: a pair takes its tiles' time in full waves, with semaphores a tenth less."""

    device = load("h200")
    backend = "hopper"

    def operands(self, pipeline, seed=0):
        return SimpleNamespace(pipeline=pipeline)

    @staticmethod
    def pair_ns(variant):
        pipeline = mlp_pair("gpt3-mlp", 1024, variant.cuts, HOPPER.tile_k)
        waves = sum(
            -(-stage.grid.size // 132) * stage.gemm.k * cut.tile_m * cut.tile_n // cut.split_k
            for stage, cut in zip(pipeline.stages, variant.cuts, strict=True)
        )
        return round(waves / 5_000 * (0.9 if variant.has_semaphores else 1))


@pytest.fixture
def on_model(monkeypatch):
    """`size_cases` as on a GPU, with every measurement made up by `ModelGpu`."""
    told = {}

    def entry_of(study, variant):
        told["repeats"] = study._repeats
        return CheckedCandidate(variant, GOOD, lambda: None, lambda: told.get(str(variant), GOOD))

    def time_together(contenders, rounds, *_):
        sampler = SimpleNamespace(reading=Reading(None, None, 0))
        times = {name: ModelGpu.pair_ns(variant) for name, variant in contenders.items()}
        return {name: Rounds([ns] * rounds, [1.5] * rounds) for name, ns in times.items()}, sampler

    def product_cases(runner, entrant, gemm, orders, rounds, tags):
        def alone(way):
            blocks = way.cut.applied(gemm, entrant.tile_k).grid.size
            return (
                -(-blocks // 132) * gemm.k * way.cut.tile_m * way.cut.tile_n / way.cut.split_k / 5_000 + 6e3
            )

        return [], dict(
            sorted(((w, alone(w)) for w in ways_of(entrant, gemm, orders, 132)), key=lambda entry: entry[1])
        )

    monkeypatch.setattr(bench, "query", lambda: ModelGpu.device)
    monkeypatch.setattr(bench, "product_cases", product_cases)
    monkeypatch.setattr(pairs, "reference", lambda operands: {})
    monkeypatch.setattr(pairs, "LIBRARIES", {})
    monkeypatch.setattr(contenders, "time_together", time_together)
    monkeypatch.setattr(PairStudy, "_compile", lambda *_: None)
    monkeypatch.setattr(PairStudy, "_entry", entry_of)
    return lambda tokens, scope: (bench.size_cases(ModelGpu(), HOPPER, "gpt3-mlp", tokens, scope), told)


def test_a_size_is_screened_in_every_kind_and_ends_with_the_choices_named(on_model):
    cases, told = on_model(1024, bench.Scope(rounds=3))
    final = {case["name"]: case for case in cases if case["is_final"]}
    assert told["repeats"] == 1
    kinds = {kind.name for kind in HOPPER.kinds}
    assert kinds | {"same-cut", "same-cut stream"} <= set(final)
    roles = {role for case in final.values() for role in case["roles"]}
    assert roles == {"cusync", "tuned"}
    policies = {case["plan"] for case in cases}  # this size is a thorough one
    assert {"block:2x1", "block:1x2", "block:4x4"} <= policies


@pytest.mark.parametrize("is_right", [True, False])
def test_a_library_with_wrong_results_is_never_timed(on_model, monkeypatch, is_right):
    monkeypatch.setattr(pairs, "LIBRARIES", {"cublaslt": lambda operands, repeats: None})
    verdict = OutputCheck({}, is_right, has_right_semaphores=True)
    monkeypatch.setattr(
        pairs, "library_entry", lambda *_: CheckedCandidate(None, verdict, lambda: None, lambda: verdict)
    )
    timed = []

    def time_together(contenders, rounds, *_):
        timed.extend(contenders)
        sampler = SimpleNamespace(reading=Reading(None, None, 0))
        return {name: Rounds([1_000] * rounds, [1.5] * rounds) for name in contenders}, sampler

    monkeypatch.setattr(contenders, "time_together", time_together)
    cases, _ = on_model(2048, bench.Scope(rounds=3))
    (row,) = (case for case in cases if case["name"] == "cublaslt")
    assert ("cublaslt" in timed) == bool(row["rounds_ns"]) == row["verdict"]["is_good"] == is_right


def test_a_plan_that_is_wrong_after_its_screening_is_named_and_is_no_finalist(on_model, capsys):
    cases, told = on_model(2048, bench.Scope(rounds=3))
    tuned = next(case for case in cases if "tuned" in case.get("roles", []))
    culprit = next(
        case
        for case in cases
        if not case["is_final"] and all(case[key] == tuned[key] for key in ("name", "plan", "cuts", "order"))
    )
    name = f"{culprit['name']} {culprit['plan']} {' '.join(culprit['cuts'])} {culprit['order']}"
    told[name] = OutputCheck({"gemm2": 0.5}, is_right=False, has_right_semaphores=True)
    capsys.readouterr()
    cases, _ = on_model(2048, bench.Scope(rounds=3))
    words = f"{name}: wrong after its timed rounds: errors {{'gemm2': 0.5}}, semaphores right\n"
    assert capsys.readouterr().err == words
    (bad,) = (case for case in cases if not case["verdict"]["is_good"])
    assert not bad["is_final"]
    assert bad["rounds_ns"]
    tuned = next(case for case in cases if "tuned" in case["roles"])
    assert any(tuned[key] != bad[key] for key in ("name", "plan", "cuts", "order"))


def test_outputs_are_spoilt_before_the_rounds_and_judged_after_them_in_every_case(monkeypatch, capsys):
    told = []
    wrong = OutputCheck({"gemm1": float("nan")}, is_right=False, has_right_semaphores=False)

    def entry_of(name, before, after):
        def judge():
            told.append(f"judge {name}")
            if after is None:
                raise DeadlockError((), (), "a wait ran out of its time limit of 2 s")
            return after

        return CheckedCandidate(name, before, lambda: told.append(f"spoil {name}"), judge)

    def time_together(contenders, rounds, *_):
        told.append(f"time {' '.join(contenders)}")
        return {name: Rounds([1] * rounds, [1.5] * rounds) for name in contenders}, None

    monkeypatch.setattr(contenders, "time_together", time_together)
    entries = {
        "right": entry_of("right", GOOD, GOOD),
        "never": entry_of("never", wrong, GOOD),
        "later": entry_of("later", GOOD, wrong),
        "stuck": entry_of("stuck", GOOD, None),
    }
    found, verdicts, _ = time_and_judge(entries, 3)
    timed = ["right", "later", "stuck"]
    spoils, judgements = ([f"{word} {name}" for name in timed] for word in ("spoil", "judge"))
    assert told == [*spoils, "time right later stuck", *judgements]
    assert list(found) == timed
    assert [name for name, verdict in verdicts.items() if verdict.is_good] == ["right"]
    named = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in named] == ["later", "stuck"]
    assert "deadlock" in named[1]
    assert time_and_judge({"never": entries["never"]}, 3) == ({}, {"never": wrong}, None)
