"""CUDA text of a dependency: which semaphore a tile posts, at which value it is there, what is read.

Example: `struct gemm1_to_gemm2` with `semaphore(x, y)`, `value(x, y)`, `wait(counters, x, y)` and,
for what a consumer tile reads, `need_0(x, y)`.
"""

from collections.abc import Iterable
from itertools import chain

from wavesim.codegen.cuda_text import INDENT, HeaderFacts, Sizes, index_text, table_lines
from wavesim.codegen.formulas import PolicyFormula, fitted_formula, policy_formula
from wavesim.codegen.tile_map import fit_map
from wavesim.errors import DescriptionError
from wavesim.model.kernel import Grid
from wavesim.model.stage import TileSet
from wavesim.plan.semaphores import Edge, SemaphoreArray
from wavesim.safe_io.escaping import cuda_comment, literal


def array_lines(
    header: HeaderFacts, array: SemaphoreArray, edges: tuple[Edge, ...] | None = None
) -> Iterable[str]:
    """A struct per edge; of those that share semaphores the first holds the map. `edges`: only these."""
    wanted = array.edges if edges is None else tuple(edge for edge in array.edges if edge in edges)
    names = header.names
    for number, edge in enumerate(wanted):
        producer, consumer = (names.stage(stage) for stage in edge)
        yield f"// Dependency of {consumer} on {producer}, policy {cuda_comment(array.policy.name)}."
        base = "" if number == 0 else f" : {names.edge(wanted[0])}"
        yield f"struct {names.edge(edge)}{base} {{"
        body = [] if number else _policy_lines(header, array, producer)
        body += _need_lines(header, edge) if edges is None else []
        while body and not body[-1]:
            body.pop()
        yield from (INDENT + line if line and not line.startswith("#") else line for line in body)
        yield "};\n"


def formula_of(array: SemaphoreArray, sizes: Sizes) -> PolicyFormula | None:
    """The formula of an array's policy, or None where only a table on its grid can say it."""
    grid = array.grid
    known = policy_formula(array.policy, grid if sizes.is_constant else None)
    if known is not None or not sizes.is_constant:
        return known
    fitted = fit_map(array.table, grid)
    return None if fitted is None else fitted_formula(fitted, grid)


def _policy_lines(header: HeaderFacts, array: SemaphoreArray, producer: str) -> list[str]:
    sizes, grid = header.sizes, array.grid
    first = array.first + header.first_semaphore
    is_alone = str(header.has_one_poster(array)).lower()
    return [
        f"{sizes.members(columns=grid.x, rows=grid.y)}  // tiles of {producer}",
        f"{sizes.members(first=first)}  // its first semaphore among the counters",
        f"static constexpr bool has_one_poster = {is_alone};",
        "",
        *_map_lines(array, sizes, producer),
        "",
        "#if defined(__CUDACC__)",
        f"// Until tile (x, y) of {producer} is there; false if not in time. All threads call it.",
        "[[nodiscard]]",
        *sizes.device_function("bool wait(unsigned* counters, int x, int y)", [_wait("wait_for")]),
        "// The same for one thread of warps that have roles of their own.",
        "[[nodiscard]]",
        *sizes.device_function("bool wait_tile(unsigned* counters, int x, int y)", [_wait("wait_alone")]),
        "#endif",
        "",
    ]


def _wait(name: str) -> str:
    return f"return {name}(counters, first + semaphore(x, y), static_cast<unsigned>(value(x, y)));"


def _map_lines(array: SemaphoreArray, sizes: Sizes, producer: str) -> list[str]:
    said = f"// The semaphore that tile (x, y) of {producer} posts, and its value once the tile is there."
    formula = formula_of(array, sizes)
    if formula is not None:
        return [
            "// How many semaphores there are.",
            *sizes.function("int count()", [f"return {formula.count or array.table.count};"]),
            said,
            *sizes.function("int semaphore(int x, int y)", [f"return {formula.semaphore};"]),
            *sizes.function("int value(int x, int y)", [f"return {formula.value};"]),
        ]
    _require_constant(sizes, f"policy {array.policy.name}")
    return [
        *sizes.function("int count()", [f"return {array.table.count};"]),
        said,
        *_looked_up("semaphore", array.table.semaphore_of_tile, sizes),
        *_looked_up("value", array.table.value_of_tile, sizes),
    ]


def _looked_up(name: str, numbers: tuple[int, ...], sizes: Sizes) -> list[str]:
    body = [*table_lines(f"{name}_of_tile", numbers), f"return {name}_of_tile[y * columns + x];"]
    return sizes.function(f"int {name}(int x, int y)", body, is_formula=False)


def _require_constant(sizes: Sizes, what: str) -> None:
    if not sizes.is_constant:
        raise DescriptionError(
            f"{what} is a table for one grid, so the header cannot leave its sizes to run time. Use constant "
            "sizes, or an order and a policy with a formula: row, tile, block, strided; row, column, grouped"
        )


def _need_lines(header: HeaderFacts, edge: Edge) -> list[str]:
    names, dependency = header.names, header.resolved.pipeline.dependency_of(edge[1])
    assert dependency is not None, "every edge comes from a dependency"
    needs = [need for need in dependency.needs if need.stage.name == edge[0]]
    lines = [
        f"static constexpr int need_count = {len(needs)};",
        f"// Tiles of {names.stage(edge[0])} that tile (x, y) of {names.stage(edge[1])} reads.",
    ]
    for number, need in enumerate(needs):
        lines.append(f"// {cuda_comment(str(need))}")
        lines += _box_lines(need, dependency.consumer.stage.grid, number, header.sizes)
    return lines


def _box_lines(need: TileSet, grid: Grid, number: int, sizes: Sizes) -> list[str]:
    texts = _box_texts(need)
    head = f"Box need_{number}(int x, int y)"
    if texts is not None:
        return sizes.function(head, [f"return {{{', '.join(texts)}}};"])
    _require_constant(sizes, f"{need}")
    numbers = list(chain.from_iterable(need.box(x, y) for x, y in grid))
    steps = [literal(axis.step) for axis in (need.columns, need.rows)]
    body = [
        *table_lines("edges_of_tile", numbers),
        f"const int* const edge = edges_of_tile + 4 * (y * {grid.x} + x);",
        f"return {{edge[0], edge[1], {steps[0]}, edge[2], edge[3], {steps[1]}}};",
    ]
    return sizes.function(head, body, is_formula=False)


def _box_texts(need: TileSet) -> list[str] | None:
    """Begin, end and step along x and y as C++, or None where only a table can say them."""
    texts: list[str] = []
    for axis, extent in ((need.columns, "columns"), (need.rows, "rows")):
        start = index_text(axis.start)
        if axis.is_slice:
            stop = extent if axis.stop is None else index_text(axis.stop)
        else:
            stop = None if start is None else f"{start} + 1"
        if start is None or stop is None:
            return None
        texts += [start, stop, literal(axis.step)]
    return texts
