"""What is computed from GPU results: ratios, intervals and limits against numbers worked out by hand."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from sample_results import SAMPLE, changed, raw

from wavesim.bench.bench_figure import (
    copy_figure,
)
from wavesim.bench.cycle_breakdown import product_cycles, shares
from wavesim.bench.gpu_results import GpuResults, TimedCandidate, load_results
from wavesim.bench.results_page import docs_text, pictures
from wavesim.bench.results_text import findings, measured_how
from wavesim.bench.semaphore_costs import (
    best_ways,
    copy_overheads,
    primitive_costs,
    ratio_of_medians,
    ready_costs,
)
from wavesim.bench.speedups import (
    Limits,
    Separation,
    Speedup,
    pairs_of,
    separations,
    speeds,
)
from wavesim.workloads.mlps import gpt3_mlp


@pytest.fixture
def results() -> GpuResults:
    return load_results(SAMPLE)


def test_a_speed_is_the_others_median_over_ours_with_our_quartiles():
    found = Speedup.of([200, 210, 190, 205, 195], [100, 100, 130])
    assert found.value == 100 / 200
    assert (found.low, found.high) == (100 / 205, 100 / 195)


def test_cycles_are_times_times_clocks(results: GpuResults):
    pairs = pairs_of(results, "gpt3-mlp")
    ours, theirs = raw("gpt3-mlp", "row", 1024), raw("gpt3-mlp", "cublaslt", 1024)
    cycles = [
        median(ns * ghz for ns, ghz in zip(case["rounds_ns"], case["clocks_ghz"], strict=True))
        for case in (theirs, ours)
    ]
    _, found = speeds(pairs, "row", "cublaslt", in_cycles=True)[1024]
    assert found.value == pytest.approx(cycles[0] / cycles[1])


def test_the_limit_is_the_longer_of_arithmetic_and_reading(results: GpuResults):
    limits = Limits(flops_per_ns=1000, bytes_per_ns=4)
    assert limits.time_ns(1, 4000) == 1000  # 4000 bytes at 4 per ns; 4000 flops would need 4 ns
    assert limits.time_ns(10_000, 4000) == 40_000
    measured = Limits.of(results)
    assert 500 < measured.flops_per_ns / 1000 < 989  # below the data sheet's TFLOP/s
    assert 3000 < measured.bytes_per_ns < 4815


def test_the_page_says_which_kernels_at_what_power_and_what_a_copy_pays(results: GpuResults):
    words = measured_how(results)
    assert (
        "sources 6369efb47b338987; if the kernels have changed since, `python -m wavesim_gpu report`" in words
    )
    assert "(power limit 700 W)" in words
    assert words.endswith("before it was timed.")
    assert measured_how(replace(results, is_judged_after=True)).endswith(
        "before it was timed, and once more after."
    )
    assert "the limit holds on average" in words
    assert "as it leaves" in next(picture.text for picture in pictures(results) if picture.name == "copies")


def test_screened_cases_are_not_shown(results: GpuResults):
    screened = [case for case in results.cases if not case.is_final]
    assert screened
    shown = [case for cases in pairs_of(results, "gpt3-mlp").values() for case in cases.values()]
    assert not [case for case in shown if case in screened]


def test_what_a_copy_pays_is_the_ratio_of_its_medians_with_an_interval(results: GpuResults):
    cases = json.loads(SAMPLE.read_text(encoding="utf-8"))["cases"]
    rounds = {c["name"]: c["rounds_ns"] for c in cases if c.get("threads") == 128}
    found = copy_overheads(results)["ready"][0]
    assert found.threads == 128
    assert found.percent == pytest.approx(100 * (median(rounds["ready"]) / median(rounds["stream"]) - 1))
    assert found.low95 <= found.percent <= found.upper95


def test_the_interval_of_a_ratio_holds_the_truth_19_times_in_20_although_neighbours_are_alike():
    random = np.random.default_rng(7)
    held, widths = 0, []
    for _ in range(200):
        drift = np.convolve(random.normal(0, 0.02, 209), np.full(10, 10**-0.5), "valid")  # both contenders'
        theirs, ours = (
            level * np.exp(drift + random.normal(0, 0.02, 200)) + 2_000 * (random.random(200) < 0.02)
            for level in (10_000, 10_300)
        )
        found = ratio_of_medians(list(ours), list(theirs))
        held += found.low <= 1.03 <= found.high
        widths.append(found.high - found.low)
    assert held >= 180
    assert median(widths) < 0.015


def test_a_pair_is_resampled_together_so_that_what_both_meet_cancels():
    drift = [10_000 + 100 * (turn // 10) for turn in range(200)]
    found = ratio_of_medians([1.01 * time for time in drift], drift)
    assert (found.low, found.high) == (pytest.approx(1.01), pytest.approx(1.01))


def test_the_cheapest_way_is_chosen_among_those_with_semaphores_for_each_block_size(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        plain = next(c for c in document["cases"] if c.get("threads") == 128 and c["name"] == "stream")
        for name, factor in (("tile on one stream", 0.97), ("pdl", 0.5)):
            rounds = [round(factor * ns) for ns in plain["rounds_ns"]]
            document["cases"].append({**plain, "name": name, "rounds_ns": rounds})

    found = load_results(changed(tmp_path, add))
    best = best_ways(copy_overheads(found))[128]
    assert best.case.name == "tile on one stream"
    assert best.percent == pytest.approx(-3, abs=0.1)
    text = copy_figure(found).layout.title.text.replace("<br>", " ").replace("\u00a0", " ")
    assert f"{best.upper95:.1f} % at 128" in text


def test_what_the_simulator_chose_is_held_against_what_screening_chose(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        tuned = next(
            case
            for case in document["cases"]
            if "tuned" in case.get("roles", ()) and (case["workload"], case["tokens"]) == ("gpt3-mlp", 1024)
        )
        slower = [round(ns / 0.9) for ns in tuned["rounds_ns"]]
        document["cases"].append({**tuned, "name": "predicted", "roles": ["predicted"], "rounds_ns": slower})

    said = findings(load_results(changed(tmp_path, add)))
    assert any("simulator's choice" in line and "0.900" in line for line in said)


def test_time_is_cycles_over_clock_at_every_size(results: GpuResults):
    found = separations(results)
    assert ("8192 cubed", 8192) in found
    assert any("alone" in what for what, _ in found)
    for one in found.values():
        assert one.time == pytest.approx(one.cycles * one.clock, rel=0.05)  # of medians
    slow = TimedCandidate("ours", "product", (200, 200, 200), (1.0, 1.0, 1.0))
    fast = TimedCandidate("cublaslt", "product", (100, 100, 100), (1.25, 1.25, 1.25))
    assert Separation.of(slow, fast) == Separation(0.5, 0.625, 0.8)


def test_semaphores_that_are_there_cost_what_the_pair_takes_beyond_stream_sync(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        for name, ns in (("stream", 500_000), ("row", 501_000)):
            case = {"name": name, "workload": "ready-pair", "tokens": 1024, "verdict": {"is_good": True}}
            document["cases"].append({**case, "rounds_ns": [ns] * 20})

    found = load_results(changed(tmp_path, add))
    assert ready_costs(found)["row"].value == pytest.approx(1.002)
    assert "takes +0.20 % with row semaphores" in " ".join(docs_text(found).split())


def test_a_primitive_costs_what_its_loop_takes_beyond_the_empty_one(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        for name, ns in (("empty loop", 20_000), ("wait", 520_000)):
            case = {"name": name, "workload": "primitive", "operations": 1000, "blocks": 132, "verdict": None}
            document["cases"].append({**case, "rounds_ns": [ns] * 3, "clocks_ghz": [2.0] * 3})

    found = load_results(changed(tmp_path, add))
    (one,) = primitive_costs(found)
    assert (one.name, one.blocks, one.ns, one.cycles) == ("wait", 132, 500, 1000)
    assert "| wait | 132 | 500 | 500 to 500 | 1000 |" in docs_text(found)


def test_the_cycles_of_a_product_are_split_into_parts_that_add_up():
    gemm = gpt3_mlp(1792).stage("gemm1").gemm
    ideal = 2 * 1792 * 6144 * 12288 / 4096 / 132  # cycles of 132 SMs that do nothing but multiply
    raw = {
        "name": "ours",
        "workload": "product",
        "rounds_ns": (1_000_000,),
        "clocks_ghz": (0.6,),
        "stage": gemm.name,
        "product_of": "gpt3-mlp",
        "tokens": 1792,
        "words": {"way": "hopper 128x256 grouped:8"},
    }
    library = TimedCandidate(**{**raw, "name": "cublaslt", "rounds_ns": (900_000,)})
    results = replace(load_results(SAMPLE), cases=(TimedCandidate(**raw), library))
    (one,) = product_cycles(results).values()
    assert one.multiply == pytest.approx(ideal / 1000)
    assert one.wave == pytest.approx((3 - 336 / 132) * 2 * 128 * 256 * 12288 / 4096 / 1000)  # 336 tiles
    assert (one.outside, one.total, one.library) == (pytest.approx(0, abs=1e-9), 600.0, pytest.approx(540.0))
    assert sum(shares(one).values()) == pytest.approx(1)
    by_stream_k = TimedCandidate(**{**raw, "words": {"way": "hopper-stream-k 128x256 grouped:8"}})
    (other,) = product_cycles(replace(results, cases=(by_stream_k, library))).values()
    assert (other.wave, other.rest) == (0, pytest.approx(one.rest + one.wave))
