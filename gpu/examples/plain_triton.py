"""Two plain Triton kernels, one after the other: hidden = x w1, y = hidden w2, all fp16, row-major.

Example: the matrix product of Triton's tutorial, launched twice. Sizes are multiples of the tile's. The
kernel is written twice, as the two kernels of a pair usually differ: so the difference to
`synchronised_triton.py` shows what changes in a first kernel, and what in a second.
"""

import torch
import triton
import triton.language as tl

M, K, N1, N2 = 1536, 8192, 4096, 6144
TILE = {"tile_m": 128, "tile_n": 256, "tile_k": 64}
HOW = {"num_warps": 8, "num_stages": 3}


@triton.jit
def up(
    a_ptr,
    b_ptr,
    c_ptr,
    n,
    k,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
):
    """C (m, n) = A (m, k) B (k, n), one program per tile."""
    x, y = tl.program_id(0) % (n // tile_n), tl.program_id(0) // (n // tile_n)
    rows, columns = y * tile_m + tl.arange(0, tile_m), x * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    a, b = a_ptr + rows[:, None] * k + depth[None, :], b_ptr + depth[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for i in range(0, k, tile_k):
        total = tl.dot(tl.load(a + i), tl.load(b + i * n), total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def down(
    a_ptr,
    b_ptr,
    c_ptr,
    n,
    k,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
):
    """The same: its A is what `up` stores."""
    x, y = tl.program_id(0) % (n // tile_n), tl.program_id(0) // (n // tile_n)
    rows, columns = y * tile_m + tl.arange(0, tile_m), x * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    a, b = a_ptr + rows[:, None] * k + depth[None, :], b_ptr + depth[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for i in range(0, k, tile_k):
        total = tl.dot(tl.load(a + i), tl.load(b + i * n), total)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total.to(tl.float16))


def run(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, hidden: torch.Tensor, out: torch.Tensor) -> None:
    """Enqueues both."""
    up[(M // 128 * (N1 // 256),)](x, w1, hidden, N1, K, **TILE, **HOW)
    down[(M // 128 * (N2 // 256),)](hidden, w2, out, N2, N1, **TILE, **HOW)
