"""GPT-3 145B's MLP under 8-way model parallelism: X (M, 12288) x W1 -> GeLU -> x W2 -> (M, 12288).

Picture: the second GEMM's tile (x, y) reads the whole tile row y of what the first makes, so a
row of semaphores is enough to let it start before the first kernel's last wave has ended.
Source: cuSync paper, II-B and Figure 2a.
"""

from typing import Literal

from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Block, Gemm
from wavesim.model.pipeline import Pipeline, Stage

HIDDEN = 12_288
FEED_FORWARD = 6_144  # 4 x 12288 / 8 GPUs

# What our portable GEMM's blocks occupy, as the compiler reports it: threads, registers, dynamic shared bytes.
TILES: dict[tuple[int, int], Block] = {
    (128, 256): Block(256, 232, dynamic_shared_bytes=98_304),
    (256, 128): Block(256, 232, dynamic_shared_bytes=98_304),
    (128, 128): Block(128, 232, dynamic_shared_bytes=65_536),
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
    shapes = (("gemm1", FEED_FORWARD, HIDDEN, "gelu"), ("gemm2", HIDDEN, FEED_FORWARD, None))
    first, second = (
        Stage(name, Gemm(name, tokens, n, k, *tile, split_k=slices, dtype=dtype, activation=activation, block=block))
        for (name, n, k, activation), slices in zip(shapes, split_k, strict=True)
    )
    parameters = {"tokens": tokens, "tile": f"{tile[0]}x{tile[1]}"}
    return Pipeline("gpt3-mlp", [first, second], [gemm_rows(first, second)], parameters)
