"""Results of `conv_bench`, and what the simulator says of the same kernels, tiles and plans.

Example: of a pair of 3 x 3 convolutions of 128 channels at batch 8 a file has every tile and plan that was
tried, timed in a few rounds: each is simulated as it ran there, run after run in one CUDA graph. These are
development data: constants of convolutions are fitted to them. Blind runs have other batches.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wavesim.costs.convolution_costs import convolution_costs_of
from wavesim.costs.cost_model import CostModel
from wavesim.costs.layer_costs import costs_of_stages
from wavesim.errors import DescriptionError
from wavesim.model.convolution import Conv2D
from wavesim.model.convolution_reads import conv_rows
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import Plan
from wavesim.sim.simulation import simulate
from wavesim.workloads.hopper import TILE_K, block_of
from wavesim.workloads.layer_backends import with_backends, with_chained_products

CHAIN, STEM = "chain", "stem"
TORCH = "torch"
SPLIT = ", K in "


@dataclass(frozen=True)
class TriedPlan:
    """A plan of a case in its tiles: the median of its rounds, all runs in one graph."""

    case: str
    kind: str
    tiles: str
    plan: str
    measured_ns: int
    shape: Mapping[str, Any]  # the case's fields
    has_memset: bool = True  # between runs of split K, where blocks did not put their tickets back yet

    @property
    def pipeline(self) -> Pipeline:
        """What was measured, in its tiles."""
        return pipeline_of(self.shape, self.tiles)

    def predicted_ns(self, device: Device) -> float:
        """A run behind another one: the kernel boundary in place of a graph's start."""
        pipeline, plan = self.pipeline, parse_plan(self.plan)
        costs = costs_of_stages(pipeline, device, schedule=plan.schedule.word)
        found = simulate(pipeline, plan, device, costs)
        return (
            found.time_ns - costs.outside_ns(plan) + costs.boundary_ns + self._reset_ns(costs, plan, device)
        )

    def _reset_ns(self, costs: CostModel, plan: Plan, device: Device) -> int:
        """What resets counters between runs: a memset, or the last block; streams' fork and join.

        Persistent kernels reset theirs by themselves, whatever the plan.
        """
        known = convolution_costs_of(device.name)
        forks_ns = costs.multi_stream_ns if plan.launch.is_multi_stream else 0
        if known is None:
            return forks_ns
        if plan.sync.has_semaphores and not plan.launch.is_multi_stream:
            return known.own.rearm_ns
        is_reset = SPLIT in self.tiles and self.has_memset and not plan.schedule.is_persistent
        return forks_ns + is_reset * known.own.memset_ns


def tried_plans(results: Mapping[str, Any]) -> Iterator[TriedPlan]:
    """All of ours that were right; a finalist's rounds in place of its trial's."""
    for case in results["cases"]:
        if case["kind"] == STEM:  # of kernels that no cost is known of
            continue
        final = {one["label"]: one["median_ns"] for one in case.get("finalists", ())}
        for one in case.get("tried", ()):
            if one["class"] != TORCH:
                plan, tiles = one["label"].removesuffix(" tiles").split(", ", 1)
                measured = final.get(one["label"], one["trial_ns"])
                name = f"{case['kind']} {case['name']}"
                has_memset = not case.get("resets_tickets", False)
                yield TriedPlan(name, case["kind"], tiles, plan, measured, case, has_memset)


def pipeline_of(case: Mapping[str, Any], tiles: str) -> Pipeline:
    """A case's convolutions in tiles such as "64x128, K in 4". Raises `DescriptionError`."""
    size, _, splits = tiles.partition(SPLIT)
    tile_m, tile_n = map(int, size.split("x"))
    if case["count"] < 1:
        raise DescriptionError(f"case {case['name']}: count is {case['count']}; it must be at least 1")
    stages = []
    for number in range(1, case["count"] + 1):
        work = Conv2D(
            f"conv{number}",
            case["images"],
            case["size"],
            case["size"],
            case["channels"] if number == 1 else case["filters"],
            case["filters"],
            tile_m,
            tile_n,
            block=block_of((tile_m, tile_n), is_convolution=True),
            kernel_size=(number == 1 and case.get("first_size")) or case["kernel_size"],
            stride=case["stride"],
            tile_k=TILE_K,
            split_k=int(splits or 1),
            activation="relu" if number < case["count"] else None,
        )
        stages.append(Stage(work.name, work))
    plain = Pipeline(case["kind"], stages, [conv_rows(*pair) for pair in pairwise(stages)])
    return with_chained_products(plain) if case["kind"] == CHAIN else with_backends(plain)
