"""A what-if on a mixture of experts: experts, top k, tokens, skew, tile, the order of experts, plan.

Example: 256 tokens of Mixtral by Zipf's law: the busiest of eight experts has most of them, two blocks of
rows in place of one, and above every down tile waits for the last gate-up tile of all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wavesim.model.device import default_device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.parsing import parse_plan
from wavesim.trace.trace import Trace
from wavesim.widgets.explorer import menu, stops
from wavesim.widgets.plans_what_if import PlansWhatIf, instead_of, simulated_plans
from wavesim.workloads.moe import MOE_MODELS, moe_layer

BASELINE = "persistent-stream"
PLANS = ("persistent+pdl+row", "persistent", "persistent+pdl+boundary")
EXPERTS, TOP_K = (4, 8, 16, 32, 64, 128), (1, 2, 4, 6, 8)
TOKENS, SKEWS = (1, 4, 16, 64, 256, 1024), (0.0, 0.5, 1.0, 1.5, 2.0)
USUAL = "as our kernels"
TILES = (USUAL, "64x128", "128x128", "128x256")
ORDERS = {"longest first": "longest", "by number": "number"}


@dataclass(frozen=True)
class ExpertsScenario:
    """One setting of all controls; `model` gives the sizes of an expert."""

    model: str = "mixtral-8x7b"
    experts: int = 8
    top_k: int = 2
    tokens: int = 256
    skew: float = 1.0
    tile: str = USUAL
    order: str = "longest"
    sync: str = "persistent+pdl+row"

    @property
    def pipeline(self) -> Pipeline:
        """Gate and up, down, and the sum. Raises `DescriptionError`."""
        rows, _, columns = self.tile.partition("x")
        return moe_layer(
            self.model,
            self.tokens,
            tile=(int(rows), int(columns)) if columns else None,
            experts=self.experts,
            top_k=self.top_k,
            skew=self.skew,
            expert_order=self.order,
        )


class ExpertsWhatIf(PlansWhatIf):
    """The plan that the controls say, below the same kernels one after the other."""

    scenario_type = ExpertsScenario

    def _controls(self, first: ExpertsScenario) -> tuple[Any, ...]:
        return (
            {
                "model": menu("Sizes of", MOE_MODELS, first.model),
                "experts": stops("Experts", EXPERTS, first.experts),
                "top_k": stops("Experts of a token", TOP_K, first.top_k),
                "tokens": stops("Tokens", TOKENS, first.tokens),
                "skew": stops("Skew (Zipf's exponent)", SKEWS, first.skew),
                "tile": menu("Tile", TILES, first.tile),
                "order": menu("Experts' tiles", ORDERS.items(), first.order),
                "sync": menu("Plan", PLANS, first.sync),
            },
        )

    def _follow(self, change: Any) -> None:
        """Another model brings its experts along."""
        if change.owner is self.model:
            self.experts.value, self.top_k.value = MOE_MODELS[change.new][:2]

    def _timelines(self) -> Sequence[Trace]:
        scenario = self.scenario
        self.pipeline, plans = scenario.pipeline, map(parse_plan, (BASELINE, scenario.sync))
        (self.stream, self.chosen), self.known = simulated_plans(self.pipeline, list(plans), default_device())
        return self.stream, self.chosen

    def _words(self) -> tuple[str, str]:
        work: Any = self.pipeline.stages[0].work
        rows, blocks = work.routing.expert_rows, len(work.row_blocks)
        finding = (
            f"The busiest expert has {max(rows):,} of {sum(rows):,} rows, {sum(rows) / len(rows):,.0f} would "
            f"be its share; {work.touched} experts have some, in {blocks} blocks of rows. "
            f"{self.chosen.header.plan_label}: {instead_of(self.chosen, self.stream)}."
        )
        return finding, (
            f"Simulated: {self.known.source}. Of measured layers the simulator had the sign of such gains "
            "right in 38 % only (docs/moe.md): do not choose a plan by it."
        )
