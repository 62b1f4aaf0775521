"""CUDA headers of a pipeline's orders, policies and options: of all stages, or of one stage alone.

Example: for the GPT-3 MLP under row semaphores `generate` writes `struct gemm1` and `struct gemm2`, which say
which tile a block computes, and `struct gemm1_to_gemm2`, with `semaphore(x, y) = y`, `value(x, y) = columns`,
and what a consumer tile reads. Its first comment lists the lines to add to a kernel. It includes nothing,
compiles with nvcc and NVRTC, and its formulas also with any C++17 compiler, for tests. `stage_header` writes
one stage for a kernel library: the second GEMM is `struct generated::stage`, which waits for `producer_0`,
word for word the same at every number of tokens, so that one compiled kernel serves them all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from wavesim.codegen.cuda_text import HeaderFacts, Sizes
from wavesim.codegen.dependency_text import array_lines
from wavesim.codegen.formulas import order_formula, policy_formula
from wavesim.codegen.header_text import ARITHMETIC, PROLOGUE, primitives
from wavesim.codegen.host_text import host_lines
from wavesim.codegen.names import Names, namespace_of
from wavesim.codegen.options import Option, kernel_options, on_any_grid, options_for
from wavesim.codegen.stage_text import stage_lines, start_of
from wavesim.codegen.usage_text import usage_lines
from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import Plan, check_plan
from wavesim.plan.resolved import ResolvedPlan, resolve
from wavesim.plan.semaphores import Edge, SemaphoreArray
from wavesim.safe_io.annotated import require_types
from wavesim.safety.deadlock import safety_of

SizesWord = Literal["constant", "runtime"]
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
    if plan.schedule.is_split_persistent or plan.schedule.has_work_lists:
        raise DescriptionError(
            f"{plan.label}: blocks have lists of their own, which a header does not describe. Use "
            "schedule=TilePerBlock() or Persistent()"
        )
    resolved, mode = resolve(pipeline, plan, device), Sizes(is_constant=sizes == "constant")
    names, options = Names.of(pipeline), options_for(pipeline, plan, device)
    space = namespace_of(pipeline.name if namespace is None else namespace)
    header = _header(resolved, options, names, mode, space)
    arrays = dict.fromkeys(resolved.arrays)
    parts = [
        *usage_lines(header, device.name, safety_of(pipeline, plan, device, carveout="full")),
        *_text(header, arrays, pipeline.stages),
        *host_lines(header),
        f"}}  // namespace {space}",
    ]
    return "\n".join(parts) + "\n"


def stage_header(
    pipeline: Pipeline,
    plan: Plan,
    stage: str,
    options: tuple[Option, ...] | None = None,
) -> StageHeader:
    """The header of the stage of that name; `options` are by default all that hold for the plan."""
    own, resolved = pipeline.stage(stage), resolve(pipeline, plan)
    chosen = kernel_options(pipeline, plan) if options is None else options
    sizes = Sizes(is_constant=not _has_formulas(resolved, stage))
    header = _header(resolved, chosen, _neutral_names(resolved, stage), sizes, SPACE)
    header = replace(header, keeps_alignment=False)  # our kernels align their arrays themselves
    touched: dict[SemaphoreArray, list[Edge]] = {array: [array.edges[0]] for array in resolved.outputs(stage)}
    for producer, array in resolved.inputs(stage).items():
        touched.setdefault(array, []).append((producer, stage))
    arrays = {array: tuple(edges) for array, edges in touched.items()}
    text = "\n".join([*_text(header, arrays, [own]), f"}}  // namespace {SPACE}"]) + "\n"
    start = start_of(header, stage)
    return StageHeader(text, _sizes(header, stage), sizes.is_constant, start.draws or start.counts)


def _header(
    resolved: ResolvedPlan, options: tuple[Option, ...], names: Names, sizes: Sizes, space: str
) -> HeaderFacts:
    """What a header is written from: without constant sizes, with options that hold on every grid."""
    is_narrowed = not sizes.is_constant and resolved.plan.sync.has_semaphores
    chosen = on_any_grid(options, resolved) if is_narrowed else options
    return HeaderFacts(resolved, chosen, names, sizes, space)


def _text(
    header: HeaderFacts, arrays: Mapping[SemaphoreArray, tuple[Edge, ...] | None], stages: Iterable[Stage]
) -> list[str]:
    """The header up to what the host needs. Of an array with edges named, only those are written."""
    return [
        PROLOGUE,
        f"namespace {header.space} {{",
        "",
        *_counter_lines(header),
        "",
        ARITHMETIC,
        primitives(),
        *chain.from_iterable(array_lines(header, array, edges) for array, edges in arrays.items()),
        *chain.from_iterable(stage_lines(header, stage) for stage in stages),
    ]


def _counter_lines(header: HeaderFacts) -> list[str]:
    first, semaphores = header.first_semaphore, header.resolved.semaphore_count
    lines = [
        "// All counters are unsigned, in one array. Zero before every run: one of started blocks per stage,",
        "// and the semaphores. Zero once: gave_up, where a wait that lasts too long says what for.",
        f"constexpr int gave_up = {first - 1}, first_semaphore = {first};",
    ]
    if header.sizes.is_constant:
        lines.append(f"constexpr int semaphore_count = {semaphores}, counter_count = {first + semaphores};")
    return lines


def _touched_arrays(resolved: ResolvedPlan, stage: str) -> list[SemaphoreArray]:
    return [*resolved.outputs(stage), *resolved.inputs(stage).values()]


def _has_formulas(resolved: ResolvedPlan, stage: str) -> bool:
    return order_formula(resolved.plan.order_of(stage)) is not None and all(
        policy_formula(array.policy, None) is not None for array in _touched_arrays(resolved, stage)
    )


def _neutral_names(resolved: ResolvedPlan, stage: str) -> Names:
    """Words that many pipelines share: `stage`, `consumer_0`, `producer_0`."""
    renamed, edges = {stage: "stage"}, [array.edges[0] for array in resolved.outputs(stage)]
    for edge in edges:
        renamed.setdefault(edge[1], f"consumer_{len(renamed) - 1}")
    for number, producer in enumerate(resolved.inputs(stage)):
        renamed.setdefault(producer, f"producer_{number}")
        edges.append((producer, stage))
    return Names.neutral(renamed, edges)


def _sizes(header: HeaderFacts, stage: str) -> tuple[int, ...]:
    grid = header.resolved.pipeline.stage(stage).grid
    sizes = [grid.x, grid.y, grid.z]
    for array in _touched_arrays(header.resolved, stage):
        sizes += [array.grid.x, array.grid.y, array.first + header.first_semaphore]
    return tuple(sizes)
