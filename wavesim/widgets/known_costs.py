"""The best costs known for a pipeline on a device, and a sentence on where they come from.

Picture: for the GPT-3 MLP on an H200 the tile times are those of a stream-sync run that ships with
wavesim; on an A100 nobody measured, so the catalogue's roofline has to do, and the sentence says so.
"""

from dataclasses import dataclass
from functools import lru_cache

from wavesim.analysis.prediction import Measured, measured_improvement
from wavesim.io.recordings import Case, cases
from wavesim.model.device import Device
from wavesim.model.kernel import Gemm
from wavesim.model.occupancy import occupancy_of
from wavesim.model.pipeline import Pipeline
from wavesim.sim.calibration import calibrate
from wavesim.sim.cost import CostModel, roofline, zero_cost
from wavesim.workloads.figure_one import TILE_NS


@dataclass(frozen=True, eq=False)
class KnownCosts:
    """A cost model; `source` says where it comes from; `case` is a recording of this size and order."""

    model: CostModel
    source: str
    case: Case | None = None

    def measured(self, policy: str) -> Measured | None:
        """The improvement that was measured for this policy there, if it was."""
        if self.case is None or policy not in self.case.paths:
            return None
        return measured_improvement(self.case.trace(policy), self.case.trace("stream"))


@lru_cache(maxsize=64)
def find_costs(pipeline: Pipeline, device: Device, order: str) -> KnownCosts:
    """Costs for a pipeline: the toy's, else a recording's, else the roofline's. Raises `DescriptionError`."""
    if not any(stage.kernel.flops_per_block for stage in pipeline.stages):
        return KnownCosts(
            zero_cost(pipeline, TILE_NS), "Every tile takes one unit of time and nothing else takes any."
        )
    nearest = _nearest_case(pipeline, device, order)
    if nearest is not None:
        return _recorded(nearest, int(pipeline.parameters["tokens"]), order)
    model = roofline(pipeline, device)
    return KnownCosts(
        model,
        f"Estimated from {device.name}'s data sheet ({_tile_times(model)}), never measured: "
        "trust the shape and the sign, not the size.",
    )


def _recorded(case: Case, tokens: int, order: str) -> KnownCosts:
    """Costs of a case's stream-sync run. In clock cycles a tile costs nearly the same at every size."""
    stream = case.trace("stream")
    model = calibrate(stream)
    head = stream.header
    is_exact = (case.tokens, case.order) == (tokens, order)
    size = "this size" if case.tokens == tokens else f"{case.tokens:,} tokens, the nearest recorded size"
    under = "" if case.order == order else f" in {case.order} order"
    source = (
        f"Calibrated on the stream-sync run recorded on {head.device['name']} at {size}{under} "
        f"({head.date[:10]}, commit {head.commit[:7]}): {_tile_times(model)}."
    )
    return KnownCosts(model, source, case if is_exact else None)


def _tile_times(model: CostModel) -> str:
    """Tile times in words; where blocks share an SM they are those of a block alone."""
    alone = " when alone on its SM" if len(model.sharing) > 1 else ""
    times = (
        f"{stage} tile {time / 1000:.0f} µs" for stage, time in model.tile_ns.items() if isinstance(time, int)
    )
    return ", ".join(times) + alone


def _nearest_case(pipeline: Pipeline, device: Device, order: str) -> Case | None:
    """The recording of the same kernels: the same size before the same order, then the nearest size."""
    gemms = [stage.work for stage in pipeline.stages if isinstance(stage.work, Gemm)]
    if len(gemms) != len(pipeline.stages) or any(gemm.split_k > 1 for gemm in gemms):
        return None
    tiles = {f"{gemm.tile_m}x{gemm.tile_n}" for gemm in gemms}
    tokens = gemms[0].m
    alike = [
        case
        for case in _shipped()
        if (case.device, case.workload, {case.tile}) == (device.name, pipeline.name, tiles)
        and "stream" in case.paths
        and _is_same_occupancy(case, pipeline, device)
    ]
    return min(alike, key=lambda case: (abs(case.tokens - tokens), case.order != order), default=None)


def _is_same_occupancy(case: Case, pipeline: Pipeline, device: Device) -> bool:
    recorded = [info.blocks_per_sm for info in case.trace("stream").header.stages]
    return recorded == [occupancy_of(device, stage.kernel.block).blocks_per_sm for stage in pipeline.stages]


@lru_cache(maxsize=1)
def _shipped() -> tuple[Case, ...]:
    return tuple(cases())
