"""The networks as they are: their layers' shapes, weights and shortcuts, and what their tiles wait for."""

from dataclasses import replace

import pytest

from wavesim.costs.device_costs import law_of
from wavesim.costs.layer_costs import costs_of_stages
from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.device import load
from wavesim.plan.coverage import Precedence
from wavesim.plan.parsing import parse_plan
from wavesim.predict.defaults import find_costs
from wavesim.predict.kinds import CONVOLUTION_CONSTANTS
from wavesim.sim.simulation import simulate
from wavesim.work.convolution.law import ConvolutionCosts
from wavesim.work.law import RunSetting
from wavesim.workloads.conv_networks import (
    Convolution,
    chain_of_convolutions,
    conv_of,
    network_named,
    network_part,
)
from wavesim.workloads.convolutions import CONVOLUTIONS, PUBLISHED_LAYERS, conv_layer

H200 = load("h200")
COSTS = law_of(ConvolutionCosts, H200.name)


# Parameters as torchvision counts them: weights, products with biases, two per channel of a normalisation,
# or one of a bias. Work is of the convolutions alone.
@pytest.mark.parametrize(
    ("name", "count", "per_channel", "products", "parameters", "giga_adds"),
    [
        ("resnet-34", 36, 2, 1000 * 512 + 1000, 21_797_672, 3.66),
        ("resnet-50", 53, 2, 1000 * 2048 + 1000, 25_557_032, 4.09),
        ("vgg-19", 16, 1, 4096 * 512 * 49 + 4096 + 4096**2 + 4096 + 1000 * 4096 + 1000, 143_667_240, 19.51),
    ],
)
def test_a_network_has_the_weights_and_the_work_that_are_published(  # a row of the table
    name, count, per_channel, products, parameters, giga_adds
):
    convolutions = network_named(name).convolutions
    assert len(convolutions) == count
    colours = {one.name: 3 if one.channels == 8 else one.channels for one in convolutions}
    sizes = [colours[one.name] * one.filters * one.kernel_size**2 for one in convolutions]
    others = sum(per_channel * one.filters for one in convolutions)
    assert sum(sizes) + others + products == parameters
    adds = sum(size * one.out_size**2 for size, one in zip(sizes, convolutions, strict=True))
    assert adds / 1e9 == pytest.approx(giga_adds, abs=0.01)


def test_a_shortcut_of_another_shape_is_a_convolution_beside_the_block():
    part = network_part("resnet-50", 28, 1, (128, 64, 1))
    down, last = part.stage("layer2_1_down").work, part.stage("layer2_1c").work
    assert (down.stride, down.kernel_size, down.out_shape) == (2, 1, (1, 28, 28, 512))
    assert (last.has_residual, last.activation, down.activation) == (True, "relu", None)
    needs = part.dependency_of("layer2_1c")
    assert needs is not None
    assert needs.producers == ("layer2_1b", "layer2_1_down")
    assert part.dependency_of("layer2_2c").producers == ("layer2_2b", "layer2_1c")
    assert part.dependency_of("layer2_1b") is None  # it reads another part's images


@pytest.mark.parametrize(("name", "size"), [("resnet-34", 14), ("resnet-50", 7), ("vgg-19", 14)])
def test_every_pixel_and_residual_that_a_part_reads_is_waited_for(name, size):
    order = Precedence(Accesses(network_part(name, size, 2, (128, 64, 2))))
    for stage in order.accesses.pipeline.stages:
        order.require_covered(stage.name)


def test_the_papers_networks_have_the_layers_of_table_two():
    assert sum(2 * count for count in PUBLISHED_LAYERS["resnet"].values()) == 32
    assert sum(CONVOLUTIONS["vgg"][channels] for channels in PUBLISHED_LAYERS["vgg"]) == 12
    assert len(conv_layer("vgg", 512, 1).stages) == 4


