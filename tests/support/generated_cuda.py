"""Random dependencies with policies and orders, and what their generated CUDA must answer, for tests.

A probe prints every stage's tiles in order, every edge's semaphores and values and every need's box; the
same numbers are computed here from the Python policy, order and dependency.
"""

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wavesim.codegen.names import Names
from wavesim.codegen.orders import order_sets
from wavesim.codegen.policies import GroupedSync, derive_policies
from wavesim.codegen.tile_map import Blocks, Cycle, Whole
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.order import ColumnMajor, CustomOrder, Grouped, Interleaved, Reversed, RowMajor, SlicesLast
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.plan.semaphores import edges_of, semaphore_arrays

BLOCK = Block(256, 64)


def host_compiler() -> str:
    for name in ("g++", "clang++"):
        if path := shutil.which(name):
            return path
    pytest.skip("no host C++ compiler: install g++ (Debian: apt-get install g++)")


def scattered_semaphore(tile_x: int, tile_y: int, grid: Grid) -> int:
    """No formula gives it: two groups, by the parity of a product."""
    return (tile_x * tile_y + tile_x) % 2 if grid.tiles > 1 else 0


def scattered_value(tile_x: int, tile_y: int, grid: Grid) -> int:
    mine = scattered_semaphore(tile_x, tile_y, grid)
    return sum(scattered_semaphore(*tile, grid) == mine for tile in grid)


def column_first(tile_x: int, tile_y: int, grid: Grid) -> int:
    return tile_x * grid.y + tile_y


def one(tile_x: int, tile_y: int, grid: Grid) -> int:
    return 1


def shuffled_tiles(grid: Grid) -> list[tuple[int, int]]:
    return random.Random(grid.tiles).sample(list(grid), grid.tiles)


POLICIES = [
    CustomPolicy("scattered", scattered_semaphore, scattered_value),
    CustomPolicy("column-first", column_first, one),
]
ORDERS = [
    CustomOrder("shuffled", shuffled_tiles),
    Reversed(Grouped(3)),
    Interleaved(2),
    Reversed(Interleaved(3)),
    Reversed(CustomOrder("shuffled", shuffled_tiles)),
    SlicesLast(Grouped(2)),
    SlicesLast(CustomOrder("shuffled", shuffled_tiles)),
]


def random_pipeline(rng: random.Random) -> Pipeline:
    """A pair whose consumer reads one or two sets of tiles in one of many affine ways."""
    first = Stage(
        "first", Kernel("first", Grid(rng.randint(1, 9), rng.randint(1, 9), rng.choice([1, 1, 2])), BLOCK)
    )
    second = Stage(
        "second", Kernel("second", Grid(rng.randint(1, 9), rng.randint(1, 9), rng.choice([1, 1, 3])), BLOCK)
    )
    needs = [random_need(rng, first) for _ in range(rng.choice([1, 1, 2]))]
    return Pipeline("pair", [first, second], [Dependency(second[x, y], needs)])


def random_need(rng: random.Random, producer: Stage):
    grid = producer.grid
    columns = random_axis(rng, x, grid.x)
    rows = random_axis(rng, y, grid.y)
    return producer[columns, rows]


