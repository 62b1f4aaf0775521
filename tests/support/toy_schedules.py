"""Short ways to build small pipelines on the 4-SM toy and to write down who ran where and when."""

from wavesim.costs.cost_model import CostModel
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device, load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.sim.simulation import simulate
from wavesim.trace.trace import Trace

TOY = load("toy")
WHOLE_SM = Block(threads=1024, registers=64)
HALF_SM = Block(threads=512, registers=64)
THIRD_SM = Block(threads=320, registers=64)
UNIT_NS = 1_000


def stage(
    name: str, columns: int, rows: int = 1, slices: int = 1, block: Block = WHOLE_SM, **kernel
) -> Stage:
    return Stage(name, Kernel(name, Grid(columns, rows, slices), block, **{"carveout": "full"} | kernel))


def pair(first: Stage, second: Stage) -> Pipeline:
    """Each tile of the second stage reads the whole tile row of the first."""
    return Pipeline("pair", [first, second], [Dependency(second[x, y], [first[:, y]])])


def run(pipeline: Pipeline, plan, units: dict | int = 1, device: Device = TOY, **costs) -> Trace:
    """A simulation with tile times in units of a microsecond and nothing else costing time."""
    per_stage = units if isinstance(units, dict) else dict.fromkeys((s.name for s in pipeline.stages), units)
    tile_ns = {
        name: [round(u * UNIT_NS) for u in time] if isinstance(time, list) else round(time * UNIT_NS)
        for name, time in per_stage.items()
    }
    return simulate(pipeline, plan, device, CostModel(tile_ns, **costs))


def schedule(trace: Trace, stage: str) -> list[tuple[tuple[int, int], int, float, float]]:
    """(tile, SM, issue, end) of a stage's blocks in issue order, times in units."""
    mine = trace.rows_of(stage)
    columns = (trace.x[mine], trace.y[mine], trace.sm[mine], trace.issue_ns[mine], trace.end_ns[mine])
    return [
        ((int(tx), int(ty)), int(sm), float(issue / UNIT_NS), float(end / UNIT_NS))
        for tx, ty, sm, issue, end in zip(*columns, strict=True)
    ]


def waves(trace: Trace) -> float:
    return trace.makespan_ns / UNIT_NS
