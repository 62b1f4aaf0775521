"""The two clocks that published A100s ran at: which one a baseline's kernels tell.

Example: at its boost clock of 1410 MHz an A100's tensor cores do 312 TFLOP/s, at 1095 MHz 242. The tiles of
most published baselines run at 195 to 241, those of others at 271 to 294: what is above 242 was at the higher
clock, and baselines whose fastest kernel stops just short of 242 were at the lower. Nothing here is fitted.
"""

import json
from functools import cache

from wavesim.costs.device_costs import without_constants
from wavesim.model.occupancy import occupancy_of
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.recordings.published_rows import PUBLISHED, PublishedRun

CLOSE = 0.95  # of the lower clock's peak, from which on a kernel's tiles are held to have run at that clock


def clock_ratio(run: PublishedRun) -> float | None:
    """The lower clock over the higher where the baseline ran at the lower; None elsewhere, and if unknown.

    A plan that ran at the higher clock took this share of the time that it is predicted to take.
    """
    clocks = _clocks_hz().get(run.device.name)
    if clocks is None or run.kernel_us is None:
        return None
    ratio = min(clocks) / max(clocks)
    return ratio if CLOSE * ratio <= fastest_share(run) <= ratio else None


def fastest_share(run: PublishedRun) -> float:
    """Of the device's peak, what the tiles of the baseline's faster kernel reach on SMs that are full."""
    costs = costs_from_kernel_times(run.pipeline, run.device, run.kernel_ns, without_constants())
    rates = []
    for stage in run.pipeline.stages:
        count = occupancy_of(run.device, stage.kernel.block).blocks_per_sm
        together = count * costs.sharing[min(count, len(costs.sharing)) - 1]
        tile_ns = costs.tile_times(stage)
        assert isinstance(tile_ns, int)
        rates.append(stage.kernel.flops_per_block * together * run.device.sm_count / (1e-9 * tile_ns))
    return max(rates) / run.device.tensor_flops_per_s


@cache
def _clocks_hz() -> dict[str, list[float]]:
    """The clocks of each device whose rows were measured at two, by its name in the catalogue."""
    hz: dict[str, list[float]] = json.loads((PUBLISHED / "clocks.json").read_text())["clocks_hz"]
    return hz
