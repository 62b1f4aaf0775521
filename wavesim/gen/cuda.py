"""generate(): a self-contained CUDA header of a pipeline's orders, policies and options.

Picture: for the GPT-3 MLP under row semaphores the header has `struct gemm1` and `struct gemm2`, which say
which tile a block computes, and `struct gemm1_to_gemm2`, with `semaphore(x, y) = y`, `value(x, y) = 24`,
and what a consumer tile reads. Its first comment lists the lines to add to a kernel. It includes
nothing, compiles with nvcc and NVRTC, and its formulas also with any C++17 compiler, for tests.
"""

from itertools import chain

from wavesim.errors import DescriptionError
from wavesim.gen.cuda_text import ARITHMETIC, PRIMITIVES, PROLOGUE, identifier
from wavesim.gen.dependency_text import array_lines
from wavesim.gen.options import options_for
from wavesim.gen.policies import edges_of
from wavesim.gen.semaphore_arrays import arrays_of, edge_name
from wavesim.gen.stage_text import stage_lines
from wavesim.gen.usage_text import usage_lines
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.plan import Plan, check_plan


def generate(pipeline: Pipeline, plan: Plan, device: Device, namespace: str | None = None) -> str:
    """The header's text; everything is in `namespace`, by default the pipeline's name.

    Raises `DescriptionError` for plans, orders and policies that don't fit the pipeline, and for
    names that become the same in C++.
    """
    check_plan(pipeline, plan)
    _require_distinct(pipeline)
    options = options_for(pipeline, plan, device)
    arrays = arrays_of(pipeline, plan)
    space = identifier(pipeline.name if namespace is None else namespace)
    semaphores = sum(array.table.count for array in arrays)
    stages = len(pipeline.stages)
    parts = [
        *usage_lines(pipeline, plan, device, options, space),
        PROLOGUE,
        f"namespace {space} {{",
        "",
        "// All counters are unsigned, in one array, and zero before every run: semaphores, one counter of",
        "// started blocks per stage, and one that a waiter sets when it gives up.",
        f"constexpr int semaphore_count = {semaphores}, gave_up = {semaphores + stages};",
        f"constexpr int counter_count = {semaphores + stages + 1};",
        "",
        ARITHMETIC,
        PRIMITIVES,
        *chain.from_iterable(array_lines(pipeline, array, options) for array in arrays),
        *chain.from_iterable(
            stage_lines(
                stage, plan, options, semaphores + index, [a for a in arrays if a.producer == stage.name]
            )
            for index, stage in enumerate(pipeline.stages)
        ),
        f"}}  // namespace {space}",
    ]
    return "\n".join(parts) + "\n"


def _require_distinct(pipeline: Pipeline) -> None:
    words = {stage.name: identifier(stage.name) for stage in pipeline.stages}
    words |= {" -> ".join(edge): edge_name(edge) for edge in edges_of(pipeline)}
    owners: dict[str, str] = {}
    for name, word in words.items():
        if word in owners:
            raise DescriptionError(
                f"pipeline {pipeline.name}: {owners[word]!r} and {name!r} are both {word} in C++; rename one"
            )
        owners[word] = name