def test_loads_bind_narrow_tiles_and_memory_large_batches():
    conv = network_named("resnet-34").part(56)[0]
    narrow, high = (conv_of(conv, 8, (tile_m, 64, 1)) for tile_m in (128, 256))
    assert COSTS.loop_cycles(high) < 2 * COSTS.loop_cycles(narrow)
    assert COSTS.traffic_ns(narrow, 132) == (0.0, 0.0)
    last = network_named("resnet-50").part(56)[3]  # 1 x 1 to 256 channels, 200 MB of them at batch 64
    wide = conv_of(last, 64, (128, 256, 1))
    read_ns, written_ns = COSTS.traffic_ns(wide, 132)
    assert read_ns + written_ns > COSTS.tensor_cycles(wide) / 1.3
    # Outputs, and a residual with them, of four times the channels each; and filters are read too.
    assert written_ns == pytest.approx(8 * read_ns, rel=0.01)


def test_of_a_strided_1x1_only_every_other_pixel_of_every_other_row_is_read():
    last = replace(network_named("resnet-50").part(56)[3], stride=2, size=28)
    strided, whole = (
        COSTS.traffic_ns(conv_of(one, 4096, (128, 256, 1)), 132)[0] for one in (last, replace(last, stride=1))
    )
    assert strided == pytest.approx(whole, rel=0.05)  # of images twice as high and wide


def test_a_persistent_block_pays_its_start_once_and_hides_stores_behind_the_next_tile():
    conv = network_named("resnet-34").part(56)[0]
    pipeline = chain_of_convolutions("two", [conv], 32, {conv.name: (256, 64, 1)})
    each = costs_of_stages(pipeline, H200)
    stays = costs_of_stages(pipeline, H200, schedule="persistent")
    alone, times = each.tile_ns[conv.name], stays.tile_ns[conv.name]
    assert len(times) == len(alone) == pipeline.stages[0].grid.size == 392
    assert set(times[:132]) == {alone[0] + COSTS.persistent_ns}
    # Of the three waves the last has all but four blocks of a full one, and loads a little less long.
    assert len(set(times[132:264])) == len(set(times[264:])) == 1
    assert times[-1] < times[132] < alone[0]
    assert stays.of_stage(conv.name).tile_fetch_ns == 0
    runs = {
        word: find_costs(pipeline, H200).simulated(pipeline, parse_plan(word), H200).time_ns
        for word in ("stream", "persistent-stream")
    }
    assert runs["persistent-stream"] < 0.9 * runs["stream"]


def test_k_blocks_of_a_persistent_kernel_take_longer_in_one_wave_too():
    conv = Convolution("one", 7, 512, 512)
    pipeline = chain_of_convolutions("one", [conv], 1, {conv.name: (64, 128, 1)})
    each, stays = (
        costs_of_stages(pipeline, H200, schedule=word).tile_ns[conv.name] for word in ("tile", "persistent")
    )
    own = COSTS
    assert stays == each + own.persistent_ns + 72 * own.k_block_wait_ns


def test_loops_of_narrow_tiles_are_the_longer_the_fuller_their_wave_is():
    conv = network_named("resnet-34").part(56)[0]
    times = {}
    for images in (12, 20):  # 147 and 245 tiles: a wave, and 15 or 113 of 132 of the next
        pipeline = chain_of_convolutions("one", [conv], images, {conv.name: (256, 64, 1)})
        found = costs_of_stages(pipeline, H200).tile_ns[conv.name]
        assert len(set(found)) == 2
        times[images] = found
    assert times[12][0] == pytest.approx(times[20][0], rel=0.02)  # but for the clock
    assert times[12][-1] < 0.8 * times[20][-1] < 0.8 * times[20][0]


def test_splits_that_fill_the_gpu_take_longer_and_hide_what_waiting_adds():
    few, many, halves = (
        conv_of(Convolution("one", 7, 512, 512), images, (64, 128, splits))
        for images, splits in ((4, 4), (10, 4), (20, 2))
    )
    assert [one.grid.size for one in (few, many, halves)] == [64, 128, 128]
    assert COSTS.crowd_ratio(few, 64 / 132) == COSTS.crowd_ratio(halves, 128 / 132) == 1.0
    assert COSTS.crowd_ratio(many, 128 / 132) == pytest.approx(1.56, abs=0.01)
    k_blocks = [COSTS.overheads(one, RunSetting(H200), {})["k_block_wait_ns"] for one in (few, many, halves)]
    assert k_blocks == [40, 0, 40]


