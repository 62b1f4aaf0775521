"""The costs that tuning simulates with: one basis for all plans of a pipeline, so that they can be compared.

Example: a recording of the stream-sync run in row order is there, none in groups of two rows; the latter is
simulated with the former's costs rather than with a roofline, which would always win.
"""

from dataclasses import dataclass, field

from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.predict.defaults import find_costs
from wavesim.predict.known_costs import KnownCosts


@dataclass
class CostBook:
    """Costs of one pipeline's plans: the caller's, else from a recording of the order, else of any order."""

    pipeline: Pipeline
    device: Device
    given: CostModel | KnownCosts | None
    _of_order: dict[str, CostModel] = field(default_factory=dict)

    @property
    def basis(self) -> str:
        """Where the costs come from, in words."""
        return self.known().source

    @property
    def defaults(self) -> tuple[str, ...]:
        """What was assumed for want of a measurement on the device."""
        return self.known().defaults

    def costs(self, order: str) -> CostModel:
        """The costs of plans with the choice of orders of that name."""
        costs = self._of_order.get(order)
        if costs is None:
            costs = self._of_order[order] = self.known(order).model
        return costs

    def known(self, order: str = "row") -> KnownCosts:
        """The same with what is known about them."""
        if isinstance(self.given, CostModel):
            return KnownCosts(self.given, "with costs given by the caller")
        return self.given or find_costs(self.pipeline, self.device, order)

    def least_ns(self) -> float:
        """No plan takes less: all tiles' work over the most that all SMs do at once."""
        costs = self.costs("row")
        speed = max(n * rate for n, rate in enumerate(costs.sharing[: self._most_resident()], start=1))
        work = 0
        for stage in self.pipeline.stages:
            times = costs.tile_times(stage)
            work += times * stage.grid.size if isinstance(times, int) else sum(times)
        return work / (self.device.sm_count * speed)

    def _most_resident(self) -> int:
        blocks = [
            occupancy_of(self.device, stage.kernel.block).blocks_per_sm for stage in self.pipeline.stages
        ]
        return max(blocks)
