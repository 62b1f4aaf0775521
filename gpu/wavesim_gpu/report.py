"""Sums up the newest benchmark results: no GPU, no CuPy.

Picture: the JSON that a benchmark wrote on an H200 last week becomes a handful of ratios on a laptop today,
unless the kernels have changed since: then it says so and the command exits 2.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import geometric_mean, median, stdev
from typing import Any

from wavesim.errors import RecordingError
from wavesim_gpu.compiler import source_hash
from wavesim_gpu.kernels.families import family_named

MAX_BYTES = 64 << 20
LARGE, SMALL = range(1024, 1 << 30), range(256, 1024)  # tokens
PAIR_LABELS = {"gpt3-mlp": "gpt3", "llama-mlp": "llama"}
Times = Mapping[str, float]  # median ns by name
UPPER_95 = 1.96


class StaleResultsError(RecordingError):
    """The kernel sources have changed since the results were measured."""


def newest(folder: Path) -> Path:
    """The newest results file. Raises `RecordingError` if there is none."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise RecordingError(f"{folder}: no results; run `python -m wavesim_gpu bench` on a GPU")
    return files[-1]


def sum_up(folder: Path) -> dict[str, Any]:
    """Ratios and gains of the newest results. `a_vs_b` is the time of b over that of a.

    Raises `StaleResultsError` if the kernels differ from the measured ones, `RecordingError` for a damaged
    file.
    """
    path = newest(folder)
    result = read_results(path)
    current = source_hash(family_named(result["kernels"]).source)
    if result["kernel_sources"] != current:
        raise StaleResultsError(
            f"{path}: measured with {result['kernels']} kernel sources {result['kernel_sources']}; they are "
            f"{current} now. Run `python -m wavesim_gpu bench` again"
        )
    summary = {
        "file": path.name,
        "device": result["device"]["name"],
        "date": result["date"],
        "commit": result["commit"],
        "kernels": result["kernels"],
    }
    try:
        return summary | _figures(result["cases"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordingError(
            f"{path}: a case is damaged ({type(error).__name__}: {error}); measure again or restore the file"
        ) from None


def read_results(path: Path) -> dict[str, Any]:
    """One results file. Raises `RecordingError` for one that is too large, not JSON, or of another kind."""
    if path.stat().st_size > MAX_BYTES:
        raise RecordingError(f"{path}: {path.stat().st_size} bytes; at most {MAX_BYTES} are read")
    try:
        result = json.loads(path.read_text())
    except ValueError as error:
        raise RecordingError(f"{path}: not JSON: {error}") from None
    for name in ("device", "date", "commit", "kernels", "kernel_sources", "cases"):
        if not isinstance(result, dict) or name not in result:
            raise RecordingError(f"{path}: field {name!r} is missing; the file is not a benchmark result")
    if not isinstance(result["device"], dict) or "name" not in result["device"]:
        raise RecordingError(f"{path}: field 'device.name' is missing; the file is not a benchmark result")
    if not isinstance(result["kernels"], str):
        raise RecordingError(f"{path}: field 'kernels' is {result['kernels']!r}; it must be a family's name")
    return result


def good_cases(cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with right results, screening left out."""
    return [
        case
        for case in cases
        if (case["verdict"] is None or case["verdict"]["is_good"]) and case.get("is_final", True)
    ]


def medians(cases: Iterable[dict[str, Any]], workload: str, *key: str) -> dict[tuple[Any, ...], Times]:
    """{key values: {case name: median ns}} of one workload."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for case in cases:
        if case["workload"] == workload and case["rounds_ns"]:
            found.setdefault(tuple(case[name] for name in key), {})[case["name"]] = median(case["rounds_ns"])
    return found


def pair_times(cases: Iterable[dict[str, Any]], workload: str) -> dict[int, Times]:
    """{tokens: {name: median ns}}, also by the roles that screening gave: "tuned", "cusync"."""
    cases = [case for case in cases if case["workload"] == workload]
    found = {tokens: dict(times) for (tokens,), times in medians(cases, workload, "tokens").items()}
    for case in cases:
        for role in case.get("roles", ()):
            found[case["tokens"]][role] = median(case["rounds_ns"])
    return found


def _figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    good = good_cases(cases)
    wrong = sum(case["verdict"] is not None and not case["verdict"]["is_good"] for case in cases)
    figures: dict[str, Any] = {"wrong_results": wrong} | _limits(good) | _product_figures(good)
    for workload, label in PAIR_LABELS.items():
        figures |= _pair_figures(pair_times(good, workload), label)
    return figures | _small_figures(good) | _copy_figures(good) | _recording_figures(good)


def _limits(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The sustained rates of the run."""
    figures = {}
    for case in cases:
        if case["workload"] == "limit":
            amount, name = (
                (case["flops"], "matmul_tflops") if "flops" in case else (case["bytes"], "copy_gbs")
            )
            figures[name] = round(amount / median(case["rounds_ns"]) / (1000 if "flops" in case else 1), 1)
    return figures


def _product_figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Our GEMM's best cut against cuBLASLt."""
    ratios: dict[str, list[float]] = {"large": [], "small": []}
    for times in medians(cases, "cube", "m").values():
        ratios["large"] += _speeds(times)
    for (tokens, *_), times in medians(cases, "product", "tokens", "of", "stage").items():
        for size, sizes in (("large", LARGE), ("small", SMALL)):
            if tokens in sizes:
                ratios[size] += _speeds(times)
    return {f"gemm_vs_cublas_{size}_min": round(min(found), 4) for size, found in ratios.items() if found}


def _speeds(times: Times) -> list[float]:
    """Our speed over cuBLASLt's; nothing where one of them was wrong."""
    return [times["cublaslt"] / times["ours"]] if {"cublaslt", "ours"} <= times.keys() else []


def _pair_figures(by_tokens: Mapping[int, Times], label: str) -> dict[str, Any]:
    """The tuned plan against everything else, from M = 256."""
    tuned = {tokens: times for tokens, times in by_tokens.items() if tokens >= SMALL.start}
    figures: dict[str, Any] = {}
    for ours, theirs, name in (
        ("tuned", "cublaslt", "cublas"),
        ("tuned", "torch", "torch"),
        ("tuned", "stream", "stream"),
        ("tuned", "pdl", "pdl"),
        ("tuned", "stream-k", "streamk"),
        ("tuned", "persistent", "persistent"),
    ):
        ratios = [times[theirs] / times[ours] for times in tuned.values() if {ours, theirs} <= times.keys()]
        if ratios:
            figures |= {
                f"{label}_vs_{name}_geomean": round(geometric_mean(ratios), 4),
                f"{label}_vs_{name}_min": round(min(ratios), 4),
                f"{label}_vs_{name}_max": round(max(ratios), 4),
            }
    same = [
        t["same-cut stream"] / t["same-cut"]
        for t in tuned.values()
        if {"same-cut", "same-cut stream"} <= t.keys()
    ]
    if same:
        figures[f"{label}_same_tile_vs_stream_max"] = round(max(same), 4)
    streamk = [
        t["cublaslt"] / t["stream-k"]
        for m, t in tuned.items()
        if m in LARGE and {"stream-k", "cublaslt"} <= t.keys()
    ]
    if streamk:
        prefix = "" if label == "gpt3" else f"{label}_"
        figures[f"{prefix}streamk_vs_cublas_min"] = round(min(streamk), 4)
    return figures


def _small_figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Batches of at most 128: our best time over that of reading the weights at the copy's bandwidth."""
    copies = [case for case in cases if case["workload"] == "limit" and "bytes" in case]
    if not copies:
        return {}
    bytes_per_ns = copies[0]["bytes"] / median(copies[0]["rounds_ns"])
    worst = []
    for workload in PAIR_LABELS:
        weights = {c["tokens"]: c["weight_bytes"] for c in cases if c["workload"] == workload}
        for tokens, times in pair_times(cases, workload).items():
            if tokens < SMALL.start:
                ours = min(time for name, time in times.items() if name not in ("cublaslt", "torch"))
                worst.append(ours * bytes_per_ns / weights[tokens])
    return {"small_m_time_over_limit_max": round(max(worst), 4)} if worst else {}


def _copy_figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """What semaphores cost copies: upper end of the mean's 95 % interval over paired rounds, worst size."""
    found: dict[int, dict[str, list[int]]] = {}
    for case in cases:
        if case["workload"] == "copy-pair":
            found.setdefault(case["threads"], {})[case["name"]] = case["rounds_ns"]
    figures: dict[str, Any] = {}
    for name, key in (
        ("ready", "copy_overhead_percent_upper95"),
        ("tile", "copy_two_streams_percent_upper95"),
    ):
        bounds = {
            threads: round(_upper_percent(times["stream"], times[name]), 2)
            for threads, times in found.items()
            if {"stream", name} <= times.keys()
        }
        if bounds:
            figures |= {key: max(bounds.values()), f"{key}_by_threads": bounds}
    return figures


def _upper_percent(plain: list[int], synchronised: list[int]) -> float:
    """Rounds are paired: both ran next to each other."""
    percents = [100 * (ours / theirs - 1) for theirs, ours in zip(plain, synchronised, strict=True)]
    return sum(percents) / len(percents) + UPPER_95 * stdev(percents) / len(percents) ** 0.5


def _recording_figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """What recording costs, in percent of the unrecorded time."""
    pairs = medians(cases, "recording", "tile")
    if not pairs:
        return {}
    return {
        "recording_overhead_percent": {
            tile: round(100 * (t["recorded"] / t["timed"] - 1), 2) for (tile,), t in pairs.items()
        }
    }
