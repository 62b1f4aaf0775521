"""Sums up the newest benchmark results: no GPU, no CuPy.

Example: the JSON that a benchmark wrote on an H200 last week becomes a handful of ratios on a laptop today,
unless the kernels have changed since: then it says so and the command exits 2.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wavesim.bench.gpu_results import GpuResults, load_results, newest_results
from wavesim.bench.semaphore_costs import best_ways, copy_overheads, primitive_costs, ready_costs
from wavesim.bench.speedups import (
    CUBE,
    LIBRARIES,
    PROMPT,
    Limits,
    Pair,
    Summary,
    cube,
    pairs_of,
    products,
    separations,
    speeds,
)
from wavesim.errors import RecordingError
from wavesim_gpu.bench.timed_sources import has_same_code, timed_hash

LARGE, SMALL = range(1024, 1 << 30), range(PROMPT, 1024)  # tokens
PAIR_LABELS = {"gpt3-mlp": "gpt3", "llama-mlp": "llama"}
RIVALS = {
    "cublas": "cublaslt",
    "torch": "torch",
    "stream": "stream",
    "pdl": "pdl",
    "streamk": "stream-k",
    "streamk_pdl": "stream-k pdl",
    "persistent": "persistent",
}
UNITS = {"": False, "_cycles": True}  # of a figure's name: whether it compares SM cycles, not times
Figures = dict[str, Any]


class StaleResultsError(RecordingError):
    """The sources of what was timed have changed since."""


def sum_up(folder: Path) -> Figures:
    """Ratios and gains of the newest results. `a_vs_b` is the time of b over that of a.

    With `_cycles` at the end of the name, SM cycles instead of time. Raises `StaleResultsError` if the
    kernels differ from the measured ones and are not known to be the same machine code, `RecordingError` for
    a damaged file.
    """
    results = load_results(newest_results(folder))
    current = timed_hash(results.kernels)
    if not has_same_code(folder, results.kernel_sources, current):
        raise StaleResultsError(
            f"{results.path}: measured with {results.kernels} kernel sources {results.kernel_sources}; they "
            f"are {current} now. Run `python -m wavesim_gpu bench` again"
        )
    return {
        "file": results.name,
        "device": results.device,
        "date": results.date,
        "commit": results.commit,
        "kernels": results.kernels,
        "wrong_results": len(results.wrong),
        "wrong": [
            f"{case.workload} {case.tokens or case.threads or ''} {case.name}" for case in results.wrong
        ],
    } | _figures(results)


def _figures(results: GpuResults) -> Figures:
    figures = _limits(results) | _product_figures(results)
    for workload, label in PAIR_LABELS.items():
        figures |= _pair_figures(pairs_of(results, workload), label)
    return figures | _small_figures(results) | _copy_figures(results) | _other_figures(results)


def _limits(results: GpuResults) -> Figures:
    """The sustained rates of the run."""
    if not results.of("limit"):
        return {}
    limits = Limits.of(results)
    return {
        "matmul_tflops": round(limits.flops_per_ns / 1000, 1),
        "copy_gbs": round(limits.bytes_per_ns, 1),
    }


def _product_figures(results: GpuResults) -> Figures:
    """Our GEMM's best cut against cuBLASLt, the worst size; and every size in time, cycles and clock."""
    sizes: list[tuple[int, Pair]] = [(CUBE, cube(results))]
    sizes += [entry for by_tokens in products(results).values() for entry in by_tokens.items()]
    figures: Figures = {}
    for unit, in_cycles in UNITS.items():
        for label, tokens in (("large", LARGE), ("small", SMALL)):
            result = [
                speed.value
                for size, pair in sizes
                for _, speed in speeds({size: pair}, "ours", "cublaslt", in_cycles=in_cycles).values()
                if size in tokens
            ]
            if result:
                figures[f"gemm_vs_cublas_{label}_min{unit}"] = round(min(result), 4)
    apart = {
        f"{what}, M = {tokens}": {name: round(ratio, 4) for name, ratio in asdict(item).items()}
        for (what, tokens), item in separations(results).items()
    }
    return figures | ({"vs_cublas_by_size": apart} if apart else {})


