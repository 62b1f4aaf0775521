"""Plans listed before they are measured, to judge tuning by.

Example: 4 orders x 6 policies of the GPT-3 MLP and stream sync in the same orders, 28 plans.
`wavesim.evaluation.tuning_regret` lets the simulator pick one.
"""

from wavesim.codegen.policies import derive_policies
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import parse_order
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import Policy
from wavesim.plan.semaphores import Edge, edges_of

ORDERS = ("row", "column", "grouped:4", "grouped:8")
POLICY_COUNT = 6


def listed_plans(pipeline: Pipeline) -> dict[str, Plan]:
    """Stream sync and six policies, from one semaphore per tile to one for all, in four orders, by name."""
    edge = edges_of(pipeline)[0]
    policies = _spread(pipeline, edge)
    plans: dict[str, Plan] = {}
    for name in ORDERS:
        order = parse_order(name)
        plans[f"stream {name}"] = StreamSync(order)
        plans |= {f"{policy.name} {name}": SemaphoreSync(policy, order=order) for policy in policies}
    return plans


def _spread(pipeline: Pipeline, edge: Edge) -> list[Policy]:
    """Tile and row sync, and as many others, evenly over the derived ones."""
    derived = derive_policies(pipeline, edge)
    named = [entry for entry in derived if entry.paper_name]
    others = [entry for entry in derived if not entry.paper_name]
    count = min(len(others), POLICY_COUNT - len(named))
    picked = [others[round(i * (len(others) - 1) / max(1, count - 1))] for i in range(count)]
    return [entry.policy for entry in [*named, *picked]]
