"""Exercises of notebook 4: how many consumers are too many, a repair, and when no wait-kernel is needed."""

from typing import Any

from wavesim.costs.cost_model import zero_cost
from wavesim.errors import DeadlockError
from wavesim.model import device as devices
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import TileSync
from wavesim.safe_io.annotated import typed
from wavesim.safety.deadlock import safety_of
from wavesim.sim.simulation import simulate
from wavesim.teaching.exercises import Exercise, require, whole
from wavesim.trace.metrics import metrics_of
from wavesim.workloads.figure_one import TILE_NS, toy


@typed
def deadlocks(head_start: int, sm_count: int) -> bool:
    """Whether so many consumers first, and no wait-kernel, stop the toy for good."""
    plan = SemaphoreSync(TileSync(), wait_kernel=False, head_start=head_start)
    device = devices.load("toy").with_sm_count(sm_count)
    try:
        simulate(toy(), plan, device, zero_cost(toy(), TILE_NS))
    except DeadlockError:
        return True
    return False


def grade_too_many(answer: Any) -> str:
    """The fewest consumer blocks that deadlock the toy on 6 SMs if they come first."""
    count = whole(answer, 0, 12)
    require(
        deadlocks(count, 6),
        f"with {count} first not every SM is held: the producer finishes on what is left, slowly.",
    )
    require(not deadlocks(count - 1, 6), f"{count} deadlock, but so do fewer.")
    return "Six spinning blocks hold six SMs; one fewer, and the producer gets through on what is left."


def grade_repair(answer: Any) -> str:
    """A plan for the toy on 4 SMs that cannot deadlock and takes 3 waves."""
    require(isinstance(answer, Plan), "give a plan: SemaphoreSync(...).")
    device = devices.load("toy")
    verdict = safety_of(toy(), answer, device)
    require(verdict.is_safe, verdict.reason)
    waves = metrics_of(simulate(toy(), answer, device, zero_cost(toy(), TILE_NS))).waves
    require(waves == 3, f"safe, but it takes {waves:g} waves; 3 are possible.")
    require(
        answer.sync.has_semaphores and not answer.schedule.is_fused,
        "safe, and 3 waves, but no SemaphoreSync of two kernels: that is what you are asked to repair.",
    )
    return "The wait-kernel lets the consumer's launch go only when the producer's blocks are being issued."


def grade_no_wait_kernel(answer: Any) -> str:
    """The fewest SMs on which the toy cannot deadlock without a wait-kernel."""
    count, plan = whole(answer, 1, 64), SemaphoreSync(TileSync(), wait_kernel=False)
    device = devices.load("toy")
    verdict = safety_of(toy(), plan, device.with_sm_count(count))
    require(verdict.is_safe, verdict.reason.partition(". Keep")[0] + ".")
    require(
        not safety_of(toy(), plan, device.with_sm_count(count - 1)).is_safe,
        f"{count} are enough, but so is one fewer.",
    )
    return "All six consumers may spin at once, and one SM is still there for the producer."


EXERCISES = (
    Exercise("4.1", "The fewest consumers first that deadlock the toy on 6 SMs", grade_too_many),
    Exercise("4.2", "A plan for the toy that cannot deadlock and takes 3 waves", grade_repair),
    Exercise("4.3", "The fewest SMs on which the toy needs no wait-kernel", grade_no_wait_kernel),
)