def _pair_figures(pairs: Mapping[int, Pair], label: str) -> Figures:
    """The tuned plan against everything else, from M = 256."""
    prompts = {tokens: cases for tokens, cases in pairs.items() if tokens >= PROMPT}
    large = {tokens: cases for tokens, cases in prompts.items() if tokens in LARGE}
    prefix = "" if label == "gpt3" else f"{label}_"
    figures: Figures = {}
    for unit, in_cycles in UNITS.items():

        def ratios(
            ours: str, theirs: str, sizes: Mapping[int, Pair] = prompts, in_cycles: bool = in_cycles
        ) -> list[float]:
            result = speeds(sizes, ours, theirs, in_cycles=in_cycles)
            return [speed.value for _, speed in result.values()]

        for name, rival in RIVALS.items():
            figures |= _summed(f"{label}_vs_{name}", ratios("tuned", rival), unit)
        figures |= _summed(f"{label}_persistent_vs_cublas", ratios("persistent", "cublaslt"), unit)
        if same := ratios("same-cut", "same-cut stream"):
            figures[f"{label}_same_tile_vs_stream_max{unit}"] = round(max(same), 4)
        if streamk := ratios("stream-k", "cublaslt", large):
            figures[f"{prefix}streamk_vs_cublas_min{unit}"] = round(min(streamk), 4)
    chosen = [speed.value for _, speed in speeds(prompts, "predicted", "tuned").values()]
    return figures | _summed(f"{label}_predicted_vs_tuned", chosen, "")


def _summed(name: str, ratios: Iterable[float], unit: str) -> Figures:
    total = Summary.of(ratios)
    if total is None:
        return {}
    return {
        f"{name}_geomean{unit}": round(total.geomean, 4),
        f"{name}_min{unit}": round(total.worst, 4),
        f"{name}_max{unit}": round(total.best, 4),
    }


def _small_figures(results: GpuResults) -> Figures:
    """Batches of at most 128: the tuned plan's time over that of reading the weights at copy bandwidth."""
    if not results.of("limit"):
        return {}
    bytes_per_ns = Limits.of(results).bytes_per_ns
    ours: list[float] = []
    library: list[float] = []
    for workload in PAIR_LABELS:
        for tokens, cases in pairs_of(results, workload).items():
            tuned = cases.get("tuned")
            if tokens < PROMPT and tuned is not None and tuned.weight_bytes:
                floor = tuned.weight_bytes / bytes_per_ns
                ours.append(tuned.median_ns / floor)
                library += [cases[name].median_ns / floor for name in LIBRARIES[:1] if name in cases]
    figures = {"small_m_time_over_limit_max": ours, "small_m_cublas_time_over_limit_max": library}
    return {name: round(max(result), 4) for name, result in figures.items() if result}


def _copy_figures(results: GpuResults) -> Figures:
    """What semaphores cost copies: the cheapest way for each block size; every way with its interval."""
    overheads = copy_overheads(results)
    best = best_ways(overheads)
    if not best:
        return {}
    return {
        "copy_overhead_percent_upper95": round(max(item.upper95 for item in best.values()), 2),
        "copy_overhead_best_way_by_threads": {
            threads: {
                "way": item.case.name,
                "percent": round(item.percent, 2),
                "upper95": round(item.upper95, 2),
            }
            for threads, item in best.items()
        },
        "copy_overhead_percent_by_way": {
            way: {
                item.threads: [round(value, 2) for value in (item.low95, item.percent, item.upper95)]
                for item in group
            }
            for way, group in overheads.items()
        },
    }


def _other_figures(results: GpuResults) -> Figures:
    """What a primitive costs on its own, in ns; recording, and semaphores that are there, in percent."""
    figures: Figures = {}
    if costs := primitive_costs(results):
        figures["primitive_ns"] = {f"{item.name}, by {item.blocks}": round(item.ns, 1) for item in costs}
    cases = {(case.words.get("tile", ""), case.name): case for case in results.of("recording")}
    recorded = {
        tile: round(100 * (case.median_ns / cases[tile, "timed"].median_ns - 1), 2)
        for (tile, name), case in cases.items()
        if name == "recorded" and (tile, "timed") in cases
    }
    figures |= {"recording_overhead_percent": recorded} if recorded else {}
    paid = {name: round(100 * (ratio.value - 1), 2) for name, ratio in ready_costs(results).items()}
    return figures | ({"ready_semaphores_percent": paid} if paid else {})
