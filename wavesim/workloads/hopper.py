"""The same products on our Hopper kernels: other k-blocks, other thread blocks, one per SM.

Example: GPT-3's MLP in 128x256 tiles runs in blocks of 384 threads (one warpgroup of producer and epilogue
warps, two MMA warpgroups) with 225 KB of shared memory; portable blocks have 256 threads and 96 KB. Grids
and dependencies are the same.
"""

from dataclasses import replace

from wavesim.errors import DescriptionError
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.mlps import gpt3_mlp, llama_mlp

TILE_K = 64
Tile = tuple[int, int]
# (tile_m, tile_n) -> threads, registers per thread, dynamic shared memory; as the kernels are compiled.
BLOCKS: dict[Tile, Block] = {
    (128, 256): Block(384, 168, 0, 4 * (128 + 256) * 128 + 4 * 8192 + 1024),
    (256, 128): Block(384, 168, 0, 4 * (256 + 128) * 128 + 4 * 8192 + 1024),
    (192, 192): Block(512, 128, 0, 4 * (192 + 192) * 128 + 3 * 8192 + 1024),
}
# (tile_m, tile_n) -> MMA warpgroups, pipeline depth, epilogue buffers of a warpgroup.
_CONFIGS: dict[Tile, tuple[int, int, int]] = {
    (128, 256): (2, 4, 2),
    (128, 240): (2, 4, 2),
    (128, 224): (2, 4, 2),
    (128, 208): (2, 4, 2),
    (128, 192): (2, 5, 1),
    (128, 176): (2, 5, 1),
    (128, 128): (2, 6, 2),
    (256, 128): (2, 4, 2),
    (192, 192): (3, 4, 1),
    (192, 128): (3, 5, 1),
    (64, 256): (1, 5, 2),
    (64, 192): (1, 6, 2),
    (64, 128): (1, 6, 2),
    (64, 64): (1, 8, 2),
}
TILES: tuple[Tile, ...] = tuple(_CONFIGS)  # of all that the kernels are compiled for
PANEL = 64  # columns of a swizzled piece of shared memory
_CONVOLUTION_CONFIGS: dict[Tile, tuple[int, int, int]] = {
    (256, 64): (2, 4, 2),
    (128, 64): (2, 8, 2),
    **{tile: config for tile, config in _CONFIGS.items() if tile[1] % PANEL == 0},
}
CONVOLUTION_TILES: tuple[Tile, ...] = tuple(_CONVOLUTION_CONFIGS)
REGISTERS_PER_SM, MOST_REGISTERS = 65_536, 248


def block_of(tile: Tile, *, is_convolution: bool = False) -> Block:
    """What a block of the Hopper GEMM, or convolution, occupies, whatever tile it has: an SM to itself.

    Registers are at most as many as leave room for one block. Raises `DescriptionError` for other tiles.
    """
    configs = _CONVOLUTION_CONFIGS if is_convolution else _CONFIGS
    if tile not in configs:
        known = ", ".join(f"{m}x{n}" for m, n in configs)
        raise DescriptionError(f"tile is {tile[0]}x{tile[1]}; the Hopper kernels have {known}")
    warpgroups, depth, buffers = configs[tile]
    threads = 128 * (1 + warpgroups)
    loaded = tile[0] + -(-tile[1] // PANEL) * PANEL
    shared = depth * loaded * 2 * TILE_K + warpgroups * buffers * PANEL * 128 + 1024
    return Block(threads, min(REGISTERS_PER_SM // threads // 8 * 8, MOST_REGISTERS), 0, shared)


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
