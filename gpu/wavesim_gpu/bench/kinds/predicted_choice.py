"""The simulator's choice of cuts, order and policy for a pair, before any pair is measured.

Example: GPT-3's products at 1,536 tokens were timed alone, in every cut. From these times alone the
simulator runs thirty plans of the pair, and says: row semaphores, 192x192 tiles, grouped by 8, 690 us.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wavesim.bench.makespan_estimate import makespan_bound_ns, makespan_estimate_ns

from wavesim.model.dependency import gemm_rows
from wavesim.model.device import Device
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import OneStream, StreamPerStage
from wavesim.plan.order import Order
from wavesim.plan.schedule import TilePerBlock
from wavesim_gpu.bench.kinds.pair_configs import STREAM, PairConfig
from wavesim_gpu.bench.kinds.tile_configs import TileConfig, Workload, mlp_pair
from wavesim_gpu.kernels.backends import backend_named


@dataclass(frozen=True)
class PairChoice:
    """A variant, and the time that the simulator gives it."""

    variant: PairConfig
    predicted_ns: int


@dataclass(frozen=True)
class Predictor:
    """Predicts one workload's pairs at one size from its products measured alone.

    `times_ns`: for the first and the second product, of each cut and order that was timed.
    """

    workload: Workload
    tokens: int
    tile_k: int
    device: Device
    times_ns: Sequence[Mapping[tuple[TileConfig, Order], float]]

    def best(self, variants: Iterable[PairConfig]) -> PairChoice | None:
        """The one with the shortest predicted time; those with a product that was not timed are left out."""
        least = {
            variant: makespan_bound_ns(self._pipeline(variant), self.device, self._kernel_ns(variant))
            for variant in variants
            if self._is_known(variant)
        }
        found: PairChoice | None = None
        for variant in sorted(least, key=least.__getitem__):
            if found is None or least[variant] < found.predicted_ns:  # else it cannot be faster
                choice = PairChoice(variant, self.predicted_ns(variant))
                found = min(found or choice, choice, key=lambda one: one.predicted_ns)
        return found

    def predicted_ns(self, variant: PairConfig) -> int:
        """Of the pair as a graph, from launch to completion."""
        plan = variant.plan
        # What persistent blocks and dependent launch save or cost is in the kernels' times already.
        launch = StreamPerStage() if plan.sync.has_semaphores else OneStream()
        return makespan_estimate_ns(
            self._pipeline(variant),
            replace(plan, schedule=TilePerBlock(), launch=launch),
            self.device,
            self._kernel_ns(variant),
            is_forked=plan.launch.is_multi_stream,
        )

    def _is_known(self, variant: PairConfig) -> bool:
        ways = ((cut, variant.order) for cut in variant.cuts)
        return all(way in times for way, times in zip(ways, self.times_ns, strict=True))

    def _kernel_ns(self, variant: PairConfig) -> dict[str, float]:
        stages = mlp_pair(self.workload, self.tokens, variant.cuts, self.tile_k).stages
        return {
            stage.name: times[cut, variant.order]
            for stage, cut, times in zip(stages, variant.cuts, self.times_ns, strict=True)
        }

    def _pipeline(self, variant: PairConfig) -> Pipeline:
        """The pair in blocks as large as the kernels' are, which decide how many an SM holds."""
        plain = mlp_pair(self.workload, self.tokens, variant.cuts, self.tile_k)
        first, second = (self._stage(stage, variant) for stage in plain.stages)
        return Pipeline(plain.name, [first, second], [gemm_rows(first, second)])

    def _stage(self, stage: Stage, variant: PairConfig) -> Stage:
        launch = backend_named(variant.kind.backend).launch(stage.gemm, variant.plan, self.device)
        block = Block(launch.threads, dynamic_shared_bytes=launch.dynamic_shared_bytes)
        return Stage(stage.name, replace(stage.gemm, block=block))


def choosable(variants: Iterable[PairConfig]) -> list[PairConfig]:
    """Stream sync, and semaphores on one stream where the kernels can: on two the same costs a fork more."""
    variants = list(variants)
    plain = [variant for variant in variants if variant.kind.name == STREAM]
    synchronised = [variant for variant in variants if variant.has_semaphores]
    dependent = [v for v in synchronised if v.plan.launch.is_dependent]
    return plain + (dependent or synchronised)
