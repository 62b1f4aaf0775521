"""Pieces of CUDA text: formulas, tables and the fixed part of a generated header.

Picture: the order `Grouped(8)` on 16 rows becomes three lines of integer arithmetic; an order that a user
listed tile by tile becomes an array of numbers and one look-up.
"""

import re
import textwrap
from collections.abc import Sequence

from wavesim.gen.tile_map import AxisMap, Blocks, TileMap
from wavesim.model.dependency import Index
from wavesim.model.kernel import Grid
from wavesim.model.order import ColumnMajor, Grouped, Order, Reversed, RowMajor

INDENT = "    "
OPERATORS = {
    "+": "({} + {})",
    "*": "({} * {})",
    "//": "floor_divided({}, {})",
    "min": "smaller({}, {})",
    "max": "larger({}, {})",
}


def identifier(name: str) -> str:
    """A C++ name made of any text."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return word if word and not word[0].isdigit() else f"_{word}"


def index_text(index: Index) -> str | None:
    """C++ for an index expression in x and y, or None if it has an operator that this does not know."""
    parts = [index_text(part) if isinstance(part, Index) else str(part) for part in index.operands]
    if any(part is None for part in parts):
        return None
    if index.operator in ("dim", "const"):
        return parts[0]
    pattern = OPERATORS.get(index.operator)
    return None if pattern is None else pattern.format(*parts)


def order_lines(order: Order, grid: Grid) -> tuple[bool, list[str]]:
    """(whether it is a formula, lines that set x and y of tile number `place` and return them)."""
    formula = _order_formula(order, grid)
    if formula is not None:
        return True, [*formula, "return {x, y, slice};"]
    numbers = [y * grid.x + x for x, y in order.sequence(grid)]
    look_up = [
        "const int tile = tile_of_place[place];",
        f"return {{tile % {grid.x}, tile / {grid.x}, slice}};",
    ]
    return False, [*table_lines("tile_of_place", numbers), *look_up]


def _order_formula(order: Order, grid: Grid) -> list[str] | None:
    match order:
        case RowMajor():
            return [f"const int x = place % {grid.x}, y = place / {grid.x};"]
        case ColumnMajor():
            return [f"const int x = place / {grid.y}, y = place % {grid.y};"]
        case Grouped(rows):
            whole = rows * grid.x
            return [
                f"const int group = place / {whole}, within = place % {whole};",
                f"const int height = smaller({rows}, {grid.y} - group * {rows});",
                f"const int x = within / height, y = group * {rows} + within % height;",
            ]
        case Reversed(inner):
            formula = _order_formula(inner, grid)
            return None if formula is None else [f"place = {grid.tiles - 1} - place;", *formula]
    return None


def map_texts(formula: TileMap, grid: Grid) -> tuple[str, str]:
    """C++ for the semaphore and the value of tile (x, y)."""
    terms = [
        f"{_index_of(axis, name, extent)}{f' * {stride}' if stride != 1 else ''}"
        for axis, name, extent, stride in (
            (formula.columns, "x", grid.x, formula.column_stride),
            (formula.rows, "y", grid.y, formula.row_stride),
        )
        if stride and axis.count(extent) > 1
    ]
    terms += [str(formula.base)] if formula.base or not terms else []
    shares = [_share_of(formula.columns, "x", grid.x), _share_of(formula.rows, "y", grid.y)]
    return " + ".join(terms), " * ".join([share for share in shares if share != "1"] or ["1"])


def _index_of(axis: AxisMap, name: str, extent: int) -> str:
    if isinstance(axis, Blocks):
        return name if axis.size == 1 else f"{name} / {axis.size}"
    return name if axis.period >= extent else f"{name} % {axis.period}"


def _share_of(axis: AxisMap, name: str, extent: int) -> str:
    """A constant where all groups are equally large."""
    if len({axis.share(i, extent) for i in range(extent)}) == 1:
        return str(axis.share(0, extent))
    if isinstance(axis, Blocks):
        return f"smaller({axis.size}, {extent} - {name} / {axis.size} * {axis.size})"
    return f"(({extent + axis.period - 1} - {name} % {axis.period}) / {axis.period})"


def table_lines(name: str, numbers: Sequence[int]) -> list[str]:
    """A constant array in the body of a function: NVRTC, nvcc and host compilers all take it."""
    rows = textwrap.wrap(", ".join(map(str, numbers)), 96)
    return [f"static const int {name}[{len(numbers)}] = {{", *(INDENT + row for row in rows), "};"]


def function_lines(head: str, body: Sequence[str], is_formula: bool) -> list[str]:
    """A function of host and device; constexpr unless it looks up a table."""
    kind = "constexpr " if is_formula else ""
    return [f"WAVESIM_FUNCTION static {kind}{head} {{", *(INDENT + line for line in body), "}"]


PROLOGUE = """\
#pragma once

#ifndef WAVESIM_FUNCTION
#if defined(__CUDACC__)
#define WAVESIM_FUNCTION __host__ __device__ __forceinline__
#else
#define WAVESIM_FUNCTION inline
#endif
#endif

// A wait that lasts longer gives up: see gave_up.
#ifndef WAVESIM_WAIT_LIMIT_NS
#define WAVESIM_WAIT_LIMIT_NS 2000000000ull
#endif
"""

ARITHMETIC = """\
// x and y: column and row of an output tile; z: its split-K slice.
struct Tile {
    int x, y, z;
};

// Tiles from (x_begin, y_begin) up to, not including, (x_end, y_end), every step-th.
struct Box {
    int x_begin, x_end, x_step, y_begin, y_end, y_step;
};

WAVESIM_FUNCTION constexpr int smaller(int a, int b) { return a < b ? a : b; }
WAVESIM_FUNCTION constexpr int larger(int a, int b) { return a > b ? a : b; }
WAVESIM_FUNCTION constexpr int floor_divided(int a, int b) { return a / b - (a % b < 0 ? 1 : 0); }
"""

PRIMITIVES = """\
#if defined(__CUDACC__)
__device__ __forceinline__ bool is_leader() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

// Relaxed: says only what the counter held. Whoever goes on to read a producer's data fences after it.
__device__ __forceinline__ unsigned seen(const unsigned* counter) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

__device__ __forceinline__ unsigned long long time_ns() {
    unsigned long long value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

// Spins until *counter >= awaited. Gives up when its time is over or another waiter has given up.
[[maybe_unused]] static __device__ __noinline__ void spin(
    unsigned* counters, const unsigned* counter, unsigned awaited) {
    const unsigned long long began = time_ns();
    while (seen(counter) < awaited) {
        if (time_ns() - began > WAVESIM_WAIT_LIMIT_NS) atomicExch(counters + gave_up, 1u);
        if (seen(counters + gave_up) != 0) return;
        __nanosleep(20);
    }
}

// All threads of the block call it. Returns once *counter >= awaited.
__device__ __forceinline__ void wait_for(unsigned* counters, int counter, unsigned awaited) {
    if (is_leader()) {
        if (seen(counters + counter) < awaited) spin(counters, counters + counter, awaited);
        // After the relaxed load that saw the value: makes the pair an acquire that orders later reads.
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    __syncthreads();  // hands the leader's acquire on to the other threads
}

// One thread calls it, after a block barrier. Release: the block's stores are seen with the new value.
__device__ __forceinline__ void add_one(unsigned* counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

// The same for a semaphore that only this block posts: a plain store in place of an atomic add.
__device__ __forceinline__ void set_one(unsigned* counter) {
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(counter) : "memory");
}
#endif
"""
