"""CUDA text that fills a header with grids at run time: `run_with(grids...)`, one member per stage.

Example: `auto run = mlp::run_with({24, 8, 1}, {48, 8, 1})` on the host; `run.gemm1` is the parameter that
the first kernel takes, `run.counter_count` how many counters to zero.
"""

from collections.abc import Iterator, Sequence

from wavesim.codegen.cuda_text import INDENT
from wavesim.codegen.names import Names
from wavesim.codegen.stage_text import StageLinks
from wavesim.model.pipeline import Pipeline
from wavesim.plan.semaphores import Edge, SemaphoreArray


def run_lines(
    pipeline: Pipeline, arrays: Sequence[SemaphoreArray], names: Names, space: str
) -> Iterator[str]:
    """The structs `Grid` and `Run` and the function between them."""
    yield from ("// Tile columns and rows and split-K slices of a stage.", "struct Grid {")
    yield from (f"{INDENT}int columns, rows, slices;", "};\n")
    yield from ("// Every stage on the grids of one run: pass each kernel its own.", "struct Run {")
    for stage in pipeline.stages:
        word = names.stage(stage.name)
        yield f"{INDENT}::{space}::{word} {word};"
    yield from (f"{INDENT}int counter_count;", "};\n")
    grids = [f"Grid grid_of_{names.stage(stage.name)}" for stage in pipeline.stages]
    yield from ("WAVESIM_FUNCTION constexpr Run run_with(", INDENT + f",\n{INDENT}".join(grids) + ") {")
    yield f"{INDENT}int counter_count = first_semaphore;"
    for number, array in enumerate(arrays):
        grid = f"grid_of_{names.stage(array.producer)}"
        members = f"{grid}.columns, {grid}.rows, counter_count"
        yield f"{INDENT}const {names.edge(array.edges[0])} array_{number}{{{members}}};"
        yield f"{INDENT}counter_count += array_{number}.count();"
    yield f"{INDENT}return {{"
    for stage in pipeline.stages:
        links, grid = StageLinks.of(stage.name, arrays), f"grid_of_{names.stage(stage.name)}"
        values = [f"{grid}.columns", f"{grid}.rows", f"{grid}.slices"]
        values += [_member(arrays, array, array.edges[0]) for array in links.outputs]
        values += [_member(arrays, array, edge) for array, edge in links.inputs]
        yield f"{INDENT * 2}{{{', '.join(values)}}},"
    yield from (f"{INDENT * 2}counter_count}};", "}\n")


def _member(arrays: Sequence[SemaphoreArray], array: SemaphoreArray, edge: Edge) -> str:
    """Edges after an array's first one derive from it, and are initialised by it."""
    name = f"array_{arrays.index(array)}"
    return name if edge == array.edges[0] else f"{{{name}}}"
