"""CUDA text for the host: zero the counters before a run, and ask after it whether every tile came.

Example: `prepare_run(counters, stream)` before the first launch, `check_run(counters, missing)` after the
last: anything but cudaSuccess means that outputs are not whole, and `missing` says "a tile of gemm1".
"""

from collections.abc import Iterator, Sequence

from wavesim.codegen.cuda_text import INDENT, Sizes
from wavesim.codegen.header_text import HOST_FUNCTIONS
from wavesim.codegen.names import Names
from wavesim.codegen.stage_text import member_of
from wavesim.model.pipeline import Pipeline
from wavesim.plan.semaphores import SemaphoreArray


def host_lines(
    pipeline: Pipeline, arrays: Sequence[SemaphoreArray], names: Names, sizes: Sizes
) -> Iterator[str]:
    """Three functions; those that call CUDA are there where its runtime API is, as with nvcc."""
    is_constant = sizes.is_constant
    parameters, argument = ("", "") if is_constant else ("const Run& run, ", "run, ")
    yield from _missing_lines(pipeline, arrays, names, sizes, parameters)
    yield "\n#if defined(CUDART_VERSION) && !defined(__CUDACC_RTC__)"
    count = "counter_count" if is_constant else "run.counter_count"
    yield from HOST_FUNCTIONS.format(parameters=parameters, argument=argument, count=count).splitlines()
    yield "#endif\n"


def _missing_lines(
    pipeline: Pipeline, arrays: Sequence[SemaphoreArray], names: Names, sizes: Sizes, parameters: str
) -> Iterator[str]:
    yield "// What a wait that gave up had waited for, by what it wrote to counters[gave_up]."
    used = parameters if arrays else parameters.replace(" run", "")
    yield f"inline const char* missing_tile({used}unsigned value) {{"
    yield f"{INDENT}const int counter = static_cast<int>(value) - 1;"
    yield f"{INDENT}if (counter < 0) return nullptr;"
    for number, stage in enumerate(pipeline.stages):
        yield f'{INDENT}if (counter == {number}) return "the start of {names.stage(stage.name)}";'
    for array in arrays:
        edge = array.edges[0]
        held = f"run.{names.stage(edge[1])}.{member_of(edge, edge[1], names)}."
        at = f"{names.edge(edge)}::" if sizes.is_constant else held
        yield f"{INDENT}if (counter >= {at}first && counter < {at}first + {at}count())"
        yield f'{INDENT * 2}return "a tile of {names.stage(array.producer)}";'
    yield from (f'{INDENT}return "a tile";', "}")
