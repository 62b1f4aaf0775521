"""What semaphores cost our own kernels where nothing ever has to wait: fetching a tile, polling, posting.

Example: three GEMMs in a chain run one after the other, under stream sync and under row semaphores that are
ready when they are looked at. A block of the first fetches and posts, one of the last fetches and polls, one
of the middle does all three: what each takes longer under semaphores tells the three apart.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.hopper import BLOCKS, TILE_K
from wavesim.workloads.mlps import gemm_block
from wavesim_gpu.characterise.bench import MicroBench
from wavesim_gpu.characterise.readings import MeasuredConstant
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.sm80.gemm import Portable
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import HOPPER_CAPABILITY, Hopper
from wavesim_gpu.run.planned_kernels import compile_ahead
from wavesim_gpu.run.program import Program
from wavesim_gpu.run.runner import CupyRunner
from wavesim_gpu.run.timing import Contender, run_in_turn

TILE, COLUMNS, REPLAYS, WARM_UPS = (128, 256), 4, 25, 5
PLACES = 8  # in memory, one after the other: where operands lie moves a block's time by more than its noise
SIDE = COLUMNS * TILE[1]  # n and k of each product: short tiles, of which semaphores are a larger part
PLANS = {"stream": StreamSync(), "row": SemaphoreSync(RowSync(), wait_kernel=False)}


def measure(bench: MicroBench) -> dict[str, Any]:
    """Raw results: per backend and plan, the stages' median block by place of the operands, in ns."""
    kernels = {Portable.name: (gemm_block(TILE), Gemm.tile_k)}
    if bench.device.compute_capability == HOPPER_CAPABILITY:
        kernels[Hopper.name] = (BLOCKS[TILE], TILE_K)
    return {name: _blocks_ns(bench, name, *how) for name, how in kernels.items()}


def constants(raw: dict[str, Any]) -> list[MeasuredConstant]:
    """Fetch, poll and post of each backend's blocks, one per tile."""
    result = []
    for name, plans in raw.items():
        first, middle, last = (np.asarray(plans["row"]) - np.asarray(plans["stream"])).T
        whole = (
            f"chain of three {name} GEMMs of 1 wave, semaphores always ready, against stream sync: blocks of"
        )
        for key, added, who in (
            ("tile_fetch_ns", first + last - middle, "the first and last, less the middle's"),
            ("poll_ns", middle - first, "the middle, less the first's"),
            ("post_ns", middle - last, "the middle, less the last's"),
        ):
            repeats = [max(0, round(float(entry))) for entry in added]
            result.append(MeasuredConstant(f"backends.{name}.tile.{key}", repeats, f"{whole} {who}"))
    return result


def _blocks_ns(bench: MicroBench, backend: str, block: Block, tile_k: int) -> dict[str, list[list[float]]]:
    runner = CupyRunner(commit="", backend=backend)
    pipeline = chain(bench.sms, block, tile_k)
    compile_ahead(pipeline, PLANS.values(), [Build(is_recording=True)], backend_named(backend).name)
    kept, times_ns = [], [_at_one_place(runner, pipeline)]
    for place in range(1, PLACES):
        kept.append(bench.zeros(place << 22, np.uint8))  # the next operands lie elsewhere
        times_ns.append(_at_one_place(runner, pipeline))
    return {name: [times_n[name] for times_n in times_ns] for name in PLANS}


def _at_one_place(runner: CupyRunner, pipeline: Pipeline) -> dict[str, list[float]]:
    """By plan, the stages' median block, median over replays in turns."""
    operands = runner.operands(pipeline)
    programs = {name: _one_after_another(runner, operands, plan) for name, plan in PLANS.items()}
    turns = [Contender(runner.launcher(entry), entry.streams[0]) for entry in programs.values()]
    seen: dict[str, list[list[float]]] = {name: [] for name in PLANS}
    for replay in range(-WARM_UPS, REPLAYS):
        run_in_turn(turns)
        for name, program in programs.items():
            program.synchronize()
            if replay >= 0:
                seen[name].append([_median_ns(program.sync.records(entry)) for entry in program.sync.names])
    return {name: np.median(rows, axis=0).tolist() for name, rows in seen.items()}


def chain(sms: int, block: Block, tile_k: int) -> Pipeline:
    """Three equal products of at least a tile per SM, each reading the rows of the one before."""
    m = -(-sms // COLUMNS) * TILE[0]
    gemms = [
        Gemm(name, m, SIDE, SIDE, *TILE, tile_k, block=block, carveout="full")
        for name in ("gemm1", "gemm2", "gemm3")
    ]
    stages = [Stage(gemm.name, gemm) for gemm in gemms]
    needs = [gemm_rows(first, second) for first, second in pairwise(stages)]
    return Pipeline("ready-waits", stages, needs)


def _one_after_another(runner: CupyRunner, operands: Any, plan: Plan) -> Program:
    """The plan's kernels on one stream, semaphores and all: nothing ever has to wait."""
    program = runner.program(operands, plan, Build(is_recording=True))
    program.launches = tuple(replace(launch, stream=0) for launch in program.launches)
    return program


def _median_ns(records: Any) -> float:
    """The median block's cycles at the median block's clock: finer than the timer's step."""
    cycles = (records["end_cycles"] - records["start_cycles"]).astype(float)
    ns = (records["end_ns"] - records["start_ns"]).astype(float)
    return float(np.median(cycles) * np.sum(ns) / np.sum(cycles))
