"""Runs a kernel pair that was not written for tile-level synchronisation: plain, then synchronised.

Example: describe the two grids and who reads what, pick a plan, compile with the header that is generated for
both, and hand each kernel the parameter that `SyncState` makes for it. That is the whole host side.
"""

from pathlib import Path
from typing import Any

import numpy as np

from wavesim.codegen.cuda import generate
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.runtime.compiler import Build
from wavesim_gpu.runtime.device import query, require_cupy
from wavesim_gpu.runtime.functions import load_function

HERE = Path(__file__).parent
TILE = 16


def describe(m: int, n: int) -> Pipeline:
    """matmul: one block per 16 x 16 tile of c (m, n); normalise_rows: one block per 16 rows."""
    block = Block(TILE * TILE)
    first = Stage("matmul", Kernel("matmul", Grid(n // TILE, m // TILE), block))
    second = Stage("normalise_rows", Kernel("normalise_rows", Grid(1, m // TILE), block))
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
    """The same pair under a plan, each kernel on a stream of its own."""
    cupy = require_cupy()
    (m, k), n = a.shape, b.shape[1]
    c, out = cupy.full((m, n), np.nan, np.float32), cupy.full((m, n), np.nan, np.float32)
    sync = SyncState(describe(m, n), plan)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    arguments = {"matmul": (a, b, c, np.int32(n), np.int32(k)), "normalise_rows": (c, out, np.int32(n))}
    arguments = {name: (sync.params(name), *own) for name, own in arguments.items()}
    cupy.cuda.Device().synchronize()  # tables and inputs are made on the default stream
    header = generate(sync.pipeline, plan, query(), "pair", sizes="runtime")
    for stage, stream in zip(sync.pipeline.stages, streams, strict=True):
        source = HERE / "synchronised_pair.cu"
        function = load_function(source, stage.name, Build(), header=header).function
        own = arguments[stage.name]
        function((stage.grid.size, 1, 1), (TILE, TILE, 1), own, 0, stream)
    for stream in streams:
        stream.synchronize()
    sync.check()
    return out
