"""CUDA text of a stage: which tile a block computes, and what it posts when the tile is there.

Example: `struct gemm1` with its grid, `tile_at(position)`, `begin(counters)` and `post(counters, tile)`, and
what these are made of, for kernels whose warps have roles of their own.
"""

from dataclasses import dataclass

from wavesim.codegen.cuda_text import INDENT, HeaderFacts, Sizes, table_lines
from wavesim.codegen.dependency_text import formula_of
from wavesim.codegen.formulas import order_formula
from wavesim.codegen.options import AVOID_CUSTOM_ORDER, REORDER_LOADS
from wavesim.errors import DescriptionError
from wavesim.model.stage import Stage
from wavesim.plan.order import Order, SlicesLast
from wavesim.safe_io.escaping import cuda_comment


def stage_lines(header: HeaderFacts, stage: Stage) -> list[str]:
    """A stage's struct."""
    resolved, sizes, start = header.resolved, header.sizes, start_of(header, stage.name)
    order, grid = resolved.plan.order_of(stage.name), stage.grid
    started = resolved.names.index(stage.name)
    inputs, outputs = resolved.inputs(stage.name), resolved.outputs(stage.name)
    is_reordered = header.is_used(REORDER_LOADS, stage.name)
    body = [
        sizes.members(columns=grid.x, rows=grid.y, slices=grid.z),
        *_link_members(header, stage.name),
        f"static constexpr int started = {started};  // counter of started blocks, for the wait-kernel",
        f"static constexpr bool draws_position = {_word(start.draws)};",
        f"static constexpr bool counts_started = {_word(start.counts)};",
        f"static constexpr bool reorders_loads = {_word(is_reordered)};",
        f"static constexpr int input_count = {len(inputs)}, output_count = {len(outputs)};",
        "",
        "// Thread blocks to launch.",
        *sizes.function("int blocks()", ["return columns * rows * slices;"]),
        f"// The tile of the position-th block to start: order {cuda_comment(order.name)}.",
        *_tile_lines(stage, order, sizes),
        "// What tile (x, y) of the input-th producer posts, and its value once the tile is there.",
        *_awaited_lines(header, stage.name),
        "",
        "#if defined(__CUDACC__)",
        *_begin_lines(start, sizes, header.keeps_alignment),
        "",
        *_post_lines(header, stage.name),
        "#endif",
    ]
    name = header.names.stage(stage.name)
    head = [f"// Stage {name}{f': {grid} tiles' if sizes.is_constant else ''}.", f"struct {name} {{"]
    return [*head, *(INDENT + line if line and not line.startswith("#") else line for line in body), "};\n"]


@dataclass(frozen=True)
class Start:
    """How blocks start: whether they fetch their position from a counter, or only count themselves there."""

    draws: bool
    counts: bool


def start_of(header: HeaderFacts, stage: str) -> Start:
    """How a stage's blocks start: blockIdx is the position in the order in which they are issued."""
    plan = header.resolved.plan
    is_custom = plan.sync.has_semaphores and not header.is_used(AVOID_CUSTOM_ORDER, stage)
    draws = plan.schedule.fetches_tiles or is_custom
    return Start(draws, bool(header.resolved.outputs(stage)) and plan.launch.wait_kernel and not draws)


def _word(flag: bool) -> str:
    return str(flag).lower()


def _link_members(header: HeaderFacts, stage: str) -> list[str]:
    if header.sizes.is_constant:
        return []
    edges = [array.edges[0] for array in header.resolved.outputs(stage)]
    edges += [(producer, stage) for producer in header.resolved.inputs(stage)]
    return [f"{header.names.edge(edge)} {header.member(edge, stage)};" for edge in edges]


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


def _awaited_lines(header: HeaderFacts, stage: str) -> list[str]:
    lines, inputs = [], header.resolved.inputs(stage)
    is_formula = all(formula_of(array, header.sizes) for array in inputs.values())
    for number, producer in enumerate(inputs):
        at = header.reach((producer, stage), stage)
        condition = "" if number == len(inputs) - 1 else f"if (input == {number}) "
        lines.append(f"{condition}return {{{at}first + {at}semaphore(x, y), {at}value(x, y)}};")
    body = lines or ["return {0, 0};  // it waits for nothing"]
    return header.sizes.function("Fact awaited(int input, int x, int y)", body, is_formula=is_formula)


def _begin_lines(start: Start, sizes: Sizes, keeps_alignment: bool) -> list[str]:
    draws, counts = start.draws, start.counts
    count = ["atomicAdd(counters + started, 1u);  // ends the wait-kernel"] if counts else []
    position = (
        ["return static_cast<int>(atomicAdd(counters + started, 1u));"]
        if draws
        else [*count, "return static_cast<int>(blockIdx.x);"]
    )
    # A single word would move the kernel's own arrays off the 16 bytes that 128-bit loads need.
    kind, word = ("int4", "position.x") if keeps_alignment else ("int", "position")
    begin = [
        f"__shared__ {kind} position;",
        f"if (is_leader()) {word} = next_position(counters);",
        "__syncthreads();",
        f"return tile_at({word});",
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


def _post_lines(header: HeaderFacts, stage: str) -> list[str]:
    each, tell, sizes = [], [], header.sizes
    for array in header.resolved.outputs(stage):
        at = header.reach(array.edges[0], stage)
        where = f"{at}first + {at}semaphore(tile.x, tile.y)"
        is_alone = header.has_one_poster(array)
        each.append(f"post({where}, {_word(is_alone)});")
        tell.append(f"{'store_release' if is_alone else 'add_release'}(counters + {where}, 1);")
    block = ["__syncthreads();  // all threads' stores come before the leader's release"]
    block += ["if (is_leader()) post_tile(counters, tile);"]
    if not each:
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
