"""Scenes: what a browser gets to draw is what the trace, the dependency and the occupancy rules say."""

import numpy as np
import pytest

from wavesim import (
    ColumnMajor,
    RowSync,
    SemaphoreSync,
    TileSync,
    device,
    gpt3_attention,
    gpt3_mlp,
    occupancy_of,
    simulate,
    toy,
    zero_cost,
)
from wavesim.model.kernel import Block
from wavesim.recordings.shipped import cases
from wavesim.view.sm_scenes import KIB, ShownKernel, scene_of_launch
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.timeline_scene import packed, scene_of_dependencies, scene_of_timeline


def array(column):
    return np.frombuffer(column["data"], dtype=column["type"])


def scene(*plans):
    pipeline = toy()
    traces = [simulate(pipeline, plan, device("toy"), zero_cost(pipeline, 1_000)) for plan in plans]
    return traces, scene_of_timeline(timeline_parts(traces))


# --- arrays ---


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 255], "uint8"),
        ([-1, 3], "int16"),
        ([0, 256], "int16"),
        ([0, 40_000], "int32"),
        ([0, 2**31], "float64"),
        ([], "uint8"),
    ],
)
def test_integers_are_packed_in_the_smallest_type_that_holds_them(values, kind):
    column = packed(np.array(values, dtype=np.int64))
    assert column["type"] == kind
    assert array(column).tolist() == values


# --- timelines ---


def test_every_block_and_wait_of_a_trace_is_in_its_panel():
    (trace,), found = scene(SemaphoreSync(TileSync(), order=ColumnMajor()))
    (panel,) = found["panels"]
    for name in ("stage", "x", "y", "z", "sm", "slot"):
        assert array(panel["blocks"][name]).tolist() == getattr(trace, name).tolist()
    waits = trace.waits
    shown = waits.end_ns > waits.start_ns
    assert shown.any()
    for name in ("block", "dependency", "semaphore"):
        assert array(panel["waits"][name]).tolist() == getattr(waits, name)[shown].tolist()
    assert array(panel["waits"]["end"]).tolist() == waits.end_ns[shown].tolist()


def test_a_measured_traces_waits_are_drawn_though_their_semaphores_are_unknown():
    case = next(c for c in cases() if (c.tokens, c.tile, c.order) == (256, "128x256", "row"))
    trace = case.trace("row")
    (panel,) = scene_of_timeline(timeline_parts(trace))["panels"]
    assert (array(panel["waits"]["dependency"]) == -1).all()
    lengths = array(panel["waits"]["end"]).astype(int) - array(panel["waits"]["start"])
    assert lengths.sum() == trace.wait_ns.sum() > 0
    assert "measured on NVIDIA H200" in panel["source"]


# --- dependencies ---


@pytest.mark.parametrize("pipeline", [toy(), gpt3_mlp(512, (128, 256)), gpt3_attention(256, (128, 128))])
def test_boxes_and_steps_name_just_the_tiles_that_are_read(pipeline):
    found = scene_of_dependencies(pipeline, SemaphoreSync())
    names = [stage["name"] for stage in found["stages"]]
    for dependency in pipeline.dependencies:
        consumer = dependency.consumer.stage
        needs = [need for need in found["needs"] if names[need["consumer"]] == consumer.name]
        for x, y in consumer.grid:
            read = {
                (names[need["producer"]], (px, py))
                for need in needs
                for x0, x1, y0, y1 in [array(need["boxes"]).reshape(-1, 4)[y * consumer.grid.x + x].tolist()]
                for px in range(x0, x1, need["steps"][0])
                for py in range(y0, y1, need["steps"][1])
            }
            assert read == set(dependency.producer_tiles(x, y))


def test_places_are_those_of_the_plans_order_and_semaphores_those_of_its_policy():
    found = scene_of_dependencies(toy(), SemaphoreSync(RowSync(), order=ColumnMajor()))
    assert array(found["stages"][0]["places"]).tolist() == [0, 3, 1, 4, 2, 5]
    assert found["dependencies"] == [
        {
            "producer": "gemm1",
            "consumer": "gemm2",
            "policy": "row",
            "semaphores": [0, 0, 1, 1, 2, 2],
            "values": [2, 2, 2],
        }
    ]


# --- occupancy ---


def test_resources_are_those_of_the_occupancy_rules_and_the_limit_is_marked():
    block = Block(threads=256, registers=64, dynamic_shared_bytes=96 * KIB)
    h200 = device("h200")
    found = scene_of_launch(ShownKernel(h200, block, 133))
    occupancy = occupancy_of(h200, block)
    assert found["title"] == "2 blocks per SM: its shared memory allows no more"
    assert {row["name"]: row["allows"] for row in found["resources"]} == occupancy.limits
    assert [row["name"] for row in found["resources"] if row["isLimit"]] == [occupancy.limiter]
    assert all(found["resident"] * row["need"] <= row["capacity"] for row in found["resources"])


@pytest.mark.parametrize(
    ("blocks", "title", "waves", "rest"),
    [
        (132, "132 blocks fill 1 wave", 1, 132),
        (133, "133 blocks: 1.01 waves of work take 2 waves; the last is 1 % full", 2, 1),
        (66, "66 blocks fill 50 % of one wave", 1, 66),
        (1, "1 block fills 1 % of one wave", 1, 1),
    ],
)
def test_waves_of_the_grid(blocks, title, waves, rest):
    block = Block(threads=256, registers=64, dynamic_shared_bytes=120 * KIB)
    found = scene_of_launch(ShownKernel(device("h200"), block, blocks))
    assert (found["waveTitle"], found["waves"], found["rest"]) == (title, waves, rest)
