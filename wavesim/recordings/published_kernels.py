"""The kernels of the published measurements: CUTLASS GEMMs and convolutions, with the figures that the
simulator needs.

Example: a 256 x 128 tile by 4 warps with 2 stages takes 128 threads of 255 registers and 48 KB of shared
memory; two such blocks fit on an SM of a V100, as in the paper's Table I.

Registers are not published. A thread keeps tile_m * tile_n / threads fp32 accumulators and, as CUTLASS's
kernels do, about `OTHER_REGISTERS` more: an estimate. Source: cuSync's repository, mlp.cu and resnet.cu.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel, MainLoop
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.policy import CustomPolicy, Policy
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows, rows_read

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

    @property
    def main_loop(self) -> MainLoop:
        """A thread looks at the semaphore, and all warps meet it at the block's barrier."""
        return MainLoop(self.stages, "block-barrier", is_persistent=False)


def mlp_pair(model: str, tokens: int, first: KernelChoice, second: KernelChoice) -> Pipeline:
    """The GEMMs of GPT-3's or LLaMA's MLP; LLaMA's second reads gate column j and value column j together.

    Tile heights may differ: the second then reads the rows that overlap its own.
    """
    up, down = (
        Stage(
            name,
            Gemm(
                name,
                tokens,
                n,
                k,
                kernel.tile_m,
                kernel.tile_n,
                split_k=kernel.split_k,
                block=kernel.block,
                carveout="full",
            ),
            main_loop=kernel.main_loop,
        )
        for name, (n, k), kernel in zip(("gemm1", "gemm2"), SIZES[model], (first, second), strict=True)
    )
    half, rows = up.grid.x // 2, rows_read(up, down)
    is_glu = model == "llama"
    needs = Dependency(down[x, y], [up[:half, rows], up[half:, rows]]) if is_glu else gemm_rows(up, down)
    return Pipeline(f"{model}-mlp", [up, down], [needs])


def conv_chain(
    model: str, channels: int, pixels: int, kernels: Sequence[KernelChoice], *, is_tile: bool = False
) -> Pipeline:
    """3 x 3 convolutions one after the other, as implicit GEMMs of pixels x channels; as many channels in and
    out.

    As published: each waits for its own tile row only, without the halo. Under tile semaphores (`is_tile`)
    every split-K slice waits for the channel tiles that its own length of K would reach from the first
    channel on, whichever channels it reads. It checks the first twice, before it loads the k-block ahead of
    the loop and in the first iteration, and a row only there. Source: cuSync's repository, policies.h,
    `Conv2DTileSync`, and implicit_cusyncgemm_pipelined.h.
    """
    stages = [
        Stage(
            name,
            Kernel(
                name,
                Grid(-(-channels // kernel.tile_n), -(-pixels // kernel.tile_m), kernel.split_k),
                kernel.block,
                flops_per_block=2 * kernel.tile_m * kernel.tile_n * FILTER_TAPS * channels // kernel.split_k,
                carveout="full",
            ),
            main_loop=replace(kernel.main_loop, first_checks=2) if is_tile else kernel.main_loop,
        )
        for name, kernel in ((f"conv{place}", kernel) for place, kernel in enumerate(kernels, start=1))
    ]
    needs = []
    for (first, two), kernel in zip(pairwise(stages), kernels[1:], strict=True):
        awaited = -(-channels // (kernel.split_k * kernel.tile_n)) if is_tile else first.grid.x
        needs.append(Dependency(two[x, y], [first[:awaited, y]]))
    return Pipeline(f"{model}-conv", stages, needs)


def llama_tile_policy() -> Policy:
    """The repository's tile policy for LLaMA: a gate tile and its value tile share a semaphore."""
    return CustomPolicy(
        "tile",
        lambda column, row, grid: row * (grid.x // 2) + column % (grid.x // 2),
        lambda _column, _row, _grid: 2,
    )
