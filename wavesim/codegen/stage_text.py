"""CUDA text of a stage: which tile a block computes, and what it posts when the tile is there.

Example: `struct gemm1` with its grid, `tile_at(position)`, `begin(counters)` and `post(counters, tile)`, and
what these are made of, for kernels whose warps have roles of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wavesim.codegen.cuda_text import INDENT, Sizes, table_lines
from wavesim.codegen.dependency_text import formula_of, has_one_poster
from wavesim.codegen.formulas import order_formula
from wavesim.codegen.names import Names
from wavesim.codegen.options import AVOID_CUSTOM_ORDER, REORDER_LOADS, Option, is_used
from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import Order, SlicesLast
from wavesim.plan.plan import Plan
from wavesim.plan.semaphores import Edge, SemaphoreArray
from wavesim.safe_io.escaping import cuda_comment


@dataclass(frozen=True)
class StageLinks:
    """What a stage posts, and what it awaits: an array per producer, with the edge that reads it."""

    outputs: tuple[SemaphoreArray, ...]
    inputs: tuple[tuple[SemaphoreArray, Edge], ...]

    @classmethod
    def of(cls, stage: str, arrays: Sequence[SemaphoreArray]) -> "StageLinks":
        """Of all arrays of a plan."""
        return cls(
            tuple(array for array in arrays if array.producer == stage),
            tuple((array, edge) for array in arrays for edge in array.edges if edge[1] == stage),
        )


def stage_lines(
    pipeline: Pipeline,
    stage: Stage,
    plan: Plan,
    options: tuple[Option, ...],
    links: StageLinks,
    start: "Start",
    sizes: Sizes,
    names: Names,
) -> list[str]:
    """A stage's struct."""
    order, grid = plan.order_of(stage.name), stage.grid
    started = pipeline.stages.index(stage)
    is_reordered = is_used(options, REORDER_LOADS, stage.name)
    body = [
        sizes.members(columns=grid.x, rows=grid.y, slices=grid.z),
        *_link_members(links, sizes, names),
        f"static constexpr int started = {started};  // counter of started blocks, for the wait-kernel",
        f"static constexpr bool draws_position = {_word(start.draws)};",
        f"static constexpr bool counts_started = {_word(start.counts)};",
        f"static constexpr bool reorders_loads = {_word(is_reordered)};",
        f"static constexpr int input_count = {len(links.inputs)}, output_count = {len(links.outputs)};",
        "",
        "// Thread blocks to launch.",
        *sizes.function("int blocks()", ["return columns * rows * slices;"]),
        f"// The tile of the position-th block to start: order {cuda_comment(order.name)}.",
        *_tile_lines(stage, order, sizes),
        "// What tile (x, y) of the input-th producer posts, and its value once the tile is there.",
        *_awaited_lines(pipeline, links, sizes, names),
        "",
        "#if defined(__CUDACC__)",
        *_begin_lines(start, sizes),
        "",
        *_post_lines(links, options, sizes, names),
        "#endif",
    ]
    name = names.stage(stage.name)
    head = [f"// Stage {name}{f': {grid} tiles' if sizes.is_constant else ''}.", f"struct {name} {{"]
    return [*head, *(INDENT + line if line and not line.startswith("#") else line for line in body), "};\n"]


@dataclass(frozen=True)
class Start:
    """How blocks start: whether they fetch their position from a counter, or only count themselves there."""

    draws: bool
    counts: bool


def start_of(stage: Stage, plan: Plan, options: tuple[Option, ...], links: StageLinks) -> Start:
    """How a stage's blocks start: blockIdx is the position in the order in which they are issued."""
    is_custom = plan.sync.has_semaphores and not is_used(options, AVOID_CUSTOM_ORDER, stage.name)
    draws = plan.schedule.fetches_tiles or is_custom
    return Start(draws, bool(links.outputs) and plan.launch.wait_kernel and not draws)


def member_of(edge: Edge, stage: str, names: Names) -> str:
    """The data member of a stage that holds a dependency, where sizes are known at run time only."""
    return f"to_{names.stage(edge[1])}" if edge[0] == stage else f"from_{names.stage(edge[0])}"


def _word(flag: bool) -> str:
    return str(flag).lower()


def _link_members(links: StageLinks, sizes: Sizes, names: Names) -> list[str]:
    if sizes.is_constant:
        return []
    posted = [array.edges[0] for array in links.outputs]
    lines = [f"{names.edge(edge)} {member_of(edge, edge[0], names)};" for edge in posted]
    return [*lines, *(f"{names.edge(edge)} {member_of(edge, edge[1], names)};" for _, edge in links.inputs)]


