"""Grouped GEMMs: whose rows a tile has, what a routing must say, what waits for what."""

from dataclasses import replace

import pytest

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.device import load
from wavesim.model.regions import Region
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import find_costs
from wavesim.safety.deadlock import safety_of
from wavesim.safety.hazards import hazards_of
from wavesim.sim.simulation import simulate
from wavesim.work.description.reader import Description, load_description
from wavesim.work.description.writer import write_description
from wavesim.work.grouped import Combine, GroupedGemm
from wavesim.work.grouped.law import GroupedCosts
from wavesim.work.grouped.routing import Routing
from wavesim.work.law import RunSetting
from wavesim.workloads.moe import moe_layer

H200 = load("h200")
SETTING = RunSetting(H200)
COUNTS = (3, 0, 130, 64, 1)
SIZES = {"tokens": 99, "experts": 5, "top_k": 2, "n": 200, "k": 96, "tile_m": 64, "tile_n": 128}


def gemm(**fields):
    return GroupedGemm("gemm", **{**SIZES, "counts": COUNTS, **fields})


def test_a_tile_has_rows_of_one_expert_and_the_longest_comes_first():
    blocks = gemm().row_blocks
    assert [(block.top, block.bottom, block.blocks, block.number) for block in blocks] == [
        (0, 64, 3, 0),
        (64, 128, 3, 1),
        (128, 130, 3, 2),
        (130, 194, 1, 0),
        (194, 197, 1, 0),
        (197, 198, 1, 0),
    ]
    assert [block.rows for block in gemm(expert_order="number").row_blocks] == [3, 64, 64, 2, 64, 1]
    assert gemm().touched == 4
    assert gemm().weight_bytes == 2 * 4 * 200 * 96


def test_tiles_write_every_output_once():
    for work in (gemm(), gemm(activation="swiglu")):
        written = [next(iter(work.writes(x, y))).region for x, y in work.grid]
        assert sum((r.bottom - r.top) * (r.right - r.left) for r in written) == work.m * work.columns
        assert not any(a.meets(b) for i, a in enumerate(written) for b in written[:i])
    assert next(iter(gemm().reads(1, 2, 0))).region == Region(128, 130, 0, 96)


@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_a_draw_gives_each_token_distinct_experts_and_skew_makes_some_longer(skew):
    rows = Routing(500, 16, 4, skew, seed=3).expert_rows
    assert sum(rows) == 2000
    assert max(rows) <= 500
    assert (max(rows) > 350) == (skew == 1.0)
    assert rows == Routing(500, 16, 4, skew, seed=3).expert_rows
    assert rows != Routing(500, 16, 4, skew, seed=4).expert_rows
    assert Routing(7, 3, 3).expert_rows == (7, 7, 7)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"counts": (3, 0, 130, 64, 2)}, "counts sum to 199; 99 tokens with 2 experts each are 198 rows"),
        ({"counts": (198,)}, "counts has 1 numbers; give the rows of each of 5 experts"),
        ({"counts": (-1, 5, 130, 64, 0)}, "counts.*-1"),
        ({"top_k": 6, "counts": ()}, "top_k.*6"),
        ({"experts": 1025, "counts": ()}, "experts.*1.?025"),
        ({"activation": "gelu"}, "activation is 'gelu'; it must be None, 'swiglu'"),
        ({"expert_order": "random"}, "expert_order is 'random'"),
        ({"tokens": 2**20, "counts": ()}, "2,097,152 rows; at most 1,048,576"),
    ],
)
def test_routings_that_cannot_be_say_value_bound_and_fix(fields, message):
    with pytest.raises(DescriptionError, match=message):
        gemm(**fields)


def test_both_products_must_route_alike():
    layer = moe_layer("mixtral-8x7b", 64)
    with pytest.raises(DescriptionError, match="or of other rows; give both the same tokens"):
        layer.with_works({"down": replace(layer.stage("down").work, seed=1)})


