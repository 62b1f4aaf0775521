"""The Triton functions say what the plan says: run in Python, with a buffer for memory, tile by tile."""

import math
import types

import pytest

from wavesim.codegen.triton_text import REPORT_WORDS, generate_triton
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.semaphores import semaphore_arrays


class Pointer:
    """A place in a buffer, as Triton's pointers add up."""

    def __init__(self, memory: list[int], at: int = 0) -> None:
        self.memory, self.at = memory, at

    def __add__(self, words: int) -> "Pointer":
        return Pointer(self.memory, self.at + words)


class Language:
    """The part of triton.language that the text uses, on one thread."""

    extra = types.SimpleNamespace(cuda=types.SimpleNamespace(gdc_launch_dependents=lambda: None))

    @staticmethod
    def atomic_add(pointer, value, sem, scope):  # noqa: ARG004  # Triton names them
        before = pointer.memory[pointer.at]
        pointer.memory[pointer.at] += value
        return before

    @staticmethod
    def atomic_xchg(pointer, value, sem, scope):  # noqa: ARG004
        before, pointer.memory[pointer.at] = pointer.memory[pointer.at], value
        return before

    @staticmethod
    def load(pointer):
        return pointer.memory[pointer.at]

    @staticmethod
    def store(pointer, value):
        pointer.memory[pointer.at] = value

    @staticmethod
    def where(condition, a, b):
        return a if condition else b

    @staticmethod
    def debug_barrier():
        pass

    minimum = staticmethod(min)


def loaded(pipeline, plan):
    """The module's functions and a buffer whose waits give up after 100 looks."""
    text = generate_triton(pipeline, plan)
    names = {"triton": types.SimpleNamespace(jit=lambda f: f), "tl": Language}
    body = text.replace("import triton\nimport triton.language as tl\n", "")
    exec(body, names)  # noqa: S102  # what is tested
    return names, Pointer([100, *[0] * (names["COUNTERS"] - 1), *names["TABLES"]])


def two(first=None, second=None, need=None):
    first, second = first or Grid(6, 5), second or Grid(4, 5)
    a, b = Stage("gemm1", Kernel("a", first, Block(128))), Stage("gemm2", Kernel("b", second, Block(128)))
    return Pipeline("pair", [a, b], [Dependency(b[x, y], [a[:, y] if need is None else need(a)])])


PIPELINES = {
    "rows": two(),
    "halved rows": two(Grid(6, 10), Grid(4, 5), lambda a: a[:, 2 * y : 2 * y + 2]),
    "one tile": two(Grid(8, 5), Grid(4, 5), lambda a: a[2 * x : 2 * x + 2, y]),
    "part of a row": two(Grid(12, 5), Grid(4, 5), lambda a: a[x + 4, y]),
}


@pytest.mark.parametrize("sync", ["row", "tile", "pdl+row", "pdl+tile"])
@pytest.mark.parametrize("order", ["row", "column", "grouped:3", "reversed:column"])
@pytest.mark.parametrize("name", PIPELINES)
def test_tiles_come_in_the_plans_order_and_waits_end_exactly_when_all_they_read_is_posted(name, sync, order):
    pipeline = PIPELINES[name]
    plan = parse_plan(sync, order)
    if name == "part of a row" and sync == "pdl+tile":
        with pytest.raises(DescriptionError, match="gemm2 does not wait for all tiles of gemm1"):
            generate_triton(pipeline, plan)
        return
    functions, buffer = loaded(pipeline, plan)
    first, second = pipeline.stages
    (array,) = semaphore_arrays(pipeline, plan)
    posted = []
    needed = {
        tile: {read for _, read in pipeline.dependencies[0].producer_tiles(*tile)} for tile in second.grid
    }
    groups = {tile: array.table.semaphore_of_tile[tile[1] * first.grid.x + tile[0]] for tile in first.grid}
    for _ in first.grid:
        tile = functions["gemm1_tile"](buffer)
        posted.append(tile)
        functions["gemm1_post"](buffer, *tile)
        open_groups = {groups[t] for t in first.grid if t not in posted}
        for reader, reads in needed.items():
            is_there = functions["gemm2_wait"](buffer, *reader) == 0.0
            buffer.memory[1:REPORT_WORDS] = [0] * (REPORT_WORDS - 1)
            assert is_there == (not open_groups & {groups[read] for read in reads}), (reader, posted)
    assert tuple(posted) == plan.order_of("gemm1").sequence(first.grid)
    assert [functions["gemm2_tile"](buffer) for _ in second.grid] == list(
        plan.order_of("gemm2").sequence(second.grid)
    )


def test_the_first_to_give_up_says_who_it_is_and_what_it_saw():
    functions, buffer = loaded(two(), parse_plan("row"))
    assert functions["gemm2_wait"](buffer, 3, 2) != functions["gemm2_wait"](buffer, 3, 2)  # NaN
    assert buffer.memory[1:REPORT_WORDS] == [1, 1, 3, 2, REPORT_WORDS + 2 + 2, 0, 6]


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("name", PIPELINES)
def test_tile_and_wait_in_one_call_are_the_same_tiles_and_the_same_waits(name, order):
    pipeline, plan = PIPELINES[name], parse_plan("row", order)
    functions, buffer = loaded(pipeline, plan)
    first, second = pipeline.stages
    for tile in first.grid:
        functions["gemm1_post"](buffer, *tile)
    for tile in plan.order_of("gemm2").sequence(second.grid):
        assert functions["gemm2_tile_when_ready"](buffer) == (*tile, 0.0)
    functions, buffer = loaded(pipeline, plan)
    x, y, late = functions["gemm2_tile_when_ready"](buffer)  # nothing is posted
    assert (x, y) == plan.order_of("gemm2").sequence(second.grid)[0]
    assert math.isnan(late)
    assert buffer.memory[3:5] == [x, y]


def test_a_kernel_ahead_of_the_consumer_waits_for_the_producers_start():
    functions, buffer = loaded(two(), parse_plan("row"))
    functions["gemm2_wait_for_start"](buffer)
    assert buffer.memory[1] == 1
    buffer.memory[1] = 0
    functions["gemm1_tile"](buffer)
    functions["gemm2_wait_for_start"](buffer)
    assert buffer.memory[1] == 0


def test_what_triton_programs_cannot_do_is_refused_with_the_fix():
    with pytest.raises(DescriptionError, match="TilePerBlock"):
        generate_triton(two(), parse_plan("persistent:row"))
    with pytest.raises(DescriptionError, match=r"stage gemm1 splits K 2 ways.*grid\.z = 1"):
        generate_triton(two(Grid(6, 5, 2)), parse_plan("row"))
    a, b = (Stage(name, Kernel("k", Grid(2, 2), Block(128))) for name in ("a-b", "a_b"))
    with pytest.raises(DescriptionError, match="rename"):
        generate_triton(Pipeline("p", [a, b], [Dependency(b[x, y], [a[:, y]])]), parse_plan("row"))