def _tile_lines(stage: Stage, order: Order, sizes: Sizes) -> list[str]:
    """Slices of a tile are neighbours in the order, or come one whole grid after the other."""
    place = ["int place = position / slices;", "const int slice = position % slices;"]
    if isinstance(order, SlicesLast):
        tiles = "(columns * rows)"
        place = [f"int place = position % {tiles};", f"const int slice = position / {tiles};"]
    elif sizes.is_constant and stage.grid.z == 1:
        place = ["int place = position;", "const int slice = 0;"]
    head = "Tile tile_at(int position)"
    formula = order_formula(order)
    if formula is not None:
        return sizes.function(head, [*place, *formula, "return {x, y, slice};"])
    if not sizes.is_constant:
        raise DescriptionError(
            f"order {order.name} of {stage.name} is a table for one grid, so its header cannot leave sizes "
            "to run time. Use constant sizes, or row, column, grouped:ROWS or reversed:ORDER"
        )
    numbers = [y * stage.grid.x + x for x, y in order.sequence(stage.grid)]
    look_up = [
        *table_lines("tile_of_place", numbers),
        "const int tile = tile_of_place[place];",
        "return {tile % columns, tile / columns, slice};",
    ]
    return sizes.function(head, [*place, *look_up], is_formula=False)


def _awaited_lines(pipeline: Pipeline, links: StageLinks, sizes: Sizes, names: Names) -> list[str]:
    lines = []
    is_formula = all(
        formula_of(array, pipeline.stage(array.producer).grid, sizes) for array, _ in links.inputs
    )
    for number, (_, edge) in enumerate(links.inputs):
        at = sizes.reach(names.edge(edge), member_of(edge, edge[1], names))
        condition = "" if number == len(links.inputs) - 1 else f"if (input == {number}) "
        lines.append(f"{condition}return {{{at}first + {at}semaphore(x, y), {at}value(x, y)}};")
    body = lines or ["return {0, 0};  // it waits for nothing"]
    return sizes.function("Fact awaited(int input, int x, int y)", body, is_formula=is_formula)


def _begin_lines(start: Start, sizes: Sizes) -> list[str]:
    draws, counts = start.draws, start.counts
    count = ["atomicAdd(counters + started, 1u);  // ends the wait-kernel"] if counts else []
    position = (
        ["return static_cast<int>(atomicAdd(counters + started, 1u));"]
        if draws
        else [*count, "return static_cast<int>(blockIdx.x);"]
    )
    begin = [
        "__shared__ int position;",
        "if (is_leader()) position = next_position(counters);",
        "__syncthreads();",
        "return tile_at(position);",
    ]
    said = (
        "drawn from a counter as blocks start" if draws else "blockIdx, the order in which blocks are issued"
    )
    return [
        f"// This block's position: {said}. One thread calls it.",
        *sizes.device_function("int next_position(unsigned* counters)", position),
        "// The tile of this block. All threads call it, once.",
        *sizes.device_function("Tile begin(unsigned* counters)", begin),
    ]


def _post_lines(links: StageLinks, options: tuple[Option, ...], sizes: Sizes, names: Names) -> list[str]:
    each, tell = [], []
    for array in links.outputs:
        edge = array.edges[0]
        at = sizes.reach(names.edge(edge), member_of(edge, edge[0], names))
        where = f"{at}first + {at}semaphore(tile.x, tile.y)"
        is_alone = has_one_poster(array, options)
        each.append(f"post({where}, {_word(is_alone)});")
        tell.append(f"{'store_release' if is_alone else 'add_release'}(counters + {where}, 1);")
    block = ["__syncthreads();  // all threads' stores come before the leader's release"]
    block += ["if (is_leader()) post_tile(counters, tile);"]
    if not links.outputs:
        block = ["// Nobody waits for this stage's tiles."]
    loop = sizes.device_function("void each_post(Tile tile, Post post)", each)
    return [
        "// The tile is there. All threads call it, after their last store; of split-K slices the last one.",
        *sizes.device_function("void post(unsigned* counters, Tile tile)", block),
        "// The same for one thread, which has seen all of the tile's stores complete.",
        *sizes.device_function("void post_tile(unsigned* counters, Tile tile)", tell),
        "// Calls post(counter, whether only this tile posts it) for all that the tile posts.",
        "template <class Post>",
        *loop,
    ]
