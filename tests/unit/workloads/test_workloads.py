"""The workloads: shapes as published, dependencies that read what the mathematics reads, costs for all."""

import numpy as np
import pytest

from wavesim.errors import DescriptionError
from wavesim.model.dependency import x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import TileSync
from wavesim.predict.defaults import default_costs
from wavesim.sim.simulation import simulate
from wavesim.work.convolution import Conv2D
from wavesim.work.convolution.reads import conv_rows
from wavesim.work.gemm import Gemm
from wavesim.workloads.attention import gpt3_attention
from wavesim.workloads.catalogue import DEFAULTS, WORKLOADS, workload
from wavesim.workloads.convolutions import IMAGE_SIZES, conv_layer
from wavesim.workloads.hopper import BLOCKS, gpt3_mlp_hopper, llama_mlp_hopper
from wavesim.workloads.mlps import gpt3_mlp, llama_mlp, llama_mlp_three_gemms
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS

H200 = load("h200")


def tiles_read(pipeline: Pipeline, consumer: str, tile: tuple[int, int]) -> set[tuple[str, tuple[int, int]]]:
    dependency = pipeline.dependency_of(consumer)
    assert dependency is not None
    return set(dependency.producer_tiles(*tile))


# --- every workload ---


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_of_the_catalogue_is_simulated_under_every_kind_of_plan(name):
    device = load("toy") if name == "toy" else H200
    tokens = 2 if DEFAULTS[name].unit.startswith(("images", "sequences")) else 256
    pipeline = workload(name, tokens)
    costs, basis = default_costs(pipeline, device)
    assert basis
    for plan in (StreamSync(), SemaphoreSync(), SemaphoreSync(TileSync())):
        trace = simulate(pipeline, plan, device, costs)
        assert len(trace) == sum(stage.grid.size for stage in pipeline.stages)
        assert trace.makespan_ns > 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_has_sensible_defaults_and_leaves_no_tile_unread(name):
    assert workload(name).unread_tiles() == {}


def test_an_unknown_workload_lists_the_known_ones():
    with pytest.raises(DescriptionError, match=r"'gpt5'; known are toy, gpt3-mlp.*llama-mlp.*resnet-conv"):
        workload("gpt5")


# --- LLaMA ---


def test_llamas_fused_mlp_has_the_published_padded_shape():
    pipeline = llama_mlp(1024)
    first, second = (stage.gemm for stage in pipeline.stages)
    assert (first.n, first.columns, first.k, first.activation) == (2 * 2816, 2816, 8192, "swiglu")
    assert (second.n, second.k) == (8192, 2816)
    assert tiles_read(pipeline, "gemm2", (5, 3)) == {("gemm1", (column, 3)) for column in range(22)}


def test_in_the_papers_variant_the_third_gemm_has_two_producers():
    pipeline = llama_mlp_three_gemms(1024)
    dependency = pipeline.dependency_of("down")
    assert dependency is not None
    assert dependency.producers == ("gate", "value")
    assert tiles_read(pipeline, "down", (5, 3)) == {
        (name, (column, 3)) for name in ("gate", "value") for column in range(11)
    }


def test_both_variants_do_the_same_arithmetic():
    flops = [
        sum(stage.gemm.flops for stage in build(512).stages) for build in (llama_mlp, llama_mlp_three_gemms)
    ]
    assert flops[0] == flops[1]


def test_swiglu_halves_what_a_gemm_writes_and_needs_pairs_of_columns():
    plain = Gemm("plain", 128, 512, 64, 128, 256)
    gated = Gemm("gated", 128, 512, 64, 128, 256, activation="swiglu")
    written = 2 * 128 * 512
    assert (plain.kernel.bytes_per_block - gated.kernel.bytes_per_block) * 2 == written // 2
    assert gated.columns == 256
    with pytest.raises(DescriptionError, match="n is 513 and tile_n 256; with swiglu they must be even"):
        Gemm("odd", 128, 513, 64, 128, 256, activation="swiglu")


# --- attention ---


