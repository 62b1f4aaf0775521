"""MLPs of the cuSync paper under 8-way model parallelism: GPT-3 145B's with GeLU, LLaMA 65B's with SwiGLU.

Example: of GPT-3's, X (M, 12288) x W1 -> GeLU -> x W2 -> (M, 12288), the second GEMM's tile (x, y) reads the
whole tile row y of what the first makes, so a row of semaphores is enough to let it start before the first
kernel's last wave has ended. LLaMA's first GEMM computes gate and value columns side by side; its epilogue
keeps their SwiGLU product (M, 2816); in the paper's variant two GEMMs compute them, and the third has two
producers. LLaMA's feed-forward size is 22016, a GPU's share 2752. The published measurements pad it to 2816 =
22 x 128, and so do we. Source: cuSync paper, II-B, Figures 2a and 3.
"""

from typing import Literal

from wavesim.model.dependency import Dependency
from wavesim.model.index import x, y
from wavesim.model.kernel import Block, MainLoop, require_positive
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Activation, Gemm
from wavesim.work.gemm.reads import gemm_rows

Dtype = Literal["fp16", "bf16"]
Tile = tuple[int, int]
HIDDEN = 12_288
FEED_FORWARD = 6_144  # 4 x 12288 / 8 GPUs
LLAMA_HIDDEN = 8_192
LLAMA_FEED_FORWARD = 2_816  # 22016 / 8 = 2752, padded as published
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
    tokens: int, tile: Tile = (128, 256), *, split_k: tuple[int, int] = (1, 1), dtype: Dtype = "fp16"
) -> Pipeline:
    """The pair of dependent GEMMs for `tokens` rows; `tile` is (tile_m, tile_n) of both."""
    sizes = (FEED_FORWARD, HIDDEN), (HIDDEN, FEED_FORWARD)
    return _pair("gpt3-mlp", tokens, tile, sizes, "gelu", split_k, dtype)


def llama_mlp(
    tokens: int, tile: Tile = (128, 256), *, split_k: tuple[int, int] = (1, 1), dtype: Dtype = "fp16"
) -> Pipeline:
    """Two GEMMs, SwiGLU fused into the first; `tokens` is M, `tile` (tile_m, tile_n) of both."""
    sizes = (2 * LLAMA_FEED_FORWARD, LLAMA_HIDDEN), (LLAMA_HIDDEN, LLAMA_FEED_FORWARD)
    return _pair("llama-mlp", tokens, tile, sizes, "swiglu", split_k, dtype)


def _pair(
    name: str,
    tokens: int,
    tile: Tile,
    sizes: tuple[tuple[int, int], tuple[int, int]],
    activation: Activation,
    split_k: tuple[int, int],
    dtype: Dtype,
) -> Pipeline:
    """Of (n, k) each; the first has the activation."""
    block = gemm_block(tile)
    first, second = (
        _stage(
            Gemm(
                f"gemm{at + 1}",
                tokens,
                *sizes[at],
                *tile,
                split_k=split_k[at],
                dtype=dtype,
                activation=None if at else activation,
                block=block,
                carveout="full",
            )
        )
        for at in (0, 1)
    )
    return Pipeline(name, [first, second], [gemm_rows(first, second)], _parameters(tokens, tile))


def llama_mlp_three_gemms(tokens: int, tile: Tile = (128, 256)) -> Pipeline:
    """The paper's variant: gate X W1 and value X V by separate GEMMs, SwiGLU fused into the third's loads.

    `tokens` is M.
    """
    block = gemm_block(tile)
    gate, value, down = (
        _stage(Gemm(name, tokens, n, k, *tile, block=block, carveout="full"))
        for name, n, k in (
            ("gate", LLAMA_FEED_FORWARD, LLAMA_HIDDEN),
            ("value", LLAMA_FEED_FORWARD, LLAMA_HIDDEN),
            ("down", LLAMA_HIDDEN, LLAMA_FEED_FORWARD),
        )
    )
    dependency = Dependency(down[x, y], [gate[:, y], value[:, y]])
    return Pipeline("llama-mlp-three-gemms", [gate, value, down], [dependency], _parameters(tokens, tile))


def _stage(gemm: Gemm) -> Stage:
    return Stage(gemm.name, gemm, main_loop=OWN_LOOP)


def _parameters(tokens: int, tile: Tile) -> dict[str, int | str]:
    return {"tokens": tokens, "tile": f"{tile[0]}x{tile[1]}"}
