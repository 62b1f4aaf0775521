"""The pairs that are measured, with a tile shape and a split of their own for each stage.

Example: at 1,024 tokens GPT-3's first product is best in 128x192 tiles and its second in 128x256; one tile
for both would lose 20 % on one of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from wavesim.bench.stored_kernels import plan_word, stored_names
from wavesim.codegen.policies import GroupedSync, derive_policies
from wavesim.codegen.tile_map import Blocks
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order, RowMajor
from wavesim.plan.parsing import SCHEDULES, parse_plan
from wavesim.plan.plan import Plan
from wavesim.plan.sync import Semaphores
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.reads import gemm_rows
from wavesim.workloads.mlps import gpt3_mlp, llama_mlp
from wavesim_gpu.kernels.backends import backend_named
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import HOPPER_CAPABILITY

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


STREAM = "stream"


@dataclass(frozen=True)
class PlanConfig:
    """A way to schedule, launch and synchronise: its name in the results, the plan, the kernels' backend.

    One that `follows` another kind, of which it differs little, is tried in that one's best variants only.
    """

    name: str
    plan: str
    backend: str
    follows: str = ""

    @property
    def is_joint(self) -> bool:
        """Whether one kernel computes both stages, in tiles of one shape."""
        return plan_named(self.plan, RowMajor()).schedule.is_fused

    @property
    def is_unsplit(self) -> bool:
        """Whether its schedule splits K itself, as Stream-K does, and takes no split."""
        return plan_named(self.plan, RowMajor()).schedule.is_split_persistent

    @property
    def stored(self) -> tuple[str, str]:
        """(kernels, plan) in the results."""
        plan = plan_named(self.plan, RowMajor())
        return stored_names(self.backend, plan)[0], plan_word(plan)

    def under(self, policy: str) -> "PlanConfig":
        """The same kernels, launched alike, under another policy."""
        base, plus, word = self.plan.rpartition("+")
        return PlanConfig(policy + self.name.removeprefix(word), base + plus + policy, self.backend)


@dataclass(frozen=True)
class PairConfig:
    """One thing to run: a kind, in a cut of each stage, in one tile order."""

    kind: PlanConfig
    cuts: tuple[TileConfig, TileConfig]
    order: Order

    @property
    def plan(self) -> Plan:
        """The plan."""
        return plan_named(self.kind.plan, self.order)

    @property
    def has_semaphores(self) -> bool:
        """Whether kernels are synchronised by tiles; one kernel for both stages is a rival."""
        return self.plan.sync.has_semaphores and not self.kind.is_joint

    def __str__(self) -> str:
        return f"{self.kind.name} {self.kind.stored[1]} {self.cuts[0]} {self.cuts[1]} {self.order.name}"


def plan_named(text: str, order: Order) -> Plan:
    """The plan of a word, or under a generated policy such as "block:2x1": a semaphore per 2 x 1 tiles."""
    base, plus, word = text.rpartition("+")
    if not word.startswith("block:"):
        return parse_plan(text, order.name)
    columns, rows = (int(number) for number in word.removeprefix("block:").split("x"))
    sync = Semaphores(GroupedSync(Blocks(columns), Blocks(rows)))
    return replace(parse_plan(f"{base}{plus}row", order.name), sync=sync)


def variants_of(
    kinds: Iterable[PlanConfig], cuts: Iterable[tuple[TileConfig, TileConfig]], orders: Iterable[Order]
) -> list[PairConfig]:
    """All kinds in all cuts and orders; joint kinds also in each stage's cut for both, Stream-K unsplit."""
    cuts, orders = list(cuts), list(orders)
    joint = list(dict.fromkeys([*cuts, *((cut, cut) for pair in cuts for cut in pair)]))
    unsplit = list(dict.fromkeys((replace(a, split_k=1), replace(b, split_k=1)) for a, b in cuts))
    return [
        PairConfig(kind, cut, order)
        for kind in kinds
        for cut in (joint if kind.is_joint else unsplit if kind.is_unsplit else cuts)
        for order in orders
    ]


def under_all(variants: Iterable[PairConfig], policies: Iterable[str]) -> list[PairConfig]:
    """Those with semaphores, under each of the policies."""
    synchronised, policies = [v for v in variants if v.has_semaphores], list(policies)
    result = [replace(v, kind=v.kind.under(policy)) for v in synchronised for policy in policies]
    return list(dict.fromkeys(result))


def generated(pipeline: Pipeline) -> list[str]:
    """The names of all policies generated for a pair."""
    first, second = (stage.name for stage in pipeline.stages)
    return [derived.name for derived in derive_policies(pipeline, (first, second))]


PORTABLE_TILE_K = 32


@dataclass(frozen=True)
class CandidateKernels:
    """A backend and what it can be asked for, in k-blocks of `tile_k`.

    `schedules` are those that a product alone is tried under, the usual one first.
    """

    backend: str
    tile_k: int
    kinds: tuple[PlanConfig, ...]
    schedules: tuple[str, ...]

    @property
    def kernels(self) -> str:
        """What results under the usual schedule are stored under."""
        return stored_names(self.backend, Plan(SCHEDULES[self.schedules[0]]("")))[0]

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the tiles."""
        return tuple((m, n) for m, n, k in backend_named(self.backend).tiles if k == self.tile_k)

    def can_compute(self, products: Iterable[Gemm]) -> bool:
        """Whether some tile of it suits each product."""
        return all(any(self.suits(entry, TileConfig(*tile)) for tile in self.tiles) for entry in products)

    def suits(self, entry: Gemm, cut: TileConfig) -> bool:
        """Whether the kernels can compute a product in this cut."""
        try:
            backend_named(self.backend).check(cut.applied(entry, self.tile_k))
        except DescriptionError:
            return False
        return True


PORTABLE = CandidateKernels(
    "portable",
    PORTABLE_TILE_K,
    tuple(PlanConfig(plan, plan, "portable") for plan in ("stream", "row", "tile")),
    ("tile",),
)
HOPPER = CandidateKernels(
    "hopper",
    64,
    (
        PlanConfig("stream", "persistent-stream", "hopper"),
        PlanConfig("stream per tile", "stream", "hopper", follows="stream"),
        PlanConfig("pdl", "persistent+pdl+boundary", "hopper", follows="stream"),
        PlanConfig("stream-k", "stream-k", "hopper"),
        PlanConfig("stream-k pdl", "stream-k+pdl+boundary", "hopper", follows="stream-k"),
        PlanConfig("row on one stream", "persistent+pdl+row", "hopper"),
        PlanConfig("tile on one stream", "persistent+pdl+tile", "hopper", follows="row on one stream"),
        PlanConfig("row", "persistent+streams+row", "hopper", follows="row on one stream"),
        PlanConfig("tile", "persistent+streams+tile", "hopper", follows="row on one stream"),
        # One kernel for both stages, in tiles of one shape; the faster of the two plans stands for it.
        *(PlanConfig("persistent", plan, "hopper") for plan in ("persistent", "persistent:tile")),
    ),
    ("persistent", "stream-k"),
)


def entrant_for(device: Device) -> CandidateKernels:
    """The fastest of our kernels on this GPU."""
    return HOPPER if device.compute_capability == HOPPER_CAPABILITY else PORTABLE
