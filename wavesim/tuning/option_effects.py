"""What the options are worth: the paper's Table V, predicted.

Example: at M = 128 the GPT-3 MLP under tile semaphores, first with everything, then with tile loads
reordered (+R), without the wait-kernel too (+WR), and with blocks that take their tile from blockIdx (+WRT).
"""

from dataclasses import dataclass, replace

from wavesim.costs.cost_model import CostModel
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import RowMajor
from wavesim.plan.plan import Plan, SemaphoreSync
from wavesim.plan.policy import Policy, TileSync
from wavesim.safety.deadlock import safety_of
from wavesim.sim.simulation import simulate

VARIANTS = ("vanilla", "+R", "+WR", "+WRT")


@dataclass(frozen=True)
class OptionEffect:
    """One row of the table. `note` says what of it could not be applied, "" if nothing."""

    variant: str
    plan: Plan
    predicted_ns: int
    note: str


def predict_options(
    pipeline: Pipeline, device: Device, costs: CostModel, policy: Policy | None = None
) -> tuple[OptionEffect, ...]:
    """The four variants under a policy (by default one semaphore per tile) in row-major order.

    `costs` are those of kernels with reordered loads that fetch their tiles, as ours do. Without R a block is
    taken to look at its semaphores for as long again, with no load to hide behind; without a counter
    (T) it draws nothing. W is applied only where the safety check allows it.
    """
    plan = SemaphoreSync(TileSync() if policy is None else policy, order=RowMajor())
    without = replace(plan, launch=plan.launch.without_wait_kernel)
    verdict = safety_of(pipeline, without, device)
    last, note = (without, "") if verdict.is_safe else (plan, f"the wait-kernel stays: {verdict.reason}")
    rows = (
        ("vanilla", plan, replace(costs, poll_ns=2 * costs.poll_ns), ""),
        ("+R", plan, costs, ""),
        ("+WR", last, costs, note),
        ("+WRT", last, replace(costs, tile_fetch_ns=0), note),
    )
    return tuple(
        OptionEffect(variant, chosen, simulate(pipeline, chosen, device, own).time_ns, words)
        for variant, chosen, own, words in rows
    )
