"""What a family is simulated with at any M, from one source, so that sizes can be compared.

Example: GPT-3's MLP takes its tile times from products timed alone; a user's two kernels take theirs from
their times at the size that was described, and the defaults say so.
"""

from dataclasses import replace
from functools import lru_cache
from statistics import mean

from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.predict.defaults import described_costs
from wavesim.predict.known_costs import KnownCosts
from wavesim.predict.product_times import costs_from_products
from wavesim.tuning.crossover.family import KernelFamily


def family_costs(family: KernelFamily, m: int, device: Device) -> KnownCosts:
    """The costs at M = m. Raises `DescriptionError` for kernels of which neither time nor work is known."""
    if family.timed is None:
        return costs_from_products(family.pipeline(m), device)
    pipeline, kernel_ns = family.timed
    known = _described_costs(pipeline, device, tuple(kernel_ns.items()))
    note = "tile_ns: those of the described size, at every M"
    return replace(known, model=_of_any_grid(known.model), defaults=(*known.defaults, note))


def _of_any_grid(model: CostModel) -> CostModel:
    """The same with one time per stage: the blocks of another grid take the mean."""
    means = {
        stage: times if isinstance(times, int) else round(mean(times))
        for stage, times in model.tile_ns.items()
    }
    return replace(model, tile_ns=means)


@lru_cache(maxsize=8)
def _described_costs(
    pipeline: Pipeline, device: Device, kernel_ns: tuple[tuple[str, int], ...]
) -> KnownCosts:
    return described_costs(pipeline, device, dict(kernel_ns))
