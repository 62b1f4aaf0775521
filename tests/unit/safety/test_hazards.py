"""Whether tiles that share a buffer are ordered: what is refused, how it is mended, and every order tried."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.accesses import Accesses
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel, TiledWork
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Matrix, Read, Region, View, Write
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.plan.semaphores import semaphore_arrays
from wavesim.safety.deadlock import safety_of
from wavesim.safety.hazard_fixes import double_buffered, with_anti_dependencies
from wavesim.safety.hazards import hazards_of
from wavesim.work.attention import Attention
from wavesim.work.attention.decode import AttentionDecode
from wavesim.work.gemm import Gemm

WIDTH = 256  # of the heads' columns together
SEMAPHORES = ("pdl+row", "pdl+tile", "streams+row")
BOUNDARIES = ("stream", "pdl")


def layers(count, rows=512, shared=("qkv",)):
    """Layers of QKV, attention and output product; buffers in `shared` are the same in all layers."""
    stages, dependencies, before = [], [], None
    for number in range(count):
        qkv_buffer, attended = (
            name if name in shared else f"{name}_{number}" for name in ("qkv", "attended")
        )
        qkv = Stage(
            f"qkv_{number}",
            Gemm("qkv", rows, 3 * WIDTH, 256, 128, 256, 64),
            buffers={"a": f"x_{number}", "c": qkv_buffer},
        )
        heads = {name: View(qkv_buffer, i * WIDTH) for i, name in enumerate("qkv")}
        attention = Stage(
            f"attention_{number}",
            Attention("attention", 1, rows, 2, 2),
            buffers={**heads, "out": attended},
        )
        out = Stage(
            f"out_{number}",
            Gemm("out", rows, 256, WIDTH, 128, 256, 64),
            buffers={"a": attended, "c": f"x_{number + 1}"},
        )
        stages += [qkv, attention, out]
        if before is not None:
            dependencies.append(Dependency(qkv[x, y], [before[:, y]]))
        needs = [qkv[0, y], qkv[1, : y + 1], qkv[2, : y + 1]]
        dependencies += [Dependency(attention[x, y], needs), Dependency(out[x, y], [attention[:, y]])]
        before = out
    return Pipeline("layers", stages, dependencies)


def first(pipeline, plan):
    return next(hazards_of(pipeline, parse_plan(plan)), None)


@pytest.mark.parametrize("plan", SEMAPHORES)
def test_semaphores_do_not_keep_a_later_layer_from_overwriting_what_is_still_read(plan):
    found = first(layers(2), plan)
    assert (found.kind, found.buffer) == ("overwritten before read", "qkv")
    # Row 0 of K of the second layer waits for row 0 of the first layer alone; its row 1 still reads there.
    assert (found.first, found.second) == (("attention_0", (0, 1)), ("qkv_1", (1, 0)))
    assert found.region == Region(0, 128, WIDTH, WIDTH + 128)


@pytest.mark.parametrize("plan", BOUNDARIES)
def test_kernel_boundaries_do(plan):
    assert first(layers(2), plan) is None


@pytest.mark.parametrize("plan", [*SEMAPHORES, *BOUNDARIES])
def test_a_buffer_for_each_layer_needs_nothing(plan):
    assert first(layers(2, shared=()), plan) is None


def test_a_row_that_every_reader_has_left_may_be_overwritten():
    """Attended rows are read by the output tiles of that row alone, all of which the next layer waits for."""
    assert first(layers(3, shared=("attended",)), "pdl+tile") is None


def test_the_safety_verdict_refuses_by_buffer_place_tiles_and_fix():
    verdict = safety_of(layers(2), parse_plan("pdl+row"), devices.load("h200"))
    assert not verdict.is_safe
    assert verdict.reason == (
        "buffer 'qkv', rows 0 to 127, columns 256 to 383: tile (1, 0) of qkv_1 may overwrite what tile "
        "(0, 1) of attention_0 still reads; add a need on the tiles of attention_0 to qkv_1 "
        "(with_anti_dependencies), or use a second buffer (double_buffered)"
    )


def test_a_need_that_is_left_out_is_a_read_before_the_write():
    whole = layers(1)
    qkv, attention, out = whole.stages
    needs = [qkv[0, y], qkv[1, : y + 1], qkv[2, y]]  # V of earlier rows is not waited for
    pipeline = Pipeline(
        "short", whole.stages, [Dependency(attention[x, y], needs), Dependency(out[x, y], [attention[:, y]])]
    )
    found = first(pipeline, "pdl+tile")
    assert (found.kind, found.first, found.second) == (
        "read before written",
        ("qkv_0", (2, 0)),
        ("attention_0", (0, 1)),
    )
    assert "add a need on the tiles of qkv_0 to attention_0" in found.text
    assert "double_buffered" not in found.text


@pytest.mark.parametrize("plan", [*SEMAPHORES, *BOUNDARIES])
def test_anti_dependencies_make_every_plan_safe(plan):
    mended = with_anti_dependencies(layers(3))
    assert first(mended, plan) is None
    assert str(mended.dependency_of("qkv_1")) == "qkv_1[x, y] needs out_0[:, y], attention_0[:, y:]"
    assert safety_of(mended, parse_plan(plan), devices.load("h200")).is_safe


def test_what_is_safe_gets_no_more_needs():
    pipeline = layers(2, shared=())
    assert with_anti_dependencies(pipeline) is pipeline


def test_a_second_buffer_serves_two_layers():
    mended = double_buffered(layers(2), "qkv")
    assert [stage.view("c").buffer for stage in mended.stages if stage.name.startswith("qkv")] == [
        "qkv",
        "qkv.2",
    ]
    assert mended.stage("attention_1").view("k") == View("qkv.2", WIDTH)
    assert all(first(mended, plan) is None for plan in SEMAPHORES)


def test_a_third_layer_needs_more_than_a_second_buffer_as_row_zero_never_waits_for_the_last_row():
    found = first(double_buffered(layers(3), "qkv"), "pdl+tile")
    assert (found.first[0], found.second[0]) == ("attention_0", "qkv_2")


def test_a_second_buffer_for_what_there_is_not_is_refused_by_name():
    with pytest.raises(DescriptionError, match="no buffer 'kqv'; it has 'x_0'"):
        double_buffered(layers(2), "kqv")


def test_a_cache_that_a_step_appends_to_cannot_change_places():
    step = Stage(
        "decode",
        AttentionDecode("decode", 2, 100, 8, 8, appends=True),
        buffers={"k": "keys", "v": "values"},
    )
    with pytest.raises(DescriptionError, match="decode updates 'k' in place"):
        double_buffered(Pipeline("step", [step]), "keys")


# --- every order of small random pipelines ---


@dataclass(frozen=True)
class Touching(TiledWork):
    """Tiles in a row, each of which reads cells of one buffer before its items, then writes others."""

    grid: Grid
    read: tuple[tuple[tuple[int, int], ...], ...]  # by tile: (cell, before item)
    written: tuple[tuple[int, ...], ...]  # by tile: cells
    cells: int

    @property
    def kernel(self) -> Kernel:
        return Kernel("touching", self.grid, Block(32), 1)

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {"i": Matrix(1, self.cells), "o": Matrix(1, self.cells, is_written=True)}

    def items(self, x: int, y: int, z: int) -> int:
        return 2

    def reads(self, x: int, y: int, z: int) -> Iterable[Read]:
        return [Read("i", Region(0, 1, cell, cell + 1), at) for cell, at in self.read[x]]

    def writes(self, x: int, y: int) -> Iterable[Write]:
        return [Write("o", Region(0, 1, cell, cell + 1)) for cell in self.written[x]]


CELLS = 6


@st.composite
def small_pipelines(draw):
    stages, dependencies = [], []
    for number in range(draw(st.integers(2, 4))):
        tiles = draw(st.integers(1, 3))
        cells = draw(st.permutations(range(CELLS)))
        cuts = sorted(draw(st.lists(st.integers(0, 4), min_size=tiles, max_size=tiles)))
        written = tuple(tuple(sorted(cells[a:b])) for a, b in zip((0, *cuts), cuts, strict=False))
        read = st.lists(st.tuples(st.integers(0, CELLS - 1), st.integers(0, 1)), max_size=2).map(tuple)
        work = Touching(Grid(tiles), tuple(draw(read) for _ in range(tiles)), written, CELLS)
        stage = Stage(f"s{number}", work, buffers={"i": "cells", "o": "cells"})
        producers = draw(st.sets(st.sampled_from(stages), max_size=2)) if stages else ()
        needs = [
            one[:, 0] if draw(st.booleans()) else one[draw(st.integers(0, one.grid.x - 1)), 0]
            for one in sorted(producers, key=lambda one: one.name)
        ]
        if needs:
            dependencies.append(Dependency(stage[x, y], needs))
        stages.append(stage)
    return stages, dependencies


@pytest.mark.filterwarnings("ignore::wavesim.errors.UnneededStageWarning")
@settings(max_examples=80, deadline=None)
@given(small_pipelines(), st.sampled_from((RowSync(), TileSync())), st.integers(0, 2**32))
def test_no_order_that_semaphores_allow_differs_where_the_check_finds_no_hazard(made, policy, seed):
    pipeline = Pipeline("small", *made)
    plan = SemaphoreSync(policy)
    if next(hazards_of(pipeline, plan), None) is not None:
        pipeline = with_anti_dependencies(pipeline)
        if next(hazards_of(pipeline, plan), None) is not None:
            return  # a read before the write, or within a stage: not for anti-dependencies to mend
    wanted = seen_in(pipeline, plan, None)
    order = random.Random(seed)
    for _ in range(20):
        assert seen_in(pipeline, plan, order) == wanted


@pytest.mark.filterwarnings("ignore::wavesim.errors.UnneededStageWarning")
@settings(max_examples=80, deadline=None)
@given(small_pipelines(), st.integers(0, 2**32))
def test_most_hazards_show_in_some_order(made, seed):
    """The search above is able to see them: of orders drawn at random one differs for nearly every hazard."""
    pipeline, plan = Pipeline("small", *made), SemaphoreSync(TileSync())
    found = next(hazards_of(pipeline, plan), None)
    if found is None or found.kind == "used within a stage":
        return
    wanted, order = seen_in(pipeline, plan, None), random.Random(seed)
    assert any(seen_in(pipeline, plan, order) != wanted for _ in range(2_000)), found.text


def seen_in(pipeline, plan, order):
    """(who wrote what each read saw, who wrote each cell last): stage after stage, or in a random order."""
    accesses, arrays = Accesses(pipeline), semaphore_arrays(pipeline, plan)
    missing = {array.first + i: value for array in arrays for i, value in enumerate(array.values)}
    cells, seen = dict.fromkeys(range(CELLS), "input"), {}
    steps = {
        (stage.name, tile): steps_of(pipeline, accesses, arrays, stage, tile)
        for stage in pipeline.stages
        for tile in stage.grid
    }
    while steps:
        ready = [who for who, left in steps.items() if left[0][0] != "wait" or not missing[left[0][1]]]
        who = ready[0] if order is None else order.choice(ready)
        kind, what = steps[who].pop(0)
        if kind == "read":
            seen.setdefault(who, []).append(cells[what])
        elif kind == "write":
            cells[what] = who
        elif kind == "post":
            missing[what] -= 1
        if not steps[who]:
            del steps[who]
    return seen, cells


def steps_of(pipeline, accesses, arrays, stage, tile):
    """What a tile does, one after the other."""
    dependency = pipeline.dependency_of(stage.name)
    waits = []
    for producer, made in dependency.producer_tiles(*tile) if dependency is not None else ():
        at = accesses.first_item(stage.name, tile, 0, producer, made)
        array = next(one for one in arrays if (producer, stage.name) in one.edges)
        if at is not None:
            waits.append((at, array.first + array.table.semaphore_of_tile[made[0]]))
    found = []
    for item in range(2):
        found += [("wait", semaphore) for at, semaphore in waits if at == item]
        found += [("read", cell) for cell, at in sorted(stage.work.read[tile[0]]) if at == item]
    found += [("write", cell) for cell in stage.work.written[tile[0]]]
    posted = [one for one in arrays if one.producer == stage.name]
    return [
        *found,
        *(("post", one.first + one.table.semaphore_of_tile[tile[0]]) for one in posted),
        ("end", 0),
    ]
