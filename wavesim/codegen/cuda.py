"""generate(): a self-contained CUDA header of a pipeline's orders, policies and options.

Example: for the GPT-3 MLP under row semaphores the header has `struct gemm1` and `struct gemm2`, which say
which tile a block computes, and `struct gemm1_to_gemm2`, with `semaphore(x, y) = y`, `value(x, y) = columns`,
and what a consumer tile reads. Its first comment lists the lines to add to a kernel. It includes
nothing, compiles with nvcc and NVRTC, and its formulas also with any C++17 compiler, for tests.
"""

from itertools import chain
from typing import Literal

from wavesim.codegen.any_grid import on_any_grid
from wavesim.codegen.cuda_text import Sizes
from wavesim.codegen.dependency_text import array_lines
from wavesim.codegen.header_text import ARITHMETIC, PROLOGUE, primitives
from wavesim.codegen.host_text import host_lines
from wavesim.codegen.names import Names, namespace_of
from wavesim.codegen.options import Option, options_for
from wavesim.codegen.run_text import run_lines
from wavesim.codegen.stage_text import StageLinks, stage_lines, start_of
from wavesim.codegen.usage_text import usage_lines
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan, check_plan
from wavesim.plan.semaphores import SemaphoreArray, semaphore_arrays
from wavesim.safe_io.arguments import require_types

SizesWord = Literal["constant", "runtime"]


def generate(
    pipeline: Pipeline,
    plan: Plan,
    device: Device,
    namespace: str | None = None,
    *,
    sizes: SizesWord = "constant",
) -> str:
    """The header's text; everything is in `namespace`, by default the pipeline's name.

    With `sizes="runtime"` the grids are data members that the host fills (`run_with`), so that one compiled
    kernel serves every size: every pipeline for which the text comes out the same. Orders and policies must
    then have a formula.

    Raises `DescriptionError` for those that have none, for plans, orders and policies that don't fit the
    pipeline, and for Stream-K.
    """
    require_types("generate", pipeline=(pipeline, Pipeline), device=(device, Device))
    check_plan(pipeline, plan)
    if sizes not in ("constant", "runtime"):
        raise DescriptionError(f"sizes is {sizes!r}; it must be 'constant' or 'runtime'")
    if plan.schedule.is_split_persistent:
        raise DescriptionError(
            f"{plan.label}: blocks have lists of parts of tiles, which a header does not describe. Use "
            "schedule=TilePerBlock() or Persistent()"
        )
    names, mode = Names.of(pipeline), Sizes(is_constant=sizes == "constant")
    options = options_for(pipeline, plan, device)
    if not mode.is_constant:
        options = on_any_grid(options, pipeline, plan)
    arrays = semaphore_arrays(pipeline, plan)
    space = namespace_of(pipeline.name if namespace is None else namespace)
    parts = [
        *usage_lines(pipeline, plan, device, options, names, space, mode),
        PROLOGUE,
        f"namespace {space} {{",
        "",
        *counter_lines(pipeline, sum(array.table.count for array in arrays), mode),
        "",
        ARITHMETIC,
        primitives(),
        *chain.from_iterable(array_lines(pipeline, array, options, mode, names) for array in arrays),
        *chain.from_iterable(
            _stage(pipeline, stage, plan, options, arrays, mode, names) for stage in pipeline.stages
        ),
        *([] if mode.is_constant else run_lines(pipeline, arrays, names, space)),
        *host_lines(pipeline, arrays, names, mode),
        f"}}  // namespace {space}",
    ]
    return "\n".join(parts) + "\n"


def _stage(
    pipeline: Pipeline,
    stage: Stage,
    plan: Plan,
    options: tuple[Option, ...],
    arrays: tuple[SemaphoreArray, ...],
    sizes: Sizes,
    names: Names,
) -> list[str]:
    links = StageLinks.of(stage.name, arrays)
    start = start_of(stage, plan, options, links)
    return stage_lines(pipeline, stage, plan, options, links, start, sizes, names)


def counter_lines(pipeline: Pipeline, semaphores: int, sizes: Sizes) -> list[str]:
    """Where each counter is."""
    stages = len(pipeline.stages)
    lines = [
        "// All counters are unsigned, in one array. Zero before every run: one of started blocks per stage,",
        "// and the semaphores. Zero once: gave_up, where a wait that lasts too long says what for.",
        f"constexpr int gave_up = {stages}, first_semaphore = {stages + 1};",
    ]
    if sizes.is_constant:
        lines.append(
            f"constexpr int semaphore_count = {semaphores}, counter_count = {stages + 1 + semaphores};"
        )
    return lines
