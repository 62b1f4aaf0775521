"""Sums up the newest benchmark results: no GPU, no CuPy.

Picture: the JSON that a benchmark wrote on an H200 last week becomes a handful of ratios on a laptop today,
unless the kernels have changed since: then it says so and the command exits 2.
"""

import json
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from wavesim.errors import RecordingError
from wavesim_gpu.compiler import source_hash

MAX_BYTES = 64 << 20
LARGE_TOKENS = 1024


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
    result = _read(path)
    if result["kernel_sources"] != source_hash():
        raise StaleResultsError(
            f"{path}: measured with kernel sources {result['kernel_sources']}; they are {source_hash()} now. "
            "Run `python -m wavesim_gpu bench` again"
        )
    cases = [case for case in result["cases"] if case["verdict"] is None or case["verdict"]["is_good"]]
    wrong = len(result["cases"]) - len(cases)
    summary = {
        "file": path.name,
        "device": result["device"]["name"],
        "date": result["date"],
        "commit": result["commit"],
    }
    return (
        summary
        | {"wrong_results": wrong}
        | _gemm_figures(cases)
        | _mlp_figures(cases)
        | _recording_figures(cases)
    )


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_BYTES:
        raise RecordingError(f"{path}: {path.stat().st_size} bytes; at most {MAX_BYTES} are read")
    try:
        result = json.loads(path.read_text())
    except ValueError as error:
        raise RecordingError(f"{path}: not JSON: {error}") from None
    for name in ("device", "date", "commit", "kernel_sources", "cases"):
        if not isinstance(result, dict) or name not in result:
            raise RecordingError(f"{path}: field {name!r} is missing; the file is not a benchmark result")
    return result


def _medians(
    cases: list[dict[str, Any]], workload: str, *key: str
) -> dict[tuple[Any, ...], dict[str, float]]:
    """{key values: {case name: median nanoseconds}} of one workload."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for case in cases:
        if case["workload"] == workload:
            found.setdefault(tuple(case[name] for name in key), {})[case["name"]] = median(case["rounds_ns"])
    return found


def _gemm_figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Our GEMM's best tile against cuBLAS, and the rate of each tile."""
    ratios = {"large": [], "small": []}  # type: dict[str, list[float]]
    rates: dict[str, float] = {}
    for (tokens, flops), times in _medians(cases, "gemm", "tokens", "flops").items():
        ours = {name: time for name, time in times.items() if name != "cublas"}
        ratios["large" if tokens >= LARGE_TOKENS else "small"].append(times["cublas"] / min(ours.values()))
        for name, time in ours.items():
            rates[name] = max(rates.get(name, 0.0), flops / time / 1000)
    figures: dict[str, Any] = {
        f"gemm_vs_cublas_{size}_min": min(values) for size, values in ratios.items() if values
    }
    return figures | {"gemm_tflops_max": {name: round(rate, 1) for name, rate in rates.items()}}


def _mlp_figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """GPT-3's MLP: tile-level synchronisation against stream sync and cuBLAS."""
    same_tile, best, cublas = [], {}, []  # type: list[float], dict[int, dict[str, float]], list[float]
    for (tokens, _), times in _medians(cases, "gpt3-mlp", "tokens", "tile").items():
        streams = [time for name, time in times.items() if name.endswith("stream")]
        semaphores = [time for name, time in times.items() if name.endswith(("row", "tile"))]
        same_tile.append(min(streams) / min(semaphores))
        own = best.setdefault(
            tokens, {"stream": float("inf"), "semaphores": float("inf"), "cublas": times["cublas"]}
        )
        own["stream"], own["semaphores"] = min(own["stream"], *streams), min(own["semaphores"], *semaphores)
    if not best:
        return {}
    cublas = [own["cublas"] / min(own["stream"], own["semaphores"]) for own in best.values()]
    against_stream = [own["stream"] / own["semaphores"] for own in best.values()]
    return {
        "gpt3_vs_cublas_geomean": geometric_mean(cublas),
        "gpt3_vs_cublas_min": min(cublas),
        "gpt3_vs_cublas_max": max(cublas),
        "gpt3_same_tile_vs_stream_max": max(same_tile),
        "gpt3_vs_stream_max": max(against_stream),
        "gpt3_vs_stream_min": min(against_stream),
    }


def _recording_figures(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """What recording costs, in percent of the unrecorded time."""
    pairs = _medians(cases, "recording", "tile")
    return {
        "recording_overhead_percent": {
            tile: 100 * (t["recorded"] / t["timed"] - 1) for (tile,), t in pairs.items()
        }
    }
