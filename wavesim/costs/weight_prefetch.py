"""Weights that a block can load before its first wait: as many as fit into its shared memory.

Example: a V100 block with two stages of 32 of K holds 64 of its 2,048 of K, four fifths of the bytes being
weights: 2.5 % of a time that is all loading. That is 5 us of 188, which a spinning block would have lost.
Only of kernels that are bound by memory: where arithmetic takes longer, loading hides behind it anyway.
"""

from wavesim.model.device import Device
from wavesim.model.kernel import Gemm

ELEMENT_BYTES = 2


def is_memory_bound(gemm: Gemm, device: Device) -> bool:
    """Whether the device moves a GEMM's operands and results more slowly than it computes them."""
    moved = ELEMENT_BYTES * (gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.columns)
    return moved / device.dram_bytes_per_s > gemm.flops / device.tensor_flops_per_s


def prefetch_share(gemm: Gemm, device: Device) -> float:
    """The share of a block's work, 0 to 1, that is loading what weights it has room for; 0 if compute-bound.

    Room is the block's shared memory, filled with equal depths of K of both operands.
    """
    if not is_memory_bound(gemm, device):
        return 0.0
    depth = gemm.block.shared_bytes / (ELEMENT_BYTES * (gemm.tile_m + gemm.tile_n))
    of_weights = gemm.tile_n / (gemm.tile_m + gemm.tile_n)
    return min(1.0, depth * gemm.split_k / gemm.k) * of_weights
