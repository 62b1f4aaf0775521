"""GPT-3 145B's MLP under 8-way model parallelism: X (M, 12288) x W1 -> GeLU -> x W2 -> (M, 12288).

Example: the second GEMM's tile (x, y) reads the whole tile row y of what the first makes, so a
row of semaphores is enough to let it start before the first kernel's last wave has ended.
Source: cuSync paper, II-B and Figure 2a.
"""

from dataclasses import replace
from typing import Literal

from wavesim.model.kernel import Block, MainLoop, require_positive
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows

HIDDEN = 12_288
FEED_FORWARD = 6_144  # 4 x 12288 / 8 GPUs

KERNEL_TILES = ((128, 256), (256, 128), (128, 128))  # what our GPU kernels are compiled for
RING_STAGES, TILE_K = 4, 32
# How our kernels wait: they load the state of their semaphores ahead of need.
OWN_LOOP = MainLoop(RING_STAGES, "prefetched", is_persistent=False)
OTHER_REGISTERS = 126  # per thread, beside the accumulators


def gemm_block(tile: tuple[int, int]) -> Block:
    """What a block of our portable GEMM occupies with tiles of (tile_m, tile_n).

    Equal to what its compiler reports for 128x256, 256x128 and 128x128 tiles, an estimate by the same
    rule for others: a warp per 64x64 outputs, at least four. Raises `DescriptionError` for tiles whose
    accumulators leave a thread too few registers.
    """
    require_positive("tile", tile_m=tile[0], tile_n=tile[1])
    warps = max(4, -(-tile[0] // 64) * -(-tile[1] // 64))
    registers = tile[0] * tile[1] // (32 * warps) + OTHER_REGISTERS
    return Block(
        threads=32 * warps,
        registers=registers,
        static_shared_bytes=128,
        dynamic_shared_bytes=RING_STAGES * 2 * TILE_K * (tile[0] + tile[1]),
    )


def gpt3_mlp(
    tokens: int,
    tile: tuple[int, int] = (128, 256),
    *,
    split_k: tuple[int, int] = (1, 1),
    dtype: Literal["fp16", "bf16"] = "fp16",
) -> Pipeline:
    """The pair of dependent GEMMs for `tokens` rows; `tile` is (tile_m, tile_n) of both."""
    block = gemm_block(tile)
    up = Gemm(
        "gemm1",
        tokens,
        FEED_FORWARD,
        HIDDEN,
        *tile,
        split_k=split_k[0],
        dtype=dtype,
        block=block,
        carveout="full",
    )
    down = Gemm(
        "gemm2",
        tokens,
        HIDDEN,
        FEED_FORWARD,
        *tile,
        split_k=split_k[1],
        dtype=dtype,
        block=block,
        carveout="full",
    )
    first = Stage("gemm1", replace(up, activation="gelu"), main_loop=OWN_LOOP)
    second = Stage("gemm2", down, main_loop=OWN_LOOP)
    parameters: dict[str, int | str] = {"tokens": tokens, "tile": f"{tile[0]}x{tile[1]}"}
    return Pipeline("gpt3-mlp", [first, second], [gemm_rows(first, second)], parameters)
