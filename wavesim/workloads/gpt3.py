"""GPT-3 145B's MLP under 8-way model parallelism: X (M, 12288) x W1 -> GeLU -> x W2 -> (M, 12288).

Picture: the second GEMM's tile (x, y) reads the whole tile row y of what the first makes, so a
row of semaphores is enough to let it start before the first kernel's last wave has ended.
Source: cuSync paper, II-B and Figure 2a.
"""

from dataclasses import replace
from typing import Literal

from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Block, Gemm
from wavesim.model.pipeline import Pipeline, Stage

HIDDEN = 12_288
FEED_FORWARD = 6_144  # 4 x 12288 / 8 GPUs

# What a block of our portable GEMM occupies, as its compiler reports.
TILES: dict[tuple[int, int], Block] = {
    (128, 256): Block(256, 254, static_shared_bytes=128, dynamic_shared_bytes=98_304),
    (256, 128): Block(256, 254, static_shared_bytes=128, dynamic_shared_bytes=98_304),
    (128, 128): Block(128, 254, static_shared_bytes=128, dynamic_shared_bytes=65_536),
}


def gpt3_mlp(
    tokens: int,
    tile: tuple[int, int] = (128, 256),
    *,
    split_k: tuple[int, int] = (1, 1),
    dtype: Literal["fp16", "bf16"] = "fp16",
) -> Pipeline:
    """The pair of dependent GEMMs for `tokens` rows; `tile` is (tile_m, tile_n) of both."""
    block = TILES.get(tile, TILES[(128, 256)])
    up = Gemm("gemm1", tokens, FEED_FORWARD, HIDDEN, *tile, split_k=split_k[0], dtype=dtype, block=block)
    down = Gemm("gemm2", tokens, HIDDEN, FEED_FORWARD, *tile, split_k=split_k[1], dtype=dtype, block=block)
    first, second = Stage("gemm1", replace(up, activation="gelu")), Stage("gemm2", down)
    parameters: dict[str, int | str] = {"tokens": tokens, "tile": f"{tile[0]}x{tile[1]}"}
    return Pipeline("gpt3-mlp", [first, second], [gemm_rows(first, second)], parameters)
