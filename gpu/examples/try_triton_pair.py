"""Two Triton kernels to try: plain, and the second beside the first by dependent launch with row semaphores.

Example: `python -m wavesim_gpu try-pair gpu/examples/try_triton_pair.py --html pair.html` times both kernels
alone, predicts, runs and checks both forms, interleaved, and sets predicted beside measured.
"""

import plain_triton as plain
import synchronised_triton as synchronised
import torch

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm

M, K, N1, N2, TILE, HOW = plain.M, plain.K, plain.N1, plain.N2, plain.TILE, plain.HOW
# What a block occupies: threads, registers per thread, shared memory (three stages of both operands).
SHARED = HOW["num_stages"] * TILE["tile_k"] * (TILE["tile_m"] + TILE["tile_n"]) * 2
BLOCK = Block(HOW["num_warps"] * 32, 255, dynamic_shared_bytes=SHARED)
first = Stage("up", Gemm("up", M, N1, K, *TILE.values(), block=BLOCK))
second = Stage("down", Gemm("down", M, N2, N1, *TILE.values(), block=BLOCK))
description = Pipeline("triton-pair", [first, second], [Dependency(second[x, y], [first[:, y]])])

torch.manual_seed(0)
a, w1, w2 = (
    torch.randn(shape, dtype=torch.float16, device="cuda") / shape[0] ** 0.5
    for shape in ((M, K), (K, N1), (N1, N2))
)
hidden, out = (torch.empty((M, n), dtype=torch.float16, device="cuda") for n in (N1, N2))


def producer() -> None:
    """Enqueues the first kernel."""
    plain.up[(M // TILE["tile_m"] * (N1 // TILE["tile_n"]),)](a, w1, hidden, N1, K, **TILE, **HOW)


def consumer() -> None:
    """Enqueues the second."""
    plain.down[(M // TILE["tile_m"] * (N2 // TILE["tile_n"]),)](hidden, w2, out, N2, N1, **TILE, **HOW)


def both() -> None:
    """Enqueues the synchronised pair."""
    synchronised.run(a, w1, w2, hidden, out)


plans = {"pdl+row grouped:4": both}


def clear() -> None:
    """Spoils what the kernels write."""
    for written in (hidden, out):
        written.fill_(float("nan"))


def check() -> bool:
    """Whether the result is that of torch, to the rounding of fp16."""
    synchronised.pair.check()
    right = (a.float() @ w1.float()).half().float() @ w2.float()
    return bool((out.float() - right).norm() < 0.01 * right.norm())
