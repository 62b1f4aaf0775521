"""Two CUDA C++ kernels to try: plain, and on two streams with row semaphores, with the generated header.

Example: `python -m wavesim_gpu try-pair gpu/examples/try_cuda_pair.py` runs `plain_pair.cu` and
`synchronised_pair.cu`, each compiled once, and sets predicted beside measured.
"""

import cupy
import kernel_pair
import numpy as np

from wavesim.codegen.cuda import generate
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.cusync.sync_state import SyncState
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query
from wavesim_gpu.driver.functions import load_function
from wavesim_gpu.run.launches import Launches

M, N, K = 2304, 1024, 2048
TILE, THREADS = kernel_pair.TILE, (kernel_pair.TILE, kernel_pair.TILE, 1)
NAMES = ("matmul", "normalise_rows")
plan = parse_plan("row")

generator = cupy.random.default_rng(0)
a, b = (generator.standard_normal(shape, dtype=cupy.float32) for shape in ((M, K), (K, N)))
c, out = (cupy.empty((M, N), cupy.float32) for _ in range(2))
arguments = (a, b, c, np.int32(N), np.int32(K)), (c, out, np.int32(N))
grids = (N // TILE, M // TILE, 1), (1, M // TILE, 1)
plain = [load_function(kernel_pair.HERE / "plain_pair.cu", name, Build()) for name in NAMES]
description = kernel_pair.describe(M, N, [function.block(TILE * TILE, 0) for function in plain])

header = generate(description, plan, query(), "pair", sizes="runtime")
waiting = [
    load_function(kernel_pair.HERE / "synchronised_pair.cu", name, Build(), header=header) for name in NAMES
]
kernel_pair.require_safe(
    kernel_pair.describe(M, N, [function.block(TILE * TILE, 0) for function in waiting]), plan
)
sync = SyncState(description, plan)
launches = kernel_pair.launches_of(sync, [function.function for function in waiting], arguments)
run = Launches(sync, launches, stream_count=2)


def producer() -> None:
    """Enqueues the first kernel on the current stream."""
    plain[0].function(grids[0], THREADS, arguments[0])


def consumer() -> None:
    """Enqueues the second."""
    plain[1].function(grids[1], THREADS, arguments[1])


def both() -> None:
    """Enqueues the synchronised pair on its two streams, between what is before and behind it on this one."""
    current = cupy.cuda.get_current_stream()
    run.streams[0].wait_event(current.record())
    run.enqueue()
    current.wait_event(run.streams[0].record())


plans = {"row": both}


def clear() -> None:
    """Spoils what the kernels write."""
    for written in (c, out):
        written.fill(cupy.nan)


def check() -> bool:
    """Whether each row is the squared product's, over its sum."""
    run.synchronize()  # raises DeadlockError for a wait that gave up
    squares = (a @ b) ** 2
    right = squares / squares.sum(axis=1, keepdims=True)
    return bool(cupy.linalg.norm(out - right) < 1e-3 * cupy.linalg.norm(right))
