"""CUDA text for the host: prepare kernels, fill in the grids, zero the counters, ask for missing tiles.

Example: `prepare_kernel(gemm2, stream)` once for each kernel that has a stream of its own: it sets what the
plan's safety rests on and refuses what it does not cover. `prepare_run(counters, stream)` before the first
launch, `check_run(counters, missing)` after the last: anything but cudaSuccess means that outputs are not
whole, and `missing` says "a tile of gemm1". Where sizes are known at run time only, `auto run =
mlp::run_with({24, 8, 1}, {48, 8, 1})` comes first: `run.gemm1` is the parameter that the first kernel takes,
`run.counter_count` how many counters to zero.
"""

from collections.abc import Iterator

from wavesim.codegen.cuda_text import INDENT, HeaderFacts
from wavesim.codegen.header_text import HOST_FUNCTIONS, PREPARE_KERNEL, PREPARED_GUARD
from wavesim.plan.resolved import ResolvedPlan
from wavesim.plan.semaphores import Edge, SemaphoreArray


def host_lines(header: HeaderFacts) -> Iterator[str]:
    """Three functions; those that call CUDA are there where its runtime API is, as with nvcc."""
    is_constant = header.sizes.is_constant
    if not is_constant:
        yield from _run_lines(header)
    parameters, argument = ("", "") if is_constant else ("const Run& run, ", "run, ")
    yield from _missing_lines(header, parameters)
    yield "\n#if defined(CUDART_VERSION) && !defined(__CUDACC_RTC__)"
    count = "counter_count" if is_constant else "run.counter_count"
    guard = ""
    if has_streams(header.resolved):
        yield from PREPARE_KERNEL.splitlines()
        kernels = len(header.resolved.names) + header.resolved.plan.launch.wait_kernel
        guard = PREPARED_GUARD.format(kernels=kernels)
    yield from HOST_FUNCTIONS.format(
        parameters=parameters, argument=argument, count=count, guard=guard
    ).splitlines()
    yield "#endif\n"


def has_streams(resolved: ResolvedPlan) -> bool:
    """Whether kernels wait for kernels of other streams, which is safe only as they are then launched."""
    plan = resolved.plan
    return plan.sync.has_semaphores and plan.launch.is_multi_stream and not plan.schedule.is_fused


def _missing_lines(header: HeaderFacts, parameters: str) -> Iterator[str]:
    arrays, names = header.resolved.arrays, header.names
    yield "// What a wait that gave up had waited for, by what it wrote to counters[gave_up]."
    used = parameters if arrays else parameters.replace(" run", "")
    yield f"inline const char* missing_tile({used}unsigned value) {{"
    yield f"{INDENT}const int counter = static_cast<int>(value) - 1;"
    yield f"{INDENT}if (counter < 0) return nullptr;"
    for number, stage in enumerate(header.resolved.names):
        yield f'{INDENT}if (counter == {number}) return "the start of {names.stage(stage)}";'
    for array in arrays:
        edge = array.edges[0]
        at = header.sizes.reach(
            names.edge(edge), f"run.{names.stage(edge[1])}.{header.member(edge, edge[1])}"
        )
        yield f"{INDENT}if (counter >= {at}first && counter < {at}first + {at}count())"
        yield f'{INDENT * 2}return "a tile of {names.stage(array.producer)}";'
    yield from (f'{INDENT}return "a tile";', "}")


def _run_lines(header: HeaderFacts) -> Iterator[str]:
    resolved, names = header.resolved, header.names
    yield from ("// Tile columns and rows and split-K slices of a stage.", "struct Grid {")
    yield from (f"{INDENT}int columns, rows, slices;", "};\n")
    yield from ("// Every stage on the grids of one run: pass each kernel its own.", "struct Run {")
    for word in map(names.stage, resolved.names):
        yield f"{INDENT}::{header.space}::{word} {word};"
    yield from (f"{INDENT}int counter_count;", "};\n")
    grids = [f"Grid grid_of_{names.stage(stage)}" for stage in resolved.names]
    yield from ("WAVESIM_FUNCTION constexpr Run run_with(", INDENT + f",\n{INDENT}".join(grids) + ") {")
    yield f"{INDENT}int counter_count = first_semaphore;"
    for number, array in enumerate(resolved.arrays):
        grid = f"grid_of_{names.stage(array.producer)}"
        members = f"{grid}.columns, {grid}.rows, counter_count"
        yield f"{INDENT}const {names.edge(array.edges[0])} array_{number}{{{members}}};"
        yield f"{INDENT}counter_count += array_{number}.count();"
    yield f"{INDENT}return {{"
    for stage in resolved.names:
        grid = f"grid_of_{names.stage(stage)}"
        values = [f"{grid}.columns", f"{grid}.rows", f"{grid}.slices"]
        values += [_member(header, array, array.edges[0]) for array in resolved.outputs(stage)]
        values += [_member(header, array, (name, stage)) for name, array in resolved.inputs(stage).items()]
        yield f"{INDENT * 2}{{{', '.join(values)}}},"
    yield from (f"{INDENT * 2}counter_count}};", "}\n")


def _member(header: HeaderFacts, array: SemaphoreArray, edge: Edge) -> str:
    """Edges after an array's first one derive from it, and are initialised by it."""
    name = f"array_{header.resolved.arrays.index(array)}"
    return name if edge == array.edges[0] else f"{{{name}}}"
