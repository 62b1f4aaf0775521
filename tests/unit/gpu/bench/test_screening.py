"""Screening, where there is no GPU: who is chosen, who is a finalist, and who was wrong before or after."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from wavesim.errors import DeadlockError
from wavesim.model.device import load
from wavesim.plan.order import parse_order
from wavesim_gpu.bench import contenders
from wavesim_gpu.bench.contenders import SCREENING_ROUNDS, CheckedCandidate, time_and_judge
from wavesim_gpu.bench.kinds import bench_sizes as bench
from wavesim_gpu.bench.kinds import pairs, products
from wavesim_gpu.bench.kinds.pairs import PairStudy
from wavesim_gpu.bench.kinds.products import KernelConfig, ways_of
from wavesim_gpu.bench.kinds.variants import (
    HOPPER,
    PairConfig,
    PlanConfig,
    TileConfig,
    generated,
    mlp_pair,
    plan_named,
    under_all,
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


def test_what_was_lucky_in_the_first_screening_is_not_chosen_in_the_second(study):
    def medians(variants, rounds):
        assert rounds > SCREENING_ROUNDS
        return {variant: 104.0 if variant.kind.name == "stream" else 103.0 for variant in variants}

    study._medians = medians
    study._shortlist()
    assert study._roles()["tuned"].kind.name == "row"


def test_finalists_are_the_fastest_of_each_kind_and_the_cut_where_semaphores_gain_most(study):
    found = {name: (variant.kind.name, variant.cuts[0]) for name, variant in study._finalists().items()}
    assert found == {
        "stream": ("stream", WIDE),
        "row": ("row", WIDE),
        "same-cut": ("row", SQUARE),
        "same-cut stream": ("stream", SQUARE),
    }


def test_the_tuned_plan_is_the_fastest_in_screening_stream_sync_included(study):
    roles = study._roles()
    assert roles["tuned"].kind.name == "stream"
    assert roles["cusync"].kind.name == "row"


def test_policies_that_were_generated_run_on_the_kernels_and_by_the_launch_of_the_best(study):
    one = next(kind for kind in HOPPER.kinds if kind.name == "row on one stream")
    made = one.under("block:2x1")
    assert made.name == "block:2x1 on one stream"
    assert made.stored == ("hopper-dependent", "block:2x1")
    plan = plan_named(made.plan, parse_order("grouped:4"))
    assert (plan.sync.word, plan.order.name) == ("block:2x1", "grouped:4")
    assert (plan.schedule.word, plan.launch.word) == ("persistent", "pdl")
    names = generated(mlp_pair("gpt3-mlp", 1024, (WIDE, WIDE), 64))
    assert {"tile", "row", "block:2x1"} <= set(names)
    best = study.best(has_semaphores=True)
    found = under_all([best], names)
    assert [variant.plan.sync.word for variant in found] == names
    assert {variant.cuts for variant in found} == {best.cuts}


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


def test_kinds_that_follow_are_tried_only_where_their_leader_was_best(on_model):
    cases, _ = on_model(2048, bench.Scope(rounds=3))
    tried = {}
    for case in cases:
        if not case["is_final"]:
            tried.setdefault(case["name"], {})[*case["cuts"], case["order"]] = case["rounds_ns"][0]
    leader = tried["stream"]
    assert len(leader) > 3
    assert set(tried["pdl"]) == set(sorted(leader, key=leader.get)[:3])
    assert len(tried["tile"]) == 3


def test_small_batches_repeat_and_stream_k_has_cuts_to_enter_with(on_model):
    cases, told = on_model(64, bench.Scope(rounds=3))
    assert told["repeats"] == 5
    assert all(case["repeats"] == 5 for case in cases)
    assert [case for case in cases if case["name"] == "stream-k pdl" and case["is_final"]]
    assert "block:4x1" in {case["plan"] for case in cases}


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


def test_the_fastest_few_products_are_ranked_by_a_second_look_and_who_is_wrong_then_is_out(monkeypatch):
    ways = [KernelConfig("hopper", "persistent", TileConfig(128, size), ROW) for size in range(16, 144, 16)]
    lucky, steady, broken, *others = ways
    is_second = []

    def time_together(contenders, rounds, *_):
        is_first = rounds == SCREENING_ROUNDS
        times = {str(way): 100 + i for i, way in enumerate(ways)}
        times[str(lucky)] += 0 if is_first else 50
        is_second.append(not is_first)
        return {name: Rounds([times[name]] * rounds, [1.5] * rounds) for name in contenders}, None

    def judge(way):
        return replace(GOOD, is_right=False) if way is broken and is_second[-1] else GOOD

    monkeypatch.setattr(contenders, "time_together", time_together)
    entries = {way: CheckedCandidate(way, GOOD, lambda: None, partial(judge, way)) for way in ways}
    ranked, judged = products._screened(entries)
    looked_at, rest = others[:3], others[3:]
    assert list(ranked) == [steady, *looked_at, lucky, *rest]
    assert ranked[lucky] == 150
    assert [name for name, verdict in judged.items() if not verdict.is_good] == [str(broken)]
