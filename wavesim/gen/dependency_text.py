"""CUDA text of a dependency: which semaphore a tile posts, at which value it is there, what is read.

Picture: `struct gemm1_to_gemm2` with `semaphore(x, y)`, `value(x, y)`, `wait(counters, x, y)` and,
for what a consumer tile reads, `need_0(x, y)`.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from wavesim.gen.cuda_text import INDENT, function_lines, index_text, map_texts, table_lines
from wavesim.gen.options import PLAIN_STORE, Option, is_used
from wavesim.gen.policies import Edge
from wavesim.gen.semaphore_arrays import Array, edge_name
from wavesim.gen.tile_map import fit_map
from wavesim.model.kernel import Grid
from wavesim.model.pipeline import Pipeline
from wavesim.model.policy import SemaphoreTable
from wavesim.model.tile_set import TileSet


def array_lines(pipeline: Pipeline, array: Array, options: Sequence[Option]) -> Iterable[str]:
    """A struct per edge; of those that share semaphores the first holds the map."""
    grid = pipeline.stage(array.producer).grid
    for number, edge in enumerate(array.edges):
        yield f"// Dependency of {edge[1]} on {edge[0]}, policy {array.policy.name}."
        base = "" if number == 0 else f" : {array.struct}"
        yield f"struct {edge_name(edge)}{base} {{"
        body = [] if number else _policy_lines(array, grid, tuple(options))
        body += _need_lines(pipeline, edge)
        yield from (INDENT + line if line and not line.startswith("#") else line for line in body)
        yield "};\n"


def _policy_lines(array: Array, grid: Grid, options: tuple[Option, ...]) -> list[str]:
    has_one_poster = is_used(options, PLAIN_STORE, " -> ".join(array.edges[0]))
    return [
        f"static constexpr int first = {array.first}, count = {array.table.count};",
        f"static constexpr bool has_one_poster = {str(has_one_poster).lower()};",
        "",
        f"// The semaphore that tile (x, y) of {array.producer} posts, and its value once the tile is there.",
        *_map_lines(array.table, grid),
        "",
        "#if defined(__CUDACC__)",
        f"// Until tile (x, y) of {array.producer} is there. All threads of the block call it.",
        "__device__ static void wait(unsigned* counters, int x, int y) {",
        f"{INDENT}wait_for(counters, first + semaphore(x, y), static_cast<unsigned>(value(x, y)));",
        "}",
        "#endif",
        "",
    ]


def _map_lines(table: SemaphoreTable, grid: Grid) -> list[str]:
    formula = fit_map(table, grid)
    if formula is not None:
        semaphore, value = map_texts(formula, grid)
        return [
            *_quiet("int semaphore(int x, int y)", [f"return {semaphore};"], semaphore),
            *_quiet("int value(int x, int y)", [f"return {value};"], value),
        ]
    place = f"[y * {grid.x} + x];"
    return [
        *function_lines(
            "int semaphore(int x, int y)",
            [*table_lines("semaphore_of_tile", table.semaphore_of_tile), f"return semaphore_of_tile{place}"],
            is_formula=False,
        ),
        *function_lines(
            "int value(int x, int y)",
            [*table_lines("value_of_tile", table.value_of_tile), f"return value_of_tile{place}"],
            is_formula=False,
        ),
    ]


def _quiet(head: str, body: list[str], text: str) -> list[str]:
    """A formula's function; parameters that it does not use stay nameless, so that no compiler warns."""
    for name in "xy":
        if not re.search(rf"\b{name}\b", text):
            head = head.replace(f"int {name}", f"int /* {name} */")
    return function_lines(head, body, is_formula=True)


def _need_lines(pipeline: Pipeline, edge: Edge) -> list[str]:
    dependency = pipeline.dependency_of(edge[1])
    assert dependency is not None, "every edge comes from a dependency"
    needs = [need for need in dependency.needs if need.stage.name == edge[0]]
    lines = [
        f"static constexpr int need_count = {len(needs)};",
        f"// Tiles of {edge[0]} that tile (x, y) of {edge[1]} reads.",
    ]
    for number, need in enumerate(needs):
        lines.append(f"// {need}")
        lines += _box_lines(need, dependency.consumer.stage.grid, number)
    return lines


def _box_lines(need: TileSet, grid: Grid, number: int) -> list[str]:
    texts = _box_texts(need)
    head = f"Box need_{number}(int x, int y)"
    if texts is not None:
        joined = ", ".join(texts)
        return _quiet(head, [f"return {{{joined}}};"], joined)
    numbers = list(chain.from_iterable(need.box(x, y) for x, y in grid))
    body = [
        *table_lines("edges_of_tile", numbers),
        f"const int* const edge = edges_of_tile + 4 * (y * {grid.x} + x);",
        f"return {{edge[0], edge[1], {need.columns.step}, edge[2], edge[3], {need.rows.step}}};",
    ]
    return function_lines(head, body, is_formula=False)


def _box_texts(need: TileSet) -> list[str] | None:
    """Begin, end and step along x and y as C++, or None where only a table can say them."""
    found: list[str] = []
    for axis, extent in ((need.columns, need.stage.grid.x), (need.rows, need.stage.grid.y)):
        start = index_text(axis.start)
        if axis.is_slice:
            stop = str(extent) if axis.stop is None else index_text(axis.stop)
        else:
            stop = None if start is None else f"{start} + 1"
        if start is None or stop is None:
            return None
        found += [start, stop, str(axis.step)]
    return found
