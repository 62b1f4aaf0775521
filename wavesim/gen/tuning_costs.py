"""The costs that tuning simulates with: one basis for all plans of a pipeline, so that they can be compared.

Picture: a recording of the stream-sync run in groups of four rows is there, none in groups of two; the
latter is simulated with the former's costs rather than with a roofline, which would always win.
"""

from dataclasses import dataclass, field

from wavesim.analysis.default_cost import default_costs
from wavesim.io.recordings import find_case
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.sim.cost import CostModel

RECORDED_ORDERS = ("row", "grouped:4", "grouped:8")


@dataclass
class CostBook:
    """Costs of one pipeline's plans: the caller's, else from a recording of the order, else of any order."""

    pipeline: Pipeline
    device: Device
    given: CostModel | None
    _of_order: dict[str, CostModel] = field(default_factory=dict)

    @property
    def basis(self) -> str:
        """Where the costs come from, in words."""
        if self.given is not None:
            return "with costs given by the caller"
        return default_costs(self.pipeline, self.device, self._source("row"))[1]

    def costs(self, order: str) -> CostModel:
        """The costs of plans with the choice of orders of that name."""
        costs = self.given or self._of_order.get(order)
        if costs is None:
            costs = default_costs(self.pipeline, self.device, self._source(order))[0]
            self._of_order[order] = costs
        return costs

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

    def _source(self, order: str) -> str:
        """The order whose recording serves: its own if there is one, else the first that has one."""
        tried = (order, order.rpartition(" ")[2], *RECORDED_ORDERS)
        found = (name for name in tried if find_case(self.pipeline, self.device, name) is not None)
        return next(found, order)