def test_a_tile_s_splits_end_the_later_the_further_back_it_is():
    conv = Convolution("one", 7, 512, 512)
    pipeline = chain_of_convolutions("one", [conv], 4, {conv.name: (64, 128, 4)})
    found = costs_of_stages(pipeline, H200).tile_ns[conv.name]
    per_split = [found[at : at + 16] for at in range(0, 64, 16)]
    assert per_split[0] == sorted(per_split[0])
    assert all(one == per_split[0] for one in per_split)
    assert per_split[0][-1] - per_split[0][0] == pytest.approx(830 * 15 / 16, abs=1)


def test_a_plan_that_takes_longer_runs_at_a_higher_clock():
    pair = chain_of_convolutions("pair", network_named("vgg-19").part(28)[:2], 64, (128, 128, 1))
    costs = costs_of_stages(pair, H200)
    clock = costs.plan_clock
    assert clock.load.ghz(1.0) == clock.load.limit_ghz < clock.ghz < clock.load.most_ghz
    times = {
        known: simulate(pair, parse_plan("stream"), H200, costs_at).time_ns
        for known, costs_at in (("one", replace(costs, plan_clock=None)), ("own", costs))
    }
    assert clock.ghz_of(2 * times["own"]) > clock.ghz_of(times["own"])
    # Gaps between kernels are more of a run than the clock of kernels one after the other allows for.
    assert 0.9 * times["one"] < times["own"] < times["one"]


def test_few_channels_cost_a_pixel_as_much_as_many_would_and_more():
    stem, inner = (network_named("resnet-50").convolutions[at] for at in (0, 2))
    few, many = (COSTS.load_cycles(conv_of(one, 8, (256, 64, 1))) for one in (stem, inner))
    assert few > 2 * many


def test_by_dependent_launch_blocks_of_a_1x1_fill_their_pipeline_before_they_look_at_pixels():
    conv = network_named("resnet-34").part(28)[-1]
    depths = {(128, 64): 8, (128, 128): 6, (64, 128): 6, (128, 256): 4, (64, 64): 8, (256, 64): 4}
    for tile, depth in depths.items():
        work = conv_of(conv, 8, (*tile, 1))
        assert COSTS.pipeline_depth(work) == depth
        assert COSTS.overheads(work, RunSetting(H200), {})["grid_wait_ns"] == depth * COSTS.slot_ns
        point = replace(work, kernel_size=1)
        slots = min(depth, point.k_block_count)
        assert COSTS.overheads(point, RunSetting(H200), {})["grid_wait_ns"] == slots * COSTS.light_slot_ns
    # Larger ones load filters of one k-block ahead: no wave of them pays for more.
    for images, is_faster in ((1, True), (64, True)):
        chain = chain_of_convolutions("pair", network_named("vgg-19").part(28)[:2], images, (128, 128, 1))
        known = find_costs(chain, H200)
        stream, pdl = (known.simulated(chain, parse_plan(word), H200).time_ns for word in ("stream", "pdl"))
        assert (pdl < stream) == is_faster


def test_convolutions_are_predicted_in_these_words():
    known = find_costs(network_part("resnet-34", 14, 1, (64, 64, 2)), H200)
    assert "convolutions as fitted to single ones and to pairs and chains" in known.source
    assert known.kind == CONVOLUTION_CONSTANTS
    found = [
        known.simulated(network_part("resnet-34", 14, 1, (64, 64, 2)), parse_plan(word), H200)
        for word in ("stream", "pdl")
    ]
    assert found[0].time_ns > found[1].time_ns


def test_what_there_is_not_is_refused_with_what_there_is():
    with pytest.raises(
        DescriptionError, match="network is 'alexnet'; known are resnet-34, resnet-50, vgg-19"
    ):
        network_named("alexnet")
    with pytest.raises(
        DescriptionError, match="resnet-34 has no part of 224 pixels; it has 112, 56, 28, 14, 7"
    ):
        network_part("resnet-34", 224, 1)
    with pytest.raises(DescriptionError, match="tile is 64x32; the Hopper kernels have 256x64, 128x64"):
        network_part("resnet-34", 56, 1, (64, 32, 1))
