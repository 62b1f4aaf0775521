"""The kernels of the published measurements: CUTLASS GEMMs and convolutions, with the figures that the
simulator needs.

Example: a 256 x 128 tile by 4 warps with 2 stages takes 128 threads of 255 registers and 48 KB of shared
memory; two such blocks fit on an SM of a V100, as in the paper's Table I.

Registers are not published. A thread keeps tile_m * tile_n / threads fp32 accumulators and, as CUTLASS's
kernels do, about `OTHER_REGISTERS` more: an estimate. Source: cuSync's repository, mlp.cu and resnet.cu.
"""

from dataclasses import dataclass

from wavesim.model.dependency import Dependency, gemm_rows, x, y
from wavesim.model.kernel import Block, Gemm, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.policy import CustomPolicy, Policy

OTHER_REGISTERS, MOST_REGISTERS = 90, 255
SIZES = {"gpt3": ((6_144, 12_288), (12_288, 6_144)), "llama": ((5_632, 8_192), (8_192, 2_816))}  # (n, k)
FILTER_TAPS = 9


@dataclass(frozen=True)
class KernelChoice:
    """CUTLASS's parameters of one GEMM: a block's and a warp's tile, pipeline depth, split-K."""

    tile_m: int
    tile_n: int
    tile_k: int
    warp_m: int
    warp_n: int
    warp_k: int
    stages: int
    split_k: int

    @property
    def block(self) -> Block:
        """What a block takes of an SM."""
        warps = (self.tile_m // self.warp_m) * (self.tile_n // self.warp_n) * (self.tile_k // self.warp_k)
        accumulators = self.tile_m * self.tile_n // (32 * warps)
        return Block(
            threads=32 * warps,
            registers=min(MOST_REGISTERS, accumulators + OTHER_REGISTERS),
            dynamic_shared_bytes=self.stages * 2 * self.tile_k * (self.tile_m + self.tile_n),
        )


def mlp_pair(model: str, tokens: int, first: KernelChoice, second: KernelChoice) -> Pipeline:
    """The GEMMs of GPT-3's or LLaMA's MLP; LLaMA's second reads gate column j and value column j together."""
    up, down = (
        Stage(
            name,
            Gemm(
                name, tokens, n, k, kernel.tile_m, kernel.tile_n, split_k=kernel.split_k, block=kernel.block
            ),
        )
        for name, (n, k), kernel in zip(("gemm1", "gemm2"), SIZES[model], (first, second), strict=True)
    )
    half = up.grid.x // 2
    is_glu = model == "llama"
    needs = Dependency(down[x, y], [up[:half, y], up[half:, y]]) if is_glu else gemm_rows(up, down)
    return Pipeline(f"{model}-mlp", [up, down], [needs])


def conv_pair(channels: int, pixels: int, first: KernelChoice, second: KernelChoice) -> Pipeline:
    """Two 3 x 3 convolutions of as many channels in and out, as implicit GEMMs of pixels x channels.

    The second waits for its own tile row only, without the halo, as published.
    """
    one, two = (
        Stage(
            name,
            Kernel(
                name,
                Grid(-(-channels // kernel.tile_n), -(-pixels // kernel.tile_m), kernel.split_k),
                kernel.block,
                flops_per_block=2 * kernel.tile_m * kernel.tile_n * FILTER_TAPS * channels // kernel.split_k,
            ),
        )
        for name, kernel in (("conv1", first), ("conv2", second))
    )
    return Pipeline("resnet-conv", [one, two], [Dependency(two[x, y], [one[:, y]])])


def llama_tile_policy() -> Policy:
    """The repository's tile policy for LLaMA: a gate tile and its value tile share a semaphore."""
    return CustomPolicy(
        "tile",
        lambda column, row, grid: row * (grid.x // 2) + column % (grid.x // 2),
        lambda _column, _row, _grid: 2,
    )
