"""Why short rows first: causal attention of two heads and three row blocks on four SMs, and what follows.

Example: row block i takes i + 1 units, as it sees i + 1 blocks of keys; an output tile takes two and needs
all heads of its rows. Alone, attention is fastest with its longest rows first. Under row semaphores short
rows first win: their output tiles fill the SMs that long rows leave empty.
"""

from wavesim.costs.cost_model import CostModel
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device, load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.order import Order, Reversed, RowMajor
from wavesim.plan.plan import Plan, StreamSync
from wavesim.plan.policy import RowSync
from wavesim.plan.sync import Semaphores
from wavesim.safe_io.annotated import typed
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace
from wavesim.workloads.layers import transformer_layer

SMS, HEADS, ROWS, OUT_COLUMNS, OUT_UNITS, UNIT_NS = 4, 2, 3, 2, 2, 1000
WHOLE_SM = Block(threads=1024)


def device() -> Device:
    """Four SMs with room for one block each."""
    return load("toy").with_sm_count(SMS)


def pipeline() -> Pipeline:
    """Attention, whose rows are unequal, and the output product."""
    attention = Stage("attention", Kernel("attention", Grid(HEADS, ROWS), WHOLE_SM, 1, 1))
    out = Stage("out", Kernel("out", Grid(OUT_COLUMNS, ROWS), WHOLE_SM, 1, 1))
    return Pipeline("attention-rows", [attention, out], [Dependency(out[x, y], [attention[:, y]])])


def costs() -> CostModel:
    """A unit per block of keys that a row block sees; nothing else costs time."""
    rows = [(row + 1) * UNIT_NS for row in range(ROWS) for _ in range(HEADS)]
    return CostModel({"attention": rows, "out": OUT_UNITS * UNIT_NS})


@typed
def run(order: Order, *, overlaps: bool) -> Trace:
    """With attention's tiles in an order; output tiles by rows from the top."""
    orders = {"attention": order}
    plan = StreamSync(orders=orders)
    if overlaps:
        plan = Plan(launch=DependentLaunch(), sync=Semaphores(RowSync()), orders=orders)
    return simulate(pipeline(), plan, device(), costs())


@typed
def units(order: Order, *, overlaps: bool) -> float:
    """The makespan in units of a block of keys."""
    return run(order, overlaps=overlaps).makespan_ns / UNIT_NS


def _tiles_needed() -> dict[str, int]:
    """QKV tiles that head 5 of Llama-3-8B needs at 512 tokens in tiles of 128 x 128."""
    dependency = transformer_layer("llama-3-8b", 512, tiles={"qkv": (128, 128, 1)}).dependency_of("attention")
    assert dependency is not None
    first, last = (len(dependency.producer_tiles(5, row)) for row in (0, 3))
    return {"first": first, "last": last}


def _units_by_order() -> dict[str, float]:
    short, long = (units(order, overlaps=True) for order in (RowMajor(), Reversed(RowMajor())))
    return {"short": short, "long": long}


GRADERS = {"16.1": _tiles_needed, "16.2": _units_by_order}