def test_attention_is_a_chain_with_the_stride_of_one_eighth_of_the_hidden_dimension():
    pipeline = gpt3_attention(512)
    assert [stage.name for stage in pipeline.stages] == ["qkv", "scores", "softmax", "context", "output"]
    assert [(s.grid.x, s.grid.y) for s in pipeline.stages] == [(36, 4), (12, 4), (12, 4), (12, 4), (96, 4)]
    assert 12 * 128 == 12_288 // 8


def test_a_prompts_scores_need_the_keys_of_all_rows_and_its_context_the_values():
    pipeline = gpt3_attention(512)
    assert tiles_read(pipeline, "scores", (5, 2)) == {
        ("qkv", (5, 2)),
        *(("qkv", (17, row)) for row in range(4)),
    }
    assert tiles_read(pipeline, "context", (5, 2)) == {
        ("softmax", (5, 2)),
        *(("qkv", (29, row)) for row in range(4)),
    }
    assert tiles_read(pipeline, "output", (40, 2)) == {("context", (column, 2)) for column in range(12)}


def test_as_published_scores_need_one_tile_a_stride_further_on_in_the_same_row():
    pipeline = gpt3_attention(512, is_as_published=True)
    assert tiles_read(pipeline, "scores", (5, 2)) == {("qkv", (5, 2)), ("qkv", (17, 2))}
    assert tiles_read(pipeline, "context", (5, 2)) == {("softmax", (5, 2)), ("qkv", (29, 2))}


def test_cached_keys_make_attention_longer_and_not_wider():
    short, long = gpt3_attention(128), gpt3_attention(128, cached=1920)
    assert [s.grid for s in short.stages] == [s.grid for s in long.stages]
    assert long.stage("scores").kernel.flops_per_block == 16 * short.stage("scores").kernel.flops_per_block


@pytest.mark.parametrize("setting", [{"tile": (128, 64)}, {"tile": (128, 1024)}, {"cached": -1}])
def test_attention_refuses_parts_of_heads_and_negative_caches(setting):
    with pytest.raises(DescriptionError, match="tile_n a multiple of 128 that divides 1536"):
        gpt3_attention(512, **setting)


# --- convolutions ---


def conv_pair(images: int, size: int, tiles: tuple[int, int], kernel_size: int = 3) -> Pipeline:
    block = Block(threads=128)
    stages = [
        Stage(name, Conv2D(name, images, size, size, 64, 64, tile, 64, block, kernel_size))
        for name, tile in zip(("conv1", "conv2"), tiles, strict=True)
    ]
    return Pipeline("pair", stages, [conv_rows(*stages)])


