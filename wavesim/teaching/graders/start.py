"""Exercises of notebook 1: waves of the toy, and sizes at which semaphores have something to fill."""

from typing import Any

from wavesim.costs.cost_model import zero_cost
from wavesim.model import device as devices
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import Exercise, pair, require, whole
from wavesim.trace.metrics import metrics_of
from wavesim.workloads.figure_one import TILE_NS, toy

SIZES = (768, 1280, 2048)


def toy_waves(plan: Plan, sm_count: int) -> float:
    """Waves of Figure 1's two kernels under a plan on so many SMs."""
    device = devices.load("toy").with_sm_count(sm_count)
    waves = metrics_of(simulate(toy(), plan, device, zero_cost(toy(), TILE_NS))).waves
    assert waves is not None, "the toy's tiles all take equally long"
    return waves


def grade_five_sms(answer: Any) -> str:
    """On five SMs: waves on one stream, and with tile semaphores."""
    stream, tile = pair(answer, "waves on one stream, waves with tile semaphores")
    require(
        stream == toy_waves(StreamSync(), 5),
        f"{stream} waves on one stream? Each kernel has 6 tiles for 5 SMs, and the second starts when the "
        "first has ended.",
    )
    require(
        tile == toy_waves(SemaphoreSync(TileSync()), 5),
        f"{tile} waves with semaphores? 12 tiles on 5 SMs, and a wave once begun takes a whole tile time.",
    )
    return (
        "The one tile in each last wave costs as much as a full wave; semaphores fill one of the two holes."
    )


def grade_nothing_to_fill(answer: Any) -> str:
    """A number of SMs from 2 to 5 on which tile semaphores gain nothing."""
    count = whole(answer, 2, 5)
    before, after = toy_waves(StreamSync(), count), toy_waves(SemaphoreSync(TileSync()), count)
    require(
        before == after,
        f"on {count} SMs they take {after:g} waves instead of {before:g}. When is a last wave full?",
    )
    return f"6 tiles fill {6 // count} waves of {count} SMs to the last slot: there is no hole to fill."


def grade_best_size(answer: Any) -> str:
    """Of 768, 1,280 and 2,048 tokens, the size at which row semaphores gain most on an H200."""
    require(answer in SIZES, f"{answer!r} is none of {SIZES}.")
    filled = 24 * (answer // 128) / 132
    require(
        answer == 768,
        f"gemm1 has {24 * (answer // 128)} tiles there, {filled:.2f} waves of 132, so that its last wave is "
        "nearly full. Look for one that is nearly empty.",
    )
    return (
        "144 tiles are 1.09 waves: eleven of twelve SMs idle in gemm1's second wave. Try it in the explorer."
    )


EXERCISES = (
    Exercise("1.1", "Waves of the toy on 5 SMs: (one stream, tile semaphores)", grade_five_sms),
    Exercise("1.2", "SMs, 2 to 5, on which semaphores gain nothing on the toy", grade_nothing_to_fill),
    Exercise("1.3", "768, 1280 or 2048 tokens: where do row semaphores gain most?", grade_best_size),
)
