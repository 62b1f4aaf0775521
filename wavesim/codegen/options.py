"""Options: what a plan can leave out on this device, decided from occupancy and grids, with the reason.

Example: 96 + 96 blocks on 132 SMs with two blocks each all fit at once, so consumers can never keep a
producer out and the wait-kernel may go; 384 + 768 blocks do not, and it stays.
Source: paper, IV-C. Its rule for the wait-kernel ("less than two waves") is unsafe: enough consumers can
fill the GPU before the first producer is issued. Here the safety check decides.
"""

from dataclasses import dataclass, replace

from wavesim.codegen.formulas import policy_formula
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import RowMajor
from wavesim.plan.plan import Plan
from wavesim.plan.resolved import ResolvedPlan, resolve
from wavesim.safety.deadlock import safety_of

AVOID_WAIT_KERNEL = "avoid wait-kernel"
AVOID_CUSTOM_ORDER = "avoid custom order"
REORDER_LOADS = "reorder tile loads"
PLAIN_STORE = "plain store"


@dataclass(frozen=True)
class Option:
    """One option of one stage or dependency (`subject`), whether it is used, and why or why not."""

    name: str
    subject: str
    is_used: bool
    why: str


def options_for(pipeline: Pipeline, plan: Plan, device: Device) -> tuple[Option, ...]:
    """Every option of a plan; none without semaphores, where nothing is there to be left out."""
    kernels = kernel_options(pipeline, plan)
    return (_wait_kernel(pipeline, plan, device), *kernels) if plan.launch.is_multi_stream else kernels


def kernel_options(pipeline: Pipeline, plan: Plan) -> tuple[Option, ...]:
    """Those options of a plan that kernels are compiled with: all but the wait-kernel's, on any device.

    Of a plan with semaphores; blocks of a persistent kernel fetch their tiles whatever the order.
    """
    if not plan.sync.has_semaphores:
        return ()
    resolved, is_issued = resolve(pipeline, plan), not plan.schedule.fetches_tiles
    return (
        *(_custom_order(stage, resolved) for stage in pipeline.stages if is_issued),
        *(_reorder_loads(dependency.consumer.stage) for dependency in pipeline.dependencies),
        *(_plain_store(resolved, edge) for edge in resolved.edges),
    )


def without_option(options: tuple[Option, ...], name: str) -> tuple[Option, ...]:
    """The same with one option left off everywhere, as for a comparison."""
    return tuple(
        replace(option, is_used=False, why="switched off") if option.name == name else option
        for option in options
    )


def is_used(options: tuple[Option, ...], name: str, subject: str) -> bool:
    """Whether an option is used for a stage or dependency."""
    return any(option.is_used for option in options if (option.name, option.subject) == (name, subject))


def on_any_grid(options: tuple[Option, ...], resolved: ResolvedPlan) -> tuple[Option, ...]:
    """The options with those left off that hold only on the pipeline's own grids.

    On a grid of one tile row `Grouped(8)` is row-major and blockIdx would do; on larger grids it is not.
    """
    orders = {name: resolved.plan.order_of(name) for name in resolved.names}
    row_major = {name for name, order in orders.items() if order == RowMajor()}
    formulas = {edge: policy_formula(array.policy, None) for edge, array in resolved.array_of.items()}
    alone = {" -> ".join(edge) for edge, formula in formulas.items() if formula and formula.value == "1"}
    holds = {AVOID_CUSTOM_ORDER: row_major, PLAIN_STORE: alone}
    return tuple(
        option
        if option.subject in holds.get(option.name, {option.subject})
        else replace(option, is_used=False, why="it does not hold on every grid")
        for option in options
    )


def _wait_kernel(pipeline: Pipeline, plan: Plan, device: Device) -> Option:
    without = replace(plan, launch=plan.launch.without_wait_kernel)
    verdict = safety_of(pipeline, without, device, carveout="full")
    why = f"{verdict.reason}; rests on {verdict.rests_on}" if verdict.is_safe else verdict.reason
    return Option(AVOID_WAIT_KERNEL, pipeline.name, verdict.is_safe, why)


def _custom_order(stage: Stage, resolved: ResolvedPlan) -> Option:
    if resolved.is_row_major(stage.name):
        why = "the order is row-major, the order in which blocks are issued: blockIdx says which tile it is"
        return Option(AVOID_CUSTOM_ORDER, stage.name, is_used=True, why=why)
    order = resolved.plan.order_of(stage.name)
    tiles = order.sequence(stage.grid)
    first = next(i for i, (ours, theirs) in enumerate(zip(tiles, stage.grid, strict=True)) if ours != theirs)
    why = (
        f"the order {order.name} differs from the order in which blocks are issued, first at "
        f"position {first}: tile {tiles[first]}; blocks fetch their position from a counter"
    )
    return Option(AVOID_CUSTOM_ORDER, stage.name, is_used=False, why=why)


def _reorder_loads(stage: Stage) -> Option:
    if stage.work.multiplies_weights:
        why = "only A comes from a producer: B is loaded before the wait, and its latency hides the wait"
        return Option(REORDER_LOADS, stage.name, is_used=True, why=why)
    why = "nothing is known of what this kernel loads besides its producers' tiles; load that before the wait"
    return Option(REORDER_LOADS, stage.name, is_used=False, why=why)


def _plain_store(resolved: ResolvedPlan, edge: tuple[str, str]) -> Option:
    most, subject = max(resolved.array_of[edge].table.value_of_tile), " -> ".join(edge)
    if most == 1:
        why = "every semaphore has one poster, which can store 1 (release) in place of an atomic add"
        return Option(PLAIN_STORE, subject, is_used=True, why=why)
    why = f"up to {most} tiles post the same semaphore, which needs an atomic add"
    return Option(PLAIN_STORE, subject, is_used=False, why=why)