def tile_rows_by_pixel(conv: Conv2D, producer_tile: int, row: int) -> set[int]:
    """Tile rows of the producer that hold a pixel which an output pixel of this tile row reads."""
    reach = conv.kernel_size // 2
    image = np.zeros((conv.images, conv.height, conv.width), dtype=bool)
    image.reshape(-1)[row * conv.tile_m : (row + 1) * conv.tile_m] = True
    read = np.zeros_like(image)
    for dp in range(-reach, reach + 1):
        for dq in range(-reach, reach + 1):
            to_p, from_p = (
                slice(max(0, dp), conv.height + min(0, dp)),
                slice(max(0, -dp), conv.height - max(0, dp)),
            )
            to_q, from_q = (
                slice(max(0, dq), conv.width + min(0, dq)),
                slice(max(0, -dq), conv.width - max(0, dq)),
            )
            read[:, to_p, to_q] |= image[:, from_p, from_q]
    return {int(pixel) // producer_tile for pixel in np.flatnonzero(read)}


@pytest.mark.parametrize("size", IMAGE_SIZES.values())
@pytest.mark.parametrize("tiles", [(64, 64), (128, 128), (256, 256), (64, 128), (128, 64)])
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_the_strict_dependency_names_exactly_the_tiles_that_hold_a_pixel_read(size, tiles, kernel_size):
    pipeline = conv_pair(3, size, tiles, kernel_size)
    second = pipeline.stage("conv2").work
    assert isinstance(second, Conv2D)
    for row in range(second.grid.y):
        named = {tile[1] for _, tile in tiles_read(pipeline, "conv2", (0, row))}
        assert named == tile_rows_by_pixel(second, tiles[0], row)


def test_as_published_a_convolution_reads_pixels_that_it_does_not_wait_for():
    strict, published = (conv_layer("resnet", 128, 4, is_as_published=flag) for flag in (False, True))
    for row in range(1, 24):
        assert {t for _, t in tiles_read(published, "conv2", (0, row))} == {(0, row)}
        assert {t for _, t in tiles_read(strict, "conv2", (0, row))} > {(0, row)}


def test_all_channels_are_needed_in_step_with_the_k_loop():
    pipeline = conv_layer("resnet", 512, 4)
    dependency = pipeline.dependency_of("conv2")
    assert dependency is not None
    columns = [tile[0] for _, tile in dependency.producer_tiles(0, 1)]
    assert columns == sorted(columns)
    assert set(columns) == set(range(8))


@pytest.mark.parametrize(
    ("model", "channels", "count"), [("resnet", 256, 2), ("vgg", 128, 2), ("vgg", 512, 4)]
)
def test_a_layer_has_as_many_convolutions_as_table_two_says(model, channels, count):
    pipeline = conv_layer(model, channels, 2)
    assert len(pipeline.stages) == count
    assert [d.producers for d in pipeline.dependencies] == [(f"conv{i}",) for i in range(1, count)]
    conv = pipeline.stages[0].work
    assert isinstance(conv, Conv2D)
    assert (conv.pixels, conv.depth) == (2 * IMAGE_SIZES[channels] ** 2, 9 * channels)


def test_a_convolution_does_nine_times_the_arithmetic_of_a_gemm_and_reads_its_images_once():
    conv = Conv2D("conv", 1, 8, 8, 64, 64, 64, 64, Block(threads=128))
    assert conv.kernel.flops_per_block == 2 * 64 * 64 * 9 * 64
    assert conv.kernel.bytes_per_block == 2 * (64 * 128 + 9 * 64 * 64)


def test_convolutions_that_do_not_fit_together_are_refused():
    block = Block(threads=128)
    first = Stage("conv1", Conv2D("conv1", 1, 8, 8, 64, 64, 64, 64, block))
    second = Stage("conv2", Conv2D("conv2", 1, 8, 8, 32, 64, 64, 64, block))
    with pytest.raises(
        DescriptionError, match=r"reads images of \(1, 8, 8, 32\) but conv1 makes \(1, 8, 8, 64\)"
    ):
        conv_rows(first, second)
    with pytest.raises(DescriptionError, match="is a Gemm, not a Conv2D"):
        conv_rows(Stage("gemm", Gemm("gemm", 64, 64, 64, 64, 64)), second)
    with pytest.raises(DescriptionError, match="kernel_size is 2; it must be odd"):
        Conv2D("conv", 1, 8, 8, 64, 64, 64, 64, block, kernel_size=2)
    with pytest.raises(DescriptionError, match="known are resnet, vgg with 64, 128, 256, 512 channels"):
        conv_layer("alexnet", 64, 1)


def test_a_dependency_can_be_written_by_hand_like_the_catalogues():
    pipeline = conv_layer("resnet", 64, 1, is_as_published=True)
    first, second = pipeline.stages
    assert pipeline.dependencies[0].needs == (first[:, y],)
    assert pipeline.dependencies[0].consumer == second[x, y]


def test_hopper_workloads_describe_the_blocks_that_the_kernels_have():
    for tile, block in BLOCKS.items():
        shape = TILE_CONFIGS[tile]
        assert (block.threads, block.dynamic_shared_bytes) == (shape.threads, shape.dynamic_shared_bytes)
        assert shape.cluster == 1
    hopper, portable = gpt3_mlp_hopper(1024), gpt3_mlp(1024)
    assert [stage.grid for stage in hopper.stages] == [stage.grid for stage in portable.stages]
    assert hopper.stages[0].gemm.activation == "gelu"
    assert llama_mlp_hopper(1024).stages[0].gemm.columns == 2816


def test_a_tile_that_no_hopper_workload_has_is_refused_with_those_there_are():
    with pytest.raises(DescriptionError, match="tile is 64x64; described of the Hopper kernels are 128x256"):
        gpt3_mlp_hopper(1024, (64, 64))
