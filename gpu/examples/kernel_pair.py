"""Runs a kernel pair that was not written for tile-level synchronisation: plain, then synchronised.

Example: describe the two grids and who reads what, pick a plan, compile with the header that is generated for
both, check that the plan cannot deadlock, reset the semaphores, and hand each kernel the parameter that
`SyncState` makes for it. That is the whole host side.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.check.deadlock import safety_of
from wavesim.codegen.cuda import generate
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.program import wait_launch
from wavesim_gpu.runtime.compiler import Build
from wavesim_gpu.runtime.device import query, require_cupy
from wavesim_gpu.runtime.functions import load_function

HERE = Path(__file__).parent
TILE = 16


def describe(m: int, n: int, blocks: Sequence[Block] = (Block(TILE * TILE),) * 2) -> Pipeline:
    """matmul: one block per 16 x 16 tile of c (m, n); normalise_rows: one block per 16 rows.

    `blocks`: what a block of each occupies, which is known when they are compiled.
    """
    first = Stage("matmul", Kernel("matmul", Grid(n // TILE, m // TILE), blocks[0]))
    second = Stage("normalise_rows", Kernel("normalise_rows", Grid(1, m // TILE), blocks[1]))
    return Pipeline("kernel-pair", [first, second], [Dependency(second[x, y], [first[:, y]])])


def run_plain(a: Any, b: Any) -> Any:
    """The pair as it was written: two launches on one stream. a (m, k), b (k, n), float32, CuPy."""
    cupy = require_cupy()
    (m, k), n = a.shape, b.shape[1]
    c, out = cupy.full((m, n), np.nan, np.float32), cupy.full((m, n), np.nan, np.float32)
    first, second = (
        load_function(HERE / "plain_pair.cu", name, Build()) for name in ("matmul", "normalise_rows")
    )
    threads = (TILE, TILE, 1)
    first.function((n // TILE, m // TILE, 1), threads, (a, b, c, np.int32(n), np.int32(k)))
    second.function((1, m // TILE, 1), threads, (c, out, np.int32(n)))
    return out


def run_synchronised(a: Any, b: Any, plan: Plan) -> Any:
    """The same pair under a plan, each kernel on a stream of its own, from semaphores that are reset.

    Raises `DescriptionError` for a plan under which waiting blocks could fill the GPU, `DeadlockError` for a
    wait that ran out of time.
    """
    cupy = require_cupy()
    (m, k), n = a.shape, b.shape[1]
    c, out = cupy.full((m, n), np.nan, np.float32), cupy.full((m, n), np.nan, np.float32)
    pipeline = describe(m, n)
    header = generate(pipeline, plan, query(), "pair", sizes="runtime")
    functions = [
        load_function(HERE / "synchronised_pair.cu", stage.name, Build(), header=header)
        for stage in pipeline.stages
    ]
    blocks = [function.block(TILE * TILE, 0) for function in functions]
    verdict = safety_of(describe(m, n, blocks), plan, query())
    if not verdict.is_safe:
        raise DescriptionError(f"{plan.label}: {verdict.reason}. Use wait_kernel=True")
    sync = SyncState(pipeline, plan)
    arguments = [(a, b, c, np.int32(n), np.int32(k)), (c, out, np.int32(n))]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    cupy.cuda.Device().synchronize()  # tables and inputs are made on the default stream
    # Before either kernel: a semaphore that another run has left would let a tile through.
    sync.reset(streams[0])
    streams[1].wait_event(streams[0].record())
    for number, (stage, function) in enumerate(zip(pipeline.stages, functions, strict=True)):
        if plan.launch.wait_kernel and pipeline.dependency_of(stage.name) is not None:
            # The consumer's blocks are issued once the producer's are, and cannot keep them from starting.
            wait_launch(sync, stage.name, number, Build()).enqueue(streams)
        own = (sync.params(stage.name), *arguments[number])
        function.function((stage.grid.size, 1, 1), (TILE, TILE, 1), own, 0, streams[number])
    for stream in streams:
        stream.synchronize()
    sync.check()
    return out
