"""LLaMA 65B's MLP under 8-way model parallelism: (Swish(X W1) * X V) W2 with H = 8192.

Example: one GEMM computes gate and value columns side by side, and its epilogue keeps
their SwiGLU product (M, 2816); the second GEMM's tile (x, y) reads that product's whole tile row y. In the
paper's variant two GEMMs compute gate and value, so the third has two producers.

The model's feed-forward size is 22016, a GPU's share 22016 / 8 = 2752. The published
measurements pad it to 2816 = 22 x 128, and so do we.
Source: cuSync paper, II-B and Figure 3.
"""

from typing import Literal

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.gpt3 import OWN_LOOP, gemm_block

HIDDEN = 8_192
FEED_FORWARD = 2_816  # 22016 / 8 = 2752, padded as published

Tile = tuple[int, int]


def llama_mlp(
    tokens: int,
    tile: Tile = (128, 256),
    *,
    split_k: tuple[int, int] = (1, 1),
    dtype: Literal["fp16", "bf16"] = "fp16",
) -> Pipeline:
    """Two GEMMs, SwiGLU fused into the first; `tokens` is M, `tile` (tile_m, tile_n) of both."""
    block = gemm_block(tile)
    up = Gemm(
        "gemm1",
        tokens,
        2 * FEED_FORWARD,
        HIDDEN,
        *tile,
        split_k=split_k[0],
        dtype=dtype,
        activation="swiglu",
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
    first, second = Stage("gemm1", up, main_loop=OWN_LOOP), Stage("gemm2", down, main_loop=OWN_LOOP)
    return Pipeline("llama-mlp", [first, second], [gemm_rows(first, second)], _parameters(tokens, tile))


def llama_mlp_three_gemms(tokens: int, tile: Tile = (128, 256)) -> Pipeline:
    """The paper's variant: gate X W1 and value X V by separate GEMMs, SwiGLU fused into the third's loads.

    `tokens` is M.
    """
    block = gemm_block(tile)
    gate, value = (
        Stage(
            name,
            Gemm(name, tokens, FEED_FORWARD, HIDDEN, *tile, block=block, carveout="full"),
            main_loop=OWN_LOOP,
        )
        for name in ("gate", "value")
    )
    down = Stage(
        "down",
        Gemm("down", tokens, HIDDEN, FEED_FORWARD, *tile, block=block, carveout="full"),
        main_loop=OWN_LOOP,
    )
    dependency = Dependency(down[x, y], [gate[:, y], value[:, y]])
    return Pipeline("llama-mlp-three-gemms", [gate, value, down], [dependency], _parameters(tokens, tile))


def _parameters(tokens: int, tile: Tile) -> dict[str, int | str]:
    return {"tokens": tokens, "tile": f"{tile[0]}x{tile[1]}"}