def test_a_layer_reads_back_from_its_file_with_counts_and_drawn(tmp_path):
    path = tmp_path / "layer.toml"
    for routing in ({"skew": 0.5, "seed": 2}, {"counts": (9, 0, 3, 2, 1, 1, 0, 16)}):
        layer = moe_layer("mixtral-8x7b", 16, **routing)
        write_description(path, Description(layer, H200))
        back = load_description(path).pipeline
        assert [stage.work for stage in back.stages] == [stage.work for stage in layer.stages]
    text = path.read_text()
    path.write_text(text.replace("[9, 0, 3", "[9, 0, 4"))
    with pytest.raises(DescriptionError, match="counts sum to 33"):
        load_description(path)
    path.write_text(text.replace("[9, 0, 3", "[9, 'a', 3"))
    with pytest.raises(RecordingError, match="a list of whole numbers"):
        load_description(path)


def test_tiles_take_the_time_of_their_weights_and_full_ones_of_their_multiplications():
    law = GroupedCosts(1.0, 1e12, 0, multiply_adds_per_cycle=2048, memory_bytes_per_s=1e12)
    work = moe_layer("qwen3-30b-a3b", 16).stage("gate_up").work
    (few,) = set(law.times(moe_layer("qwen3-30b-a3b", 16).stage("gate_up"), SETTING).blocks)
    assert few.loads_ns == pytest.approx(132 * 2 * 128 * 2048 / 1e3, rel=0.01)
    assert few.loop_cycles == work.k / 64 * 64 * 128 * 64 / 2048
    stage = moe_layer("mixtral-8x7b", 128, counts=(200, 56, *[0] * 6)).stage("down")
    busy, other = (law.times(stage, SETTING).blocks[i] for i in (0, -1))
    assert other.loads_ns == pytest.approx(4 * busy.loads_ns, rel=0.01)


def test_a_down_tile_waits_for_the_tiles_of_its_own_rows_only():
    layer = moe_layer("qwen3-30b-a3b", 64, skew=1.0)
    needs = layer.dependency_of("down").producer_tiles(2, 5)
    assert {tile for _, tile in needs} == {(x, 5) for x in range(12)}
    for word in ("persistent-stream", "persistent+pdl+boundary", "persistent+pdl+row", "persistent"):
        plan = parse_plan(word)
        assert safety_of(layer, plan, H200).is_safe
        assert not list(hazards_of(layer, plan))
        trace = simulate(layer, plan, H200, find_costs(layer, H200).model)
        last = {}
        for stage, y, end in zip(trace.stage, trace.y, trace.end_ns, strict=True):
            last[stage, y] = max(last.get((stage, y), 0), end)
        ends = zip(trace.stage, trace.y, trace.end_ns, strict=True)
        assert all(end > last[0, y] for stage, y, end in ends if stage == 1)
        assert len(trace.stage) == sum(stage.grid.size for stage in layer.stages)


def test_imbalance_costs_time_and_the_longest_expert_first_gets_some_back():
    even = moe_layer("mixtral-8x7b", 1024, tile=(128, 256), counts=(256,) * 8)
    ends = {}
    for order in ("longest", "number"):
        skewed = moe_layer(
            "mixtral-8x7b",
            1024,
            tile=(128, 256),
            counts=(32, 32, 64, 64, 128, 128, 200, 1400),
            expert_order=order,
        )
        ends[order] = simulate(
            skewed, parse_plan("persistent"), H200, find_costs(skewed, H200).model
        ).makespan_ns
    base = simulate(even, parse_plan("persistent"), H200, find_costs(even, H200).model).makespan_ns
    assert base < ends["longest"] <= ends["number"]


def test_the_sum_reads_any_row_and_writes_each_token_once():
    combine = Combine("combine", 10, 3, 64, tile_m=4)
    assert [write.region for y in range(3) for write in combine.writes(0, y)] == [
        Region(0, 4, 0, 64),
        Region(4, 8, 0, 64),
        Region(8, 10, 0, 64),
    ]
    assert next(iter(combine.reads(0, 1, 0))).region == Region(0, 30, 0, 64)
