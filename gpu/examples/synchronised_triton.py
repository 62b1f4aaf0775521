"""The same two Triton kernels, the second beside the first: its tiles wait for the tile rows that they read.

Example: six lines of the kernels change, and the launches go through `Synchronised`.
"""

import torch
import triton
import triton.language as tl

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim_gpu.triton import Synchronised

M, K, N1, N2 = 1536, 8192, 4096, 6144
TILE = {"tile_m": 128, "tile_n": 256, "tile_k": 64}
HOW = {"num_warps": 8, "num_stages": 3}

first = Stage("up", Gemm("up", M, N1, K, *TILE.values()))
second = Stage("down", Gemm("down", M, N2, N1, *TILE.values()))
mlp = Pipeline("mlp", [first, second], [Dependency(second[x, y], [first[:, y]])])
pair = Synchronised(mlp, parse_plan("pdl+row", "grouped:4"))
tiles = pair.functions


@triton.jit
def up(
    a_ptr,
    b_ptr,
    c_ptr,
    n,
    k,
    sync,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
):
    """C (m, n) = A (m, k) B (k, n), one program per tile."""
    x, y = tiles.up_tile(sync)
    rows, columns = y * tile_m + tl.arange(0, tile_m), x * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    a, b = a_ptr + rows[:, None] * k + depth[None, :], b_ptr + depth[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for i in range(0, k, tile_k):
        total = tl.dot(tl.load(a + i), tl.load(b + i * n), total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(tl.float16))
    tiles.up_post(sync, x, y)


@triton.jit
def down(
    a_ptr,
    b_ptr,
    c_ptr,
    n,
    k,
    sync,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
):
    """The same: its A is what `up` stores."""
    x, y, late = tiles.down_tile_when_ready(sync)
    rows, columns = y * tile_m + tl.arange(0, tile_m), x * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    a, b = a_ptr + rows[:, None] * k + depth[None, :], b_ptr + depth[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for i in range(0, k, tile_k):
        total = tl.dot(tl.load(a + i), tl.load(b + i * n), total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], (total + late).to(tl.float16))


def run(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, hidden: torch.Tensor, out: torch.Tensor) -> None:
    """Enqueues both."""
    pair.run(
        lambda sync, **how: up[(M // 128 * (N1 // 256),)](x, w1, hidden, N1, K, sync, **TILE, **HOW, **how),
        lambda sync, **how: down[(M // 128 * (N2 // 256),)](
            hidden, w2, out, N2, N1, sync, **TILE, **HOW, **how
        ),
    )
