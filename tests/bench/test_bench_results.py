"""What is computed from GPU results: ratios, intervals and limits against numbers worked out by hand."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from sample_results import SAMPLE, changed

from wavesim.bench.gpu_results import GpuResults, load_results
from wavesim.bench.results_page import docs_text
from wavesim.bench.results_text import measured_how
from wavesim.bench.semaphore_costs import (
    best_ways,
    copy_overheads,
    primitive_costs,
    ratio_of_medians,
    ready_costs,
)
from wavesim.bench.speedups import Limits


@pytest.fixture
def results() -> GpuResults:
    return load_results(SAMPLE)


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
    assert "as it leaves" in docs_text(results)


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
    interval = f"{best.low95:+.1f} to {best.upper95:+.1f}"
    assert f"| tile on one stream | 128 | {best.percent:+.1f} | {interval} |" in docs_text(found)


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
