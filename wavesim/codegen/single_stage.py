"""The header of one stage alone, for a kernel library: neutral names, sizes at run time where formulas allow.

Example: the second GEMM of GPT-3's MLP under row semaphores gives `struct generated::stage`, which waits for
`producer_0`, word for word the same at every number of tokens: one compiled kernel serves them all, and
the launch passes the six integers `sizes`.
"""

from dataclasses import dataclass
from itertools import chain

from wavesim.codegen.any_grid import on_any_grid
from wavesim.codegen.cuda import counter_lines
from wavesim.codegen.cuda_text import Sizes
from wavesim.codegen.dependency_text import array_lines
from wavesim.codegen.formulas import order_formula, policy_formula
from wavesim.codegen.header_text import ARITHMETIC, PROLOGUE, primitives
from wavesim.codegen.names import Names
from wavesim.codegen.options import Option, kernel_options
from wavesim.codegen.stage_text import StageLinks, stage_lines, start_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim.plan.semaphores import SemaphoreArray, semaphore_arrays

SPACE = "generated"


@dataclass(frozen=True)
class StageHeader:
    """The text, in which the stage is `generated::stage`, and the integers of that struct's members in order.

    Where an order or a policy is a table, the grids are constants of the text and the struct is empty: a
    kernel then ignores `sizes`. `counts_blocks`: whether blocks that start show in the stage's counter.
    """

    text: str
    sizes: tuple[int, ...]
    is_constant: bool
    counts_blocks: bool


def stage_header(
    pipeline: Pipeline,
    plan: Plan,
    stage: str,
    options: tuple[Option, ...] | None = None,
) -> StageHeader:
    """The header of the stage of that name; `options` are by default all that hold for the plan."""
    own = pipeline.stage(stage)
    chosen = kernel_options(pipeline, plan) if options is None else options
    arrays = semaphore_arrays(pipeline, plan)
    links = StageLinks.of(stage, arrays)
    sizes = Sizes(is_constant=not _has_formulas(plan, stage, links))
    if not sizes.is_constant:
        chosen = on_any_grid(chosen, pipeline, plan)
    start = start_of(own, plan, chosen, links)
    names = _names(stage, links)
    touched: dict[SemaphoreArray, list[tuple[str, str]]] = {
        array: [array.edges[0]] for array in links.outputs
    }
    for array, edge in links.inputs:
        touched.setdefault(array, []).append(edge)
    parts = [
        PROLOGUE,
        f"namespace {SPACE} {{",
        "",
        *counter_lines(pipeline, sum(array.table.count for array in arrays), sizes),
        "",
        ARITHMETIC,
        primitives(),
        *chain.from_iterable(
            array_lines(pipeline, array, chosen, sizes, names, tuple(edges))
            for array, edges in touched.items()
        ),
        *stage_lines(pipeline, own, plan, chosen, links, start, sizes, names),
        f"}}  // namespace {SPACE}",
    ]
    text = "\n".join(parts) + "\n"
    return StageHeader(text, _sizes(pipeline, stage, links), sizes.is_constant, start.draws or start.counts)


def _has_formulas(plan: Plan, stage: str, links: StageLinks) -> bool:
    arrays = [*links.outputs, *(array for array, _ in links.inputs)]
    return order_formula(plan.order_of(stage)) is not None and all(
        policy_formula(array.policy, None) is not None for array in arrays
    )


def _names(stage: str, links: StageLinks) -> Names:
    renamed = {stage: "stage"}
    for array in links.outputs:
        renamed.setdefault(array.edges[0][1], f"consumer_{len(renamed) - 1}")
    for number, (_, edge) in enumerate(links.inputs):
        renamed.setdefault(edge[0], f"producer_{number}")
    edges = [*(array.edges[0] for array in links.outputs), *(edge for _, edge in links.inputs)]
    return Names.neutral(renamed, edges)


def _sizes(pipeline: Pipeline, stage: str, links: StageLinks) -> tuple[int, ...]:
    grid = pipeline.stage(stage).grid
    arrays = [*links.outputs, *(array for array, _ in links.inputs)]
    offset = len(pipeline.stages) + 1  # counters before the semaphores: gave_up and the stages'
    found = [grid.x, grid.y, grid.z]
    for array in arrays:
        producer = pipeline.stage(array.producer).grid
        found += [producer.x, producer.y, array.first + offset]
    return tuple(found)
