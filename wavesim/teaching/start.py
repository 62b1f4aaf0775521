"""Notebook 1: waves of the toy, and sizes at which semaphores have something to fill."""

from typing import Any

from wavesim.costs.cost_model import zero_cost
from wavesim.model import device as devices
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.sim.simulation import simulate
from wavesim.trace.metrics import metrics_of
from wavesim.workloads.figure_one import TILE_NS, toy

SIZES = (768, 1280, 2048)


def _toy_waves(plan: Plan, sm_count: int) -> float:
    """Waves of Figure 1's two kernels under a plan on so many SMs."""
    device = devices.load("toy").with_sm_count(sm_count)
    waves = metrics_of(simulate(toy(), plan, device, zero_cost(toy(), TILE_NS))).waves
    assert waves is not None, "the toy's tiles all take equally long"
    return waves


def _on_five_sms() -> dict[str, Any]:
    return {"stream": _toy_waves(StreamSync(), 5), "tile": _toy_waves(SemaphoreSync(TileSync()), 5)}


def _nothing_to_fill(count: int) -> dict[str, Any]:
    before, after = _toy_waves(StreamSync(), count), _toy_waves(SemaphoreSync(TileSync()), count)
    return {"before": before, "after": after, "gains_nothing": before == after, "full": 6 // count}


def _best_size(answer: Any) -> dict[str, Any]:
    """Of three sizes the one at which row semaphores gain most on an H200."""
    if answer not in SIZES:
        return {"is_asked": False, "sizes": SIZES}
    tiles = 24 * (answer // 128)
    return {"is_asked": True, "tiles": tiles, "filled": tiles / 132, "best": SIZES[0]}


GRADERS = {"1.1": _on_five_sms, "1.2": _nothing_to_fill, "1.3": _best_size}