def random_axis(rng: random.Random, own, extent: int):
    other = x if own is y else y
    low = rng.randint(0, extent - 1)
    clipped = (own * rng.randint(1, 3) + rng.randint(-4, 2)).at_least(0).at_most(extent - 1)
    choices = [
        slice(None),
        slice(low, None, rng.randint(1, 3)),
        slice(0, rng.randint(1, extent)),
        low,
        clipped,
        (other // rng.randint(1, 3)).at_most(extent - 1),
        (extent - 1 - own).at_least(0),
        slice(clipped, (clipped + rng.randint(1, 3)).at_most(extent)),
        ((own - 3) // 2).at_least(0).at_most(extent - 1),
    ]
    return rng.choice(choices)


def resizable_pipeline(rng: random.Random) -> Callable[[int, int, int, int], Pipeline]:
    """A pair that reads in one of many ways whose constants do not depend on the grids, for any grids."""
    axes = [rng.choice(["all", "own", "half", "strided"]) for _ in range(2)]
    slices, count = rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
    low = rng.randint(0, 2)

    def axis(kind: str, own, tail: int):
        return {"all": slice(None), "own": own, "half": own // 2, "strided": slice(low, None, 1 + tail)}[kind]

    def build(columns: int, rows: int, wider: int, taller: int) -> Pipeline:
        """The producer has at least as many tiles as the consumer along both axes, and more than `low`."""
        grid = Grid(columns + wider + 3, rows + taller + 3, slices)
        first = Stage("first", Kernel("first", grid, BLOCK))
        second = Stage("second", Kernel("second", Grid(columns, rows), BLOCK))
        needs = [first[axis(axes[0], x, i), axis(axes[1], y, i)] for i in range(count)]
        return Pipeline("pair", [first, second], [Dependency(second[x, y], needs)])

    return build


def formula_plan(rng: random.Random) -> SemaphoreSync:
    """Orders and policies that have a formula on every grid."""
    axis = [Blocks(1), Blocks(2), Blocks(3), Blocks(40), Cycle(2), Cycle(3), Cycle(40), Whole()]
    policies = [TileSync(), RowSync(), *[GroupedSync(rng.choice(axis), rng.choice(axis)) for _ in range(4)]]
    orders = [
        RowMajor(),
        ColumnMajor(),
        Grouped(rng.randint(1, 5)),
        Reversed(Grouped(2)),
        Reversed(),
        SlicesLast(),
    ]
    chosen = {name: rng.choice(orders) for name in ("first", "second")}
    return SemaphoreSync(rng.choice(policies), orders=chosen, wait_kernel=rng.random() < 0.7)


def random_plan(rng: random.Random, pipeline: Pipeline) -> SemaphoreSync:
    edge = edges_of(pipeline)[0]
    policy = rng.choice([*(entry.policy for entry in derive_policies(pipeline, edge)), *POLICIES])
    orders = dict(rng.choice(list(order_sets(pipeline).values())))
    orders = {name: rng.choice([order, order, *ORDERS]) for name, order in orders.items()}
    return SemaphoreSync(policy, orders=orders, wait_kernel=rng.random() < 0.7)


def expected_numbers(pipeline: Pipeline, plan) -> Iterator[int]:
    """What the probe must print."""
    for stage in pipeline.stages:
        for block in plan.order_of(stage.name).blocks(stage.grid):
            yield from block
    arrays = {edge: array for array in semaphore_arrays(pipeline, plan) for edge in array.edges}
    for edge in edges_of(pipeline):
        if edge in arrays:
            yield arrays[edge].first + len(pipeline.stages) + 1
            yield arrays[edge].table.count
            for pair in zip(
                arrays[edge].table.semaphore_of_tile, arrays[edge].table.value_of_tile, strict=True
            ):
                yield from pair
            dependency = pipeline.dependency_of(edge[1])
            assert dependency is not None
            for need in (n for n in dependency.needs if n.stage.name == edge[0]):
                for tile in dependency.consumer.stage.grid:
                    x0, x1, y0, y1 = need.box(*tile)
                    yield from (x0, x1, need.columns.step, y0, y1, need.rows.step)


def probe(pipeline: Pipeline, plan, space: str, put: str = "put", sizes: str = "constant") -> str:
    """C++ statements that call `put` with every number."""
    names, is_constant = Names.of(pipeline), sizes == "constant"
    grids = ", ".join(f"{{{s.grid.x}, {s.grid.y}, {s.grid.z}}}" for s in pipeline.stages)
    lines = [] if is_constant else [f"const auto run = {space}::run_with({grids});"]

    def reach(stage: str, member: str = "") -> str:
        """What stands before a member of a stage, or of a dependency held in a stage."""
        if is_constant:
            return f"{space}::{member or names.stage(stage)}::"
        return f"run.{names.stage(stage)}.{member}{'.' if member else ''}"

    for stage in pipeline.stages:
        puts = " ".join(f"{put}(t.{field});" for field in "xyz")
        at = reach(stage.name)
        lines.append(f"for (int i = 0; i < {at}blocks(); ++i) {{ auto t = {at}tile_at(i); {puts} }}")
    arrays = {edge: array for array in semaphore_arrays(pipeline, plan) for edge in array.edges}
    for edge in edges_of(pipeline):
        if edge not in arrays:
            continue
        producer, consumer = reach(edge[0]), reach(edge[1])
        at = reach(edge[1], names.edge(edge) if is_constant else f"from_{names.stage(edge[0])}")
        lines.append(f"{put}({at}first); {put}({at}count());")
        lines.append(
            f"for (int y = 0; y < {producer}rows; ++y) for (int x = 0; x < {producer}columns; ++x) "
            f"{{ {put}({at}semaphore(x, y)); {put}({at}value(x, y)); }}"
        )
        dependency = pipeline.dependency_of(edge[1])
        assert dependency is not None
        for number in range(sum(need.stage.name == edge[0] for need in dependency.needs)):
            fields = [f"{axis}_{edge}" for axis in "xy" for edge in ("begin", "end", "step")]
            puts = " ".join(f"{put}(b.{field});" for field in fields)
            lines.append(
                f"for (int y = 0; y < {consumer}rows; ++y) for (int x = 0; x < {consumer}columns; ++x) "
                f"{{ auto b = {at}need_{number}(x, y); {puts} }}"
            )
    return "\n".join(lines)


def run_on_host(folder: Path, headers: list[str], probes: list[str]) -> list[list[int]]:
    """Compiles all headers at once and returns what each probe prints."""
    source = folder / "probe.cpp"
    functions = "\n".join(f"static void probe_{i}() {{\n{text}\n}}" for i, text in enumerate(probes))
    calls = "\n".join(f'probe_{i}(); std::printf("\\n");' for i in range(len(probes)))
    # One translation unit, so `#pragma once`, which belongs to a header, is taken out.
    text = "\n".join(headers).replace("#pragma once", "")
    put = 'static void put(int i) { std::printf("%d ", i); }'
    source.write_text(f"{text}\n#include <cstdio>\n{put}\n{functions}\nint main() {{\n{calls}\n}}\n")
    command = [
        host_compiler(),
        "-std=c++17",
        "-O0",
        "-Wall",
        "-Wextra",
        "-Werror",
        str(source),
        "-o",
        str(folder / "probe"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    out = subprocess.run([str(folder / "probe")], capture_output=True, text=True, check=True).stdout
    return [[int(word) for word in line.split()] for line in out.splitlines()]
