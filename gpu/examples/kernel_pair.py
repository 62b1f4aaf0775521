"""Runs a kernel pair that was not written for tile-level synchronisation: plain, then synchronised.

Example: describe the two grids and who reads what, pick a plan, compile with the header that is generated for
both, check that the plan cannot deadlock, hand each kernel the parameter that `SyncState` makes for it, and
let `Launches` reset the semaphores, launch and check that no wait gave up. That is the whole host side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.codegen.cuda import generate
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan
from wavesim.safety.deadlock import safety_of
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.run.launches import Launches
from wavesim_gpu.run.program import wait_launch

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


@dataclass(frozen=True)
class PairLaunch:
    """One kernel of the pair, with the 16 x 16 threads that it was written for."""

    function: Any
    blocks: int
    arguments: tuple[Any, ...]
    stream: int

    def enqueue(self, streams: Sequence[Any]) -> None:
        """Launches it."""
        self.function((self.blocks, 1, 1), (TILE, TILE, 1), self.arguments, 0, streams[self.stream])


def run_synchronised(a: Any, b: Any, plan: Plan) -> Any:
    """The same pair under a plan, from semaphores that are reset. Shapes as for `run_plain`.

    Raises `DescriptionError` for a plan under which waiting blocks could fill the GPU, or that the pair can't
    run; `DeadlockError` for a wait that ran out of time: there is no output then.
    """
    cupy = require_cupy()
    (m, k), n = a.shape, b.shape[1]
    pipeline, header = describe(m, n), generate(describe(m, n), plan, query(), "pair", sizes="runtime")
    functions = [
        load_function(HERE / "synchronised_pair.cu", stage.name, Build(), header=header)
        for stage in pipeline.stages
    ]
    require_safe(describe(m, n, [function.block(TILE * TILE, 0) for function in functions]), plan)
    c, out = cupy.full((m, n), np.nan, np.float32), cupy.full((m, n), np.nan, np.float32)
    sync = SyncState(pipeline, plan)
    arguments = [(a, b, c, np.int32(n), np.int32(k)), (c, out, np.int32(n))]
    launches = launches_of(sync, [function.function for function in functions], arguments)
    # Resets the semaphores before the first launch, and has nobody wait for launches that did not get out.
    run = Launches(sync, launches, 2 if plan.launch.is_multi_stream else 1)
    run.enqueue()
    run.synchronize()  # says so if a wait ran out of time
    return out


def launches_of(sync: SyncState, functions: Sequence[Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What one run launches, in order: each kernel, and before the consumer the wait-kernel of the plan."""
    launches: list[Any] = []
    for number, stage in enumerate(sync.pipeline.stages):
        stream = number if sync.plan.launch.is_multi_stream else 0
        if sync.plan.launch.wait_kernel and sync.pipeline.dependency_of(stage.name) is not None:
            # The consumer's blocks are issued once the producer's are, and cannot keep them from starting.
            launches.append(wait_launch(sync, stage.name, stream, Build()))
        own = (sync.params(stage.name), *arguments[number])
        launches.append(PairLaunch(functions[number], stage.grid.size, own, stream))
    return launches


def require_safe(pipeline: Pipeline, plan: Plan) -> None:
    """Raises `DescriptionError` for a plan that can deadlock here, or that the pair's kernels cannot run."""
    if plan.schedule.fetches_tiles or any(plan.turn_of(pipeline, i).is_early for i in (0, 1)):
        raise DescriptionError(
            f"{plan.label}: the pair's blocks compute one tile each, on streams of their own or one after "
            "another. Use a plan such as SemaphoreSync() or StreamSync()"
        )
    verdict = safety_of(pipeline, plan, query(), carveout="full")
    if not verdict.is_safe:
        raise DescriptionError(f"{plan.label}: {verdict.reason}. Use wait_kernel=True")
