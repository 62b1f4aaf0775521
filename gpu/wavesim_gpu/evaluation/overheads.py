"""What a run costs beside its tiles: measured on kernels that have next to no work of their own.

Example: two dependent GEMMs of one K chunk each. Timed on one stream they take 18 us, of which their
blocks take 4: 14 us are setup. On two streams with semaphores it is 22, so 8 us more are the fork. The
simulator's overheads (wavesim/costs/devices) come from here, never from the runs that it is scored on.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from wavesim.guard.writing import write_text
from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.trace.trace import Trace
from wavesim.workloads.gpt3 import gemm_block, gpt3_mlp
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.program import Program
from wavesim_gpu.record.stamps import tile_cycles
from wavesim_gpu.runner import CupyRunner
from wavesim_gpu.runtime.compiler import Build
from wavesim_gpu.runtime.device import query, versions
from wavesim_gpu.runtime.kernel_sources import source_hash
from wavesim_gpu.runtime.operands import Operands
from wavesim_gpu.runtime.timing import Contender, interleaved_ns, run_in_turn

RESULTS = Path(__file__).parents[2] / "results" / "overheads"
READY_TOKENS = 1408  # not among the recorded sizes
SHAPES = ((1, 1), (8, 16))  # tile rows x columns of both GEMMs: one block, and nearly one wave of an H200


def write_overheads(out: Path | None = None, commit: str | None = None) -> tuple[Path, list[str]]:
    """Measures, writes one JSON file into `out` and returns its path and the medians in words."""
    runner = CupyRunner(commit=commit)
    entries, ready = measure_overheads(runner), measure_ready_waits(runner)
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
        "versions": versions(),
        "commit": runner.commit,
        "kernel_sources": source_hash(backend_named(runner.backend).source),
        "entries": entries,
        "ready_waits": ready,
    }
    folder = RESULTS if out is None else out
    path = folder / f"{str(result['date']).replace(':', '').replace('+0000', 'Z')}.json"
    write_text(path, json.dumps(result, indent=1))
    lines = [f"{e['tile']} {e['rows_x_columns']}: {e['median']}" for e in entries]
    lines += [f"{r['tile']} ready: {r['block_cycles']} {r['pair_ns']}" for r in ready]
    return path, lines


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
    first = Stage("gemm1", Gemm("gemm1", m, n, 32, *tile, block=gemm_block(tile)))
    second = Stage("gemm2", Gemm("gemm2", m, n, n, *tile, block=gemm_block(tile)))
    return Pipeline("overheads", [first, second], [gemm_rows(first, second)])


def _once(runner: CupyRunner, pipeline: Pipeline, rounds: int, seed: int) -> dict[str, float]:
    stream, row = runner.measure(pipeline, [StreamSync(), SemaphoreSync(RowSync())], rounds=rounds, seed=seed)
    setup = stream.time_ns - stream.makespan_ns
    return {
        "setup_ns": setup,
        "multi_stream_ns": row.time_ns - row.makespan_ns - setup,
        "boundary_ns": float(
            stream.start_ns[stream.stage == 1].min() - stream.end_ns[stream.stage == 0].max()
        ),
        "post_visibility_ns": _post_visibility_ns(row),
        "post_ns": _median_length(row, 0) - _median_length(stream, 0),
        "stream_time_ns": float(stream.time_ns),
        "row_time_ns": float(row.time_ns),
    }


def _post_visibility_ns(trace: Trace) -> float:
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


def measure_ready_waits(runner: CupyRunner, replays: int = 20, rounds: int = 60) -> list[dict[str, object]]:
    """What looking for semaphores costs a kernel that never has to wait: both stages on one stream.

    Per tile and plan: the median block's SM cycles of each stage, and the interleaved times of the pair in
    ns. Nothing overlaps, so every difference from stream sync is the code that draws, looks and posts.
    """
    return [_ready_waits(runner, tile, replays, rounds) for tile in ((128, 256), (128, 128))]


def _ready_waits(runner: CupyRunner, tile: tuple[int, int], replays: int, rounds: int) -> dict[str, object]:
    operands = runner.operands(gpt3_mlp(READY_TOKENS, tile))
    policies = {"row": RowSync(), "tile": TileSync()}
    plans = {"stream": StreamSync()} | {
        name: SemaphoreSync(policy, wait_kernel=False) for name, policy in policies.items()
    }
    recorded = {name: _serial(runner, operands, plan, is_recording=True) for name, plan in plans.items()}
    plain = [_serial(runner, operands, plan, is_recording=False) for plan in plans.values()]
    contenders = [Contender(runner.launcher(program), program.streams[0]) for program in plain]
    times = dict(zip(plans, interleaved_ns(contenders, rounds), strict=True))
    turn = [Contender(runner.launcher(program), program.streams[0]) for program in recorded.values()]
    cycles: dict[str, list[list[float]]] = {name: [] for name in plans}
    for _ in range(replays):
        run_in_turn([*contenders, *turn])
        for name, program in recorded.items():
            program.synchronize()
            stages = (tile_cycles(program.sync.records(stage)) for stage in program.sync.names)
            cycles[name].append([float(np.median(stage)) for stage in stages])
    return {
        "tile": f"{tile[0]}x{tile[1]}",
        "tokens": READY_TOKENS,
        "block_cycles": {name: list(np.median(found, axis=0)) for name, found in cycles.items()},
        "pair_ns": {name: statistics.median(own) for name, own in times.items()},
        "rounds_ns": times,
    }


def _serial(runner: CupyRunner, operands: Operands, plan: Plan, *, is_recording: bool) -> Program:
    """The plan's kernels one after the other on one stream, semaphores and all."""
    program = runner.program(operands, plan, Build(is_recording=is_recording))
    program.launches = tuple(replace(launch, stream=0) for launch in program.launches)
    return program


def _entry(
    tile: tuple[int, int], shape: tuple[int, int], found: Sequence[dict[str, float]]
) -> dict[str, object]:
    return {
        "tile": f"{tile[0]}x{tile[1]}",
        "rows_x_columns": list(shape),
        "median": {name: statistics.median(one[name] for one in found) for name in found[0]},
        "each": list(found),
    }
