"""What a run costs beside its tiles: measured on kernels that have next to no work of their own.

Picture: two dependent GEMMs of one K chunk each. Timed on one stream they take 18 us, of which their
blocks take 4: 14 us are setup. On two streams with semaphores it is 22, so 8 us more are the fork. The
simulator's `OVERHEADS` come from here, never from the runs that it is judged on.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline, Stage
from wavesim.model.plan import SemaphoreSync, StreamSync
from wavesim.model.policy import RowSync
from wavesim.trace import Trace
from wavesim.workloads.gpt3 import TILES
from wavesim_gpu.compiler import source_hash
from wavesim_gpu.device import query, versions
from wavesim_gpu.runner import CupyRunner

RESULTS = Path(__file__).parents[1] / "results" / "overheads"
SHAPES = ((1, 1), (8, 16))  # tile rows x columns of both GEMMs: one block, and nearly one wave of an H200


def write_overheads(out: Path | None = None, commit: str | None = None) -> tuple[Path, list[str]]:
    """Measures, writes one JSON file into `out` and returns its path and the medians in words."""
    runner = CupyRunner(commit=commit)
    entries = measure_overheads(runner)
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": versions(),
        "commit": runner.commit,
        "kernel_sources": source_hash(),
        "entries": entries,
    }
    folder = RESULTS if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{str(result['date']).replace(':', '').replace('+0000', 'Z')}.json"
    path.write_text(json.dumps(result, indent=1))
    return path, [f"{e['tile']} {e['rows_x_columns']}: {e['median']}" for e in entries]


def measure_overheads(runner: CupyRunner, rounds: int = 400, repeats: int = 5) -> list[dict[str, object]]:
    """One entry per tile and shape: medians over `repeats` measurements, and each of them, in ns."""
    return [
        _entry(tile, shape, [_once(runner, _pipeline(tile, *shape), rounds, seed) for seed in range(repeats)])
        for tile in ((128, 256), (128, 128))
        for shape in SHAPES
    ]


def _pipeline(tile: tuple[int, int], rows: int, columns: int) -> Pipeline:
    """Two GEMMs of rows x columns tiles; the first has one K chunk."""
    m, n = rows * tile[0], columns * tile[1]
    first = Stage("gemm1", Gemm("gemm1", m, n, 32, *tile, block=TILES[tile]))
    second = Stage("gemm2", Gemm("gemm2", m, n, n, *tile, block=TILES[tile]))
    return Pipeline("overheads", [first, second], [gemm_rows(first, second)])


def _once(runner: CupyRunner, pipeline: Pipeline, rounds: int, seed: int) -> dict[str, float]:
    stream, row = runner.measure(pipeline, [StreamSync(), SemaphoreSync(RowSync())], rounds=rounds, seed=seed)
    setup = stream.time_ns - stream.makespan_ns
    return {
        "setup_ns": setup,
        "fork_ns": row.time_ns - row.makespan_ns - setup,
        "boundary_ns": float(
            stream.start_ns[stream.stage == 1].min() - stream.end_ns[stream.stage == 0].max()
        ),
        "signal_ns": _signal_ns(row),
        "post_ns": _median_length(row, 0) - _median_length(stream, 0),
        "stream_time_ns": float(stream.time_ns),
        "row_time_ns": float(row.time_ns),
    }


def _signal_ns(trace: Trace) -> float:
    """From the end of a row's last producer tile to its spinning consumers' going on, median over blocks."""
    is_producer = trace.stage == 0
    lags = []
    for y in np.unique(trace.y):
        posted = trace.end_ns[is_producer & (trace.y == y)].max()
        waiters = (trace.stage == 1) & (trace.y == y) & (trace.wait_ns > 0)
        lags += list(trace.start_ns[waiters] + trace.wait_ns[waiters] - posted)
    return float(np.median(lags)) if lags else float("nan")


def _median_length(trace: Trace, stage: int) -> float:
    rows = trace.stage == stage
    return float(np.median((trace.end_ns - trace.start_ns - trace.wait_ns)[rows]))


def _entry(
    tile: tuple[int, int], shape: tuple[int, int], found: Sequence[dict[str, float]]
) -> dict[str, object]:
    return {
        "tile": f"{tile[0]}x{tile[1]}",
        "rows_x_columns": list(shape),
        "median": {name: statistics.median(one[name] for one in found) for name in found[0]},
        "each": list(found),
    }
