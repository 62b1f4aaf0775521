"""Options that hold whatever the grids are, for headers whose sizes are known at run time only.

Example: on a grid of one tile row `Grouped(8)` is row-major and blockIdx would do; on larger grids it is not,
so a header that serves both lets blocks fetch their positions.
"""

from dataclasses import replace

from wavesim.codegen.formulas import policy_formula
from wavesim.codegen.options import AVOID_CUSTOM_ORDER, PLAIN_STORE, Option
from wavesim.model.pipeline import Pipeline
from wavesim.plan.order import RowMajor
from wavesim.plan.plan import Plan
from wavesim.plan.semaphores import edges_of


def on_any_grid(options: tuple[Option, ...], pipeline: Pipeline, plan: Plan) -> tuple[Option, ...]:
    """The options with those left off that hold only on the pipeline's own grids."""
    if not plan.sync.has_semaphores:
        return options
    row_major = {stage.name for stage in pipeline.stages if plan.order_of(stage.name) == RowMajor()}
    alone = {" -> ".join(edge) for edge in edges_of(pipeline) if _has_one_poster(plan, edge)}
    holds = {AVOID_CUSTOM_ORDER: row_major, PLAIN_STORE: alone}
    return tuple(
        option
        if option.subject in holds.get(option.name, {option.subject})
        else replace(option, is_used=False, why="it does not hold on every grid")
        for option in options
    )


def _has_one_poster(plan: Plan, edge: tuple[str, str]) -> bool:
    formula = policy_formula(plan.policy_of(*edge), None)
    return formula is not None and formula.value == "1"
