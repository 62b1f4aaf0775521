"""Products that stream their weights: what tiles read, what a file says of them, hazards of their buffers."""

from dataclasses import replace

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.regions import Region
from wavesim.plan.parsing import parse_plan
from wavesim.safety.deadlock import safety_of
from wavesim.safety.hazards import hazards_of
from wavesim.work.description.reader import Description, load_description
from wavesim.work.description.writer import write_description
from wavesim.work.streamed import StreamedProduct
from wavesim.workloads.decode_steps import decode_step

MEGA = parse_plan("megakernel")
H200 = load("h200")


def test_items_stream_all_weights_once_and_read_their_part_of_x():
    work = StreamedProduct("down", 2, 100, 1000, split_k=3)
    blocks = [(tile, 0, z) for tile, _ in work.grid for z in range(3)]
    assert sum(work.ahead_bytes(*block) for block in blocks) == work.weight_bytes == 200_000
    assert [read.region for read in work.reads(0, 0, 1)] == [Region(0, 2, 333, 666)]
    assert work.awaited_bytes(1) == 2 * 2 * 333
    normed = replace(work, norm="rms")
    assert [read.region for read in normed.reads(0, 0, 1)] == [Region(0, 2, 0, 1000)]
    gated = StreamedProduct("up", 1, 64, 32, activation="swiglu")
    assert [write.region for write in gated.writes(1, 0)] == [Region(0, 1, 4, 8)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"m": 17}, "m is 17; it must be at most 16. Use a GEMM"),
        ({"split_k": 65}, "split_k is 65; it must be at most k, 64"),
        ({"norm": "batch"}, "norm is 'batch'; it must be 'none', 'rms', 'layer'"),
        ({"activation": "swiglu", "n": 33}, "n is 33 and tile_n 8; with swiglu"),
    ],
)
def test_products_that_cannot_be_say_value_bound_and_fix(fields, message):
    with pytest.raises(DescriptionError, match=message):
        StreamedProduct(**{"name": "p", "m": 1, "n": 32, "k": 64, **fields})


def test_a_step_reads_back_from_its_file(tmp_path):
    step = decode_step("qwen2.5-0.5b", batch=4, cached=100, splits={"down": 2})
    path = tmp_path / "step.toml"
    write_description(path, Description(step, H200))
    assert [stage.work for stage in load_description(path).pipeline.stages] == [
        stage.work for stage in step.stages
    ]


def test_layers_that_share_buffers_are_safe_and_a_wait_less_is_a_hazard():
    step = decode_step("qwen2.5-0.5b", layers=2)
    assert safety_of(step, MEGA, H200).is_safe
    fewer = [each for each in step.dependencies if each.consumer.stage.name != "out_0"]
    hazard = next(hazards_of(replace(step, dependencies=fewer), MEGA))
    assert (hazard.kind, hazard.buffer) == ("read before written", "attended")


def test_a_cache_that_another_stage_fills_may_not_be_loaded_ahead_of_the_wait():
    step = decode_step("qwen2.5-0.5b", cached=64)
    qkv = step.stages[0]
    stored = replace(qkv, buffers={**qkv.buffers, "out": "keys"})
    changed = step.with_stages({stage.name: stored if stage == qkv else stage for stage in step.stages})
    hazard = next(hazards_of(changed, MEGA))
    assert hazard.kind == "loaded before written"
    assert "tile (0, 0) of attention loads ahead of its wait what tile (0, 0) of qkv writes" in hazard.text
