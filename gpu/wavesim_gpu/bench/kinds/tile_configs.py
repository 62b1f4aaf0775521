"""The pairs that are measured, with a tile shape and a split of their own for each stage.

Example: at 1,024 tokens GPT-3's first product is best in 128x192 tiles and its second in 128x256; one tile
for both would lose 20 % on one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from wavesim.model.dependency import gemm_rows
from wavesim.model.kernel import Gemm
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.workloads.gpt3 import gpt3_mlp
from wavesim.workloads.llama import llama_mlp

Workload = Literal["gpt3-mlp", "llama-mlp"]
MAKERS = {"gpt3-mlp": gpt3_mlp, "llama-mlp": llama_mlp}


@dataclass(frozen=True, order=True)
class TileConfig:
    """How one product is cut: the tile and the split-K slices."""

    tile_m: int
    tile_n: int
    split_k: int = 1

    def __str__(self) -> str:
        return f"{self.tile_m}x{self.tile_n}" + (f"/{self.split_k}" if self.split_k > 1 else "")

    def applied(self, gemm: Gemm, tile_k: int) -> Gemm:
        """The same product, cut like this, in K chunks of `tile_k`."""
        return replace(gemm, tile_m=self.tile_m, tile_n=self.tile_n, tile_k=tile_k, split_k=self.split_k)


def mlp_pair(workload: Workload, tokens: int, cuts: tuple[TileConfig, TileConfig], tile_k: int) -> Pipeline:
    """The workload's two dependent products; `tile_k` is the kernels' K chunk."""
    plain = MAKERS[workload](tokens)
    first, second = (
        Stage(stage.name, cut.applied(stage.gemm, tile_k))
        for stage, cut in zip(plain.stages, cuts, strict=True)
    )
    return Pipeline(workload, [first, second], [gemm_rows(first, second)])


def single(gemm: Gemm, cut: TileConfig, tile_k: int) -> Pipeline:
    """One product alone."""
    return Pipeline(gemm.name, [Stage(gemm.name, cut.applied(gemm, tile_k))])


def products_of(workload: Workload, tokens: int) -> Mapping[str, Gemm]:
    """The workload's products by stage name, in its default cut."""
    return {stage.name: stage.gemm for stage in MAKERS[workload](tokens).stages}


def weight_bytes(pipeline: Pipeline) -> int:
    """Bytes of all weights: what a small batch cannot avoid to read."""
    return sum(2 * stage.gemm.k * stage.gemm.n for stage in pipeline.stages)
