"""What plans are ranked by: costs on one basis for all plans of a pipeline, and L2 traffic where they tie.

Example: there is a recording of the stream-sync run in row order, none in groups of two rows; the latter is
simulated with the former's costs rather than with a roofline, which would always win. 132 consecutive tiles
of a row-major order touch three rows of A and all 48 column panels of B, 157 MB per wave; grouped by eight
rows they touch eight rows and 17 columns, 66 MB. Prototype kernels on an H200 lost 11 to 30 % of a consumer
tile's time to row-major order under row semaphores; the recorded portable kernels lose nothing. So traffic
decides ties and changes no time.
"""

from dataclasses import dataclass, field
from statistics import mean

from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order
from wavesim.plan.plan import Plan
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


ELEMENT_BYTES = 2


def megabytes_per_wave(pipeline: Pipeline, plan: Plan, device: Device) -> int:
    """The sum over the GEMM stages, in megabytes; 0 where there are none."""
    total = sum(bytes_per_wave(stage, plan.order_of(stage.name), device) for stage in pipeline.stages)
    return round(total / 1e6)


def bytes_per_wave(stage: Stage, order: Order, device: Device) -> float:
    """Operand bytes that one wave touches, each panel once; the mean over the grid's waves. 0: not known."""
    panels = stage.work.panels
    if panels is None:
        return 0.0
    slots = device.sm_count * occupancy_of(device, stage.kernel.block).blocks_per_sm
    tiles = order.sequence(stage.grid)
    step = max(1, slots // stage.grid.z)
    depth = panels.k * ELEMENT_BYTES
    waves = [tiles[i : i + step] for i in range(0, len(tiles), step)]
    if len(waves) > 1 and len(waves[-1]) < step:
        waves.pop()
    return mean(
        depth * (panels.rows * len({y for _, y in wave}) + panels.columns * len({x for x, _ in wave}))
        for wave in waves
    )
