"""The same products on our Hopper kernels: other k-blocks, other thread blocks, one per SM.

Example: GPT-3's MLP in 128x256 tiles runs in blocks of 384 threads (one warpgroup of producer and epilogue
warps, two MMA warpgroups) with 225 KB of shared memory; portable blocks have 256 threads and 96 KB. Grids
and dependencies are the same.
"""

from dataclasses import replace

from wavesim.errors import DescriptionError
from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.workloads.gpt3 import gpt3_mlp
from wavesim.workloads.llama import llama_mlp

TILE_K = 64
Tile = tuple[int, int]
# (tile_m, tile_n) -> threads, registers per thread, dynamic shared memory; as the kernels are compiled.
BLOCKS: dict[Tile, Block] = {
    (128, 256): Block(384, 168, 0, 4 * (128 + 256) * 128 + 4 * 8192 + 1024),
    (256, 128): Block(384, 168, 0, 4 * (256 + 128) * 128 + 4 * 8192 + 1024),
    (192, 192): Block(512, 128, 0, 4 * (192 + 192) * 128 + 3 * 8192 + 1024),
}


def gpt3_mlp_hopper(tokens: int, tile: Tile = (128, 256)) -> Pipeline:
    """`gpt3_mlp` on the Hopper kernels, one block per tile; `tokens` is M."""
    return _on_hopper(gpt3_mlp(tokens, tile), tile)


def llama_mlp_hopper(tokens: int, tile: Tile = (128, 256)) -> Pipeline:
    """`llama_mlp` on the Hopper kernels, one block per tile; `tokens` is M."""
    return _on_hopper(llama_mlp(tokens, tile), tile)


def _on_hopper(plain: Pipeline, tile: Tile) -> Pipeline:
    if tile not in BLOCKS:
        known = ", ".join(f"{m}x{n}" for m, n in BLOCKS)
        raise DescriptionError(f"tile is {tile[0]}x{tile[1]}; described of the Hopper kernels are {known}")
    first, second = (
        replace(stage, work=replace(stage.gemm, tile_k=TILE_K, block=BLOCKS[tile])) for stage in plain.stages
    )
    return Pipeline(f"{plain.name}-hopper", [first, second], [gemm_rows(first, second)], plain.parameters)
