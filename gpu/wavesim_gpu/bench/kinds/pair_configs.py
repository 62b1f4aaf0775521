"""What can be run of a pair: in which kind of plan and launch, in which cuts, in which order.

Example: "row on one stream" is row semaphores on persistent kernels that start by dependent launch; in cuts
128x192 and 128x256, grouped by 8, it is one variant of GPT-3's MLP.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wavesim.bench.stored_kernels import plan_word, stored_names
from wavesim.codegen.policies import GroupedSync, derive_policies
from wavesim.codegen.tile_map import Blocks
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import Order, RowMajor
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.plan.sync import Semaphores
from wavesim_gpu.bench.kinds.tile_configs import TileConfig

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
    found = [replace(v, kind=v.kind.under(policy)) for v in synchronised for policy in policies]
    return list(dict.fromkeys(found))


def generated(pipeline: Pipeline) -> list[str]:
    """The names of all policies generated for a pair."""
    first, second = (stage.name for stage in pipeline.stages)
    return [derived.name for derived in derive_policies(pipeline, (first, second))]
