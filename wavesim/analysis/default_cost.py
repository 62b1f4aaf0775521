"""The costs a workload is simulated with when the user gives none.

Picture: the toy's tiles take one unit and nothing else costs time; the GPT-3 MLP on an H200 is
calibrated on the shipped stream-sync recording of its size and tile; anything else gets the
catalogue's roofline.
"""

from wavesim.io.recordings import find_case
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.sim.calibration import calibrate
from wavesim.sim.cost import CostModel, roofline, zero_cost
from wavesim.workloads.figure_one import TILE_NS


def default_costs(pipeline: Pipeline, device: Device, order: str = "row") -> tuple[CostModel, str]:
    """(costs, where they come from in words)."""
    if pipeline.name == "toy":
        return zero_cost(pipeline, TILE_NS), "unit tile time, nothing else costs time (the paper's Figure 1)"
    case = find_case(pipeline, device, order)
    if case is None:
        return roofline(pipeline, device), f"roofline of {device.name} from the catalogue, nothing measured"
    stream = case.trace("stream")
    when = f"{stream.header.date[:10]}, commit {stream.header.commit[:7]}"
    return calibrate(
        stream
    ), f"calibrated on the recorded stream-sync run ({stream.header.device['name']}, {when})"
