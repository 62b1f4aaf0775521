"""One way of ours to compute an MLP: a plan, a tile order, and each product's tiles.

Example: `MlpCandidate.read("persistent+pdl+row grouped:8 128x256 192x192/2")` is row semaphores on persistent
kernels that start by dependent launch, the second product in tiles of 192x192 and two splits of K.
"""

import re
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.safe_io.bounds import bounded_text
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.products import ProductTile
from wavesim.work.gemm.reads import gemm_rows
from wavesim_gpu.kernels.backends import backend_named, require_runs
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import Hopper
from wavesim_gpu.layers.description import MlpShape

IN_TURN = "persistent+pdl+boundary"  # a kernel after the other, launched early
ONE_WAVE = "pdl+boundary"  # the same, a block per tile
ROWS = "persistent+pdl+row"  # two kernels, row semaphores
FUSED = "persistent"  # one kernel for both products, row semaphores
_CUT = re.compile(r"(\d{1,4})x(\d{1,4})(?:/(\d{1,3}))?", re.ASCII)


@dataclass(frozen=True)
class MlpCandidate:
    """Words of a plan and of an order, and the cuts of both products, for one backend."""

    plan_word: str
    order_word: str
    cuts: tuple[ProductTile, ProductTile]
    backend: str = Hopper.name

    def __str__(self) -> str:
        return " ".join((self.backend, self.plan_word, self.order_word, *map(str, self.cuts)))

    @staticmethod
    def read(text: str) -> "MlpCandidate":
        """What `str` of one gives. Raises `DescriptionError`."""
        words = bounded_text("candidate", text).split()
        cuts = [_CUT.fullmatch(word) for word in words[3:]]
        if len(words) != 5 or not all(cuts):
            raise DescriptionError(
                f"candidate is {text!r}; write backend, plan, order and two cuts, such as "
                "'hopper persistent+pdl+row grouped:8 128x256 192x192/2'"
            )
        first, second = (ProductTile(*(int(number or 1) for number in cut.groups())) for cut in cuts if cut)
        candidate = MlpCandidate(words[1], words[2], (first, second), backend_named(words[0]).name)
        candidate.plan()
        return candidate

    def plan(self) -> Plan:
        """The plan, in its order. Raises `DescriptionError` for words that are none."""
        return parse_plan(self.plan_word, self.order_word)

    def pipeline(self, shape: MlpShape) -> Pipeline:
        """The two products. Raises `DescriptionError` for cuts that they cannot have."""
        depth = min(k for m, n, k in backend_named(self.backend).tiles if (m, n) == self._tile(0))
        gated = shape.gate is not None
        first = Gemm(
            "gemm1",
            shape.m,
            shape.products,
            shape.k,
            *self._tile(0),
            depth,
            self.cuts[0].split_k,
            shape.dtype,
            shape.activation,
            gates="halves" if gated else "interleaved",
            b_order=shape.w1_order,
            has_bias=shape.has_b1,
            carveout="full",
        )
        second = Gemm(
            "gemm2",
            shape.m,
            shape.n2,
            shape.n1,
            *self._tile(1),
            depth,
            self.cuts[1].split_k,
            shape.dtype,
            b_order=shape.w2_order,
            has_bias=shape.has_b2,
            carveout="full",
        )
        stages = [Stage("gemm1", first, self.backend), Stage("gemm2", second, self.backend)]
        return Pipeline("mlp", stages, [gemm_rows(*stages)])

    def planned(self, shape: MlpShape) -> tuple[Pipeline, Plan]:
        """Pipeline and plan. Raises `DescriptionError` if the backend does not run them."""
        pipeline, plan = self.pipeline(shape), self.plan()
        require_runs(pipeline, plan)
        return pipeline, plan

    def _tile(self, stage: int) -> tuple[int, int]:
        tile = self.cuts[stage].tile_m, self.cuts[stage].tile_n
        if tile not in {(m, n) for m, n, _ in backend_named(self.backend).tiles}:
            raise DescriptionError(f"backend {self.backend!r} has no tile of {tile[0]}x{tile[1]}")
        return tile
