"""WaveRNN's five tests in the simulator: each cycle's blocks on the SMs, and what lies between two cycles.

Example: on a T4's 40 SMs 42 blocks of R make two SMs hold two of them, and every cycle waits for these two.
Cycles do not overlap, as a barrier of the grid or a kernel boundary lies between: so each kind is simulated
once, and counted.
"""

from collections.abc import Sequence

from wavesim.costs.persistent_costs import Dtype, StepCosts, estimated_costs
from wavesim.model.device import Device
from wavesim.model.kernel import Grid
from wavesim.plan.order import CustomOrder, Order, RowMajor
from wavesim.plan.plan import StreamSync
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.wavernn import (
    OWN_CUT,
    STEPS,
    WAYS,
    BlockRows,
    StepCycle,
    Way,
    cycles_of,
    distinct_cycles,
    pipeline_of,
)


def simulated_ns(
    way: Way,
    device: Device,
    costs: StepCosts,
    cut: BlockRows = OWN_CUT,
    *,
    order: Order | None = None,
    steps: int = STEPS,
) -> int:
    """All steps by one way, from the first block to the last. `order`: in which blocks are issued to SMs."""
    counted = distinct_cycles(way, steps)
    work = sum(
        count * trace_of([cycle], way, device, costs, cut, order=order).makespan_ns
        for cycle, count in counted.items()
    )
    return work + (counted.total() - 1) * costs.between_ns(way)


def trace_of(
    cycles: Sequence[StepCycle],
    way: Way,
    device: Device,
    costs: StepCosts,
    cut: BlockRows = OWN_CUT,
    *,
    order: Order | None = None,
) -> Trace:
    """These cycles, one after the other, at most as many as a pipeline has stages."""
    pipeline = pipeline_of(cycles, cut)
    plan = StreamSync(order or RowMajor())
    return simulate(pipeline, plan, device, costs.cost_model(cycles, cut, way))


def first_cycles(way: Way, count: int = 12) -> list[StepCycle]:
    """The first cycles of a way, for a picture."""
    return cycles_of(way)[:count]


def five_tests(device: Device, dtype: Dtype, cut: BlockRows = OWN_CUT) -> dict[Way, int]:
    """The five tests' simulated times in ns, by costs that are estimated."""
    costs = estimated_costs(device, dtype, cut)
    return {way: simulated_ns(way, device, costs, cut) for way in WAYS}


def rotated(first: int) -> CustomOrder:
    """Blocks issued from the `first`-th on, those before it last."""

    def tiles(grid: Grid) -> list[tuple[int, int]]:
        every = list(grid)
        start = first % len(every)
        return every[start:] + every[:start]

    return CustomOrder(f"from-{first}", tiles)
