"""CUDA text of a stage: which tile a block computes, and what it posts when the tile is there.

Picture: `struct gemm1` with its grid, `tile_at(position)`, `begin(counters)` and `post(counters, tile)`.
"""

from collections.abc import Sequence

from wavesim.gen.cuda_text import INDENT, function_lines, identifier, order_lines
from wavesim.gen.options import AVOID_CUSTOM_ORDER, Option, is_used
from wavesim.gen.semaphore_arrays import Array
from wavesim.model.kernel import Grid
from wavesim.model.pipeline import Stage
from wavesim.model.plan import Plan, SemaphoreSync


def stage_lines(
    stage: Stage, plan: Plan, options: tuple[Option, ...], counter: int, outputs: Sequence[Array]
) -> list[str]:
    """A stage's struct; `counter` is the index of its counter of started blocks."""
    grid, order = stage.grid, plan.order_of(stage.name)
    is_formula, order_body = order_lines(order, grid)
    draws = isinstance(plan, SemaphoreSync) and not is_used(options, AVOID_CUSTOM_ORDER, stage.name)
    has_wait_kernel = isinstance(plan, SemaphoreSync) and plan.wait_kernel
    counts = bool(outputs) and has_wait_kernel and not draws
    body = [
        f"static constexpr int columns = {grid.x}, rows = {grid.y}, slices = {grid.z}, blocks = {grid.size};",
        f"static constexpr int started = {counter};  // counter of started blocks, for the wait-kernel",
        f"static constexpr bool draws_position = {str(draws).lower()};",
        "",
        f"// The tile of the position-th block to start: order {order.name}.",
        *function_lines("Tile tile_at(int position)", [*_place_lines(grid), *order_body], is_formula),
        "",
        "#if defined(__CUDACC__)",
        *_begin_lines(draws, counts),
        "",
        *_post_lines(outputs),
        "#endif",
    ]
    head = [f"// Stage {stage.name}: {grid} tiles.", f"struct {identifier(stage.name)} {{"]
    return [*head, *(INDENT + line if line and not line.startswith("#") else line for line in body), "};\n"]


def _place_lines(grid: Grid) -> list[str]:
    """Slices of a tile are neighbours in the order."""
    if grid.z == 1:
        return ["int place = position;", "const int slice = 0;"]
    return [f"int place = position / {grid.z};", f"const int slice = position % {grid.z};"]


def _begin_lines(draws: bool, counts: bool) -> list[str]:
    head = "__device__ static Tile begin(unsigned* counters) {"
    if draws:
        return [
            "// The tile of this block; blocks draw positions as they start. All threads call it, once.",
            head,
            f"{INDENT}__shared__ int position;",
            f"{INDENT}if (is_leader()) position = static_cast<int>(atomicAdd(counters + started, 1u));",
            f"{INDENT}__syncthreads();",
            f"{INDENT}return tile_at(position);",
            "}",
        ]
    tell = (
        [f"{INDENT}if (is_leader()) atomicAdd(counters + started, 1u);  // ends the wait-kernel"]
        if counts
        else []
    )
    return [
        "// The tile of this block, by blockIdx. All threads call it, once.",
        head if counts else head.replace("counters", "/* counters */"),
        *tell,
        f"{INDENT}return tile_at(static_cast<int>(blockIdx.x));",
        "}",
    ]


def _post_lines(outputs: Sequence[Array]) -> list[str]:
    if not outputs:
        return [
            "// Nobody waits for this stage's tiles.",
            "__device__ static void post(unsigned* /* counters */, Tile /* tile */) {}",
        ]
    lines = [
        "// The tile is there. All threads call it, after their last store; of split-K slices the last one.",
        "__device__ static void post(unsigned* counters, Tile tile) {",
        f"{INDENT}__syncthreads();  // all threads' stores come before the leader's release",
        f"{INDENT}if (!is_leader()) return;",
    ]
    for array in outputs:
        verb = "set_one" if max(array.table.value_of_tile) == 1 else "add_one"
        where = f"{array.struct}::first + {array.struct}::semaphore(tile.x, tile.y)"
        lines.append(f"{INDENT}{verb}(counters + {where});")
    return [*lines, "}"]
