"""Layers: what each stage needs, against what its tiles read; models' shapes; bad input by name."""

import pytest

from wavesim import simulate
from wavesim.costs.data_sheet import roofline
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Region
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.workloads.catalogue import workload
from wavesim.workloads.hopper import BLOCKS, block_of
from wavesim.workloads.layer_variants import with_cache, with_rope
from wavesim.workloads.layers import CHAINS, STAGES, chain_of, transformer_layer, with_shared_qkv
from wavesim.workloads.models import layered_models, model_named
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS

LAYERS = [
    transformer_layer("gpt3-145b", 300),
    transformer_layer("llama-65b", 700, tiles={"qkv": (128, 192, 1), "out": (256, 128, 1)}),
    transformer_layer("llama-3-8b", 512, sequences=2),
    transformer_layer("qwen2.5-0.5b", 600, sequences=2, layers=2, tiles={"qkv": (192, 128, 1)}),
    transformer_layer("qwen2.5-0.5b", 780, sequences=3, tiles={"attention": (64, 128)}),
    transformer_layer("llama-3-8b", 2, phase="decode", cached=100),
    transformer_layer("qwen2.5-0.5b", 70, phase="decode", cached=64, layers=2),
    with_cache(with_rope(transformer_layer("llama-3-8b", 300)), cached=70),
    with_cache(transformer_layer("qwen2.5-0.5b", 576, sequences=3, layers=2), cached=200, capacity=500),
    with_rope(with_cache(transformer_layer("qwen2.5-0.5b", 5, phase="decode", cached=300, layers=2))),
]


def region_in_buffer(stage: Stage, operand: str, region: Region) -> tuple[str, Region]:
    view = stage.view(operand)
    return view.buffer, region.moved(view.row, view.column)


def tiles_read(pipeline: Pipeline, consumer: Stage, producer: Stage) -> dict[tuple[int, int], set]:
    """By consumer tile: the producer's tiles that write what it reads."""
    written = [
        (tile, *region_in_buffer(producer, write.operand, write.region))
        for tile in producer.grid
        for write in producer.tiled.writes(*tile)
    ]
    found: dict[tuple[int, int], set] = {}
    for tile in consumer.grid:
        reads = [
            region_in_buffer(consumer, read.operand, read.region)
            for z in range(consumer.grid.z)
            for read in consumer.tiled.reads(*tile, z)
        ]
        found[tile] = {
            at
            for at, buffer, place in written
            for name, region in reads
            if name == buffer and place.meets(region)
        }
    return found


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: f"{layer.name}-{layer.parameters['tokens']}")
def test_a_stage_needs_the_tiles_that_write_what_it_reads_and_no_others(layer: Pipeline) -> None:
    stages = {stage.name: stage for stage in layer.stages}
    for dependency in layer.dependencies:
        consumer = dependency.consumer.stage
        for producer in dependency.producers:
            expected = tiles_read(layer, consumer, stages[producer])
            for tile in consumer.grid:
                named = {at for name, at in dependency.producer_tiles(*tile) if name == producer}
                assert named == expected[tile], (consumer.name, producer, tile)


def test_a_causal_tile_waits_for_its_head_in_its_own_rows_and_in_those_before() -> None:
    layer = transformer_layer("llama-3-8b", 512, tiles={"qkv": (128, 128, 1)})
    attention = layer.dependency_of("attention")
    assert attention is not None
    tiles = {at for _, at in attention.producer_tiles(5, 1)}
    assert tiles == {(5, 1), (33, 0), (33, 1), (41, 0), (41, 1)}  # head 5 reads KV head 1, of 32 + 8 + 8


def test_layers_in_a_row_go_on_where_the_one_before_ended() -> None:
    two = transformer_layer("qwen2.5-0.5b", 256, layers=2)
    assert [stage.name for stage in two.stages] == [f"{name}_{i}" for i in (0, 1) for name in STAGES]
    needs = two.dependency_of("attention_norm_1")
    assert needs is not None
    assert needs.producers == ("down_0",)
    by_name = {stage.name: stage for stage in two.stages}
    assert by_name["attention_norm_1"].view("x") == by_name["down_0"].view("c")
    assert by_name["attention_norm_1"].view("residual") == by_name["mlp_norm_0"].view("sum")
    assert by_name["qkv_0"].view("c") != by_name["qkv_1"].view("c")


def test_one_qkv_buffer_for_all_layers_waits_for_the_attention_tiles_that_read_it() -> None:
    two = with_shared_qkv(transformer_layer("qwen2.5-0.5b", 512, layers=2))
    by_name = {stage.name: stage for stage in two.stages}
    assert by_name["qkv_0"].view("c") == by_name["qkv_1"].view("c")
    needs = two.dependency_of("qkv_1")
    assert needs is not None
    readers = {at for name, at in needs.producer_tiles(0, 2) if name == "attention_0"}
    assert readers == {(x, y) for x in range(14) for y in (2, 3)}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_has_its_stages_and_the_needs_between_them(name: str) -> None:
    chain = chain_of(transformer_layer("llama-65b", 512), name)
    assert tuple(stage.name for stage in chain.stages) == CHAINS[name]
    assert [d.consumer.stage.name for d in chain.dependencies] == list(CHAINS[name][1:])


@pytest.mark.parametrize("name", layered_models())
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_every_model_s_layer_is_simulated_under_every_way_to_synchronise(name: str, phase: str) -> None:
    layer = transformer_layer(
        name, 256 if phase == "prefill" else 4, phase=phase, cached=1023 if phase == "decode" else 0
    )
    device = load("h200")
    for plan in ("stream", "pdl", "pdl+row", "pdl+tile"):
        assert simulate(layer, parse_plan(plan), device, roofline(layer, device)).time_ns > 0


def test_a_layer_s_products_are_the_model_s() -> None:
    layer = transformer_layer("llama-65b-as-published", 1024)
    sizes = {
        stage.name: (stage.gemm.n, stage.gemm.k)
        for stage in layer.stages
        if stage.name in ("qkv", "out", "up", "down")
    }
    assert sizes == {"qkv": (3072, 8192), "out": (8192, 1024), "up": (5632, 8192), "down": (8192, 2816)}
    qwen = transformer_layer("qwen2.5-0.5b", 1024)
    biases = {stage.name: stage.gemm.has_bias for stage in qwen.stages if stage.name in ("qkv", "out", "up")}
    assert biases == {"qkv": True, "out": False, "up": False}


def test_blocks_are_those_of_the_compiled_kernels() -> None:
    for tile, config in TILE_CONFIGS.items():
        block = block_of(tile)
        assert (block.threads, block.dynamic_shared_bytes) == (config.threads, config.dynamic_shared_bytes)
    assert {tile: block_of(tile) for tile in BLOCKS} == BLOCKS


def test_layers_stand_in_the_catalogue() -> None:
    assert len(workload("llama-3-8b-layer", 512).stages) == 7
    assert workload("qwen2.5-0.5b-decode-layer").parameters["cached"] == 2047
    assert [stage.name for stage in workload("gpt3-145b-layer-attention").stages] == [
        "qkv",
        "attention",
        "out",
    ]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("gpt-5", 64), {}, "model is 'gpt-5'; known are gpt3-145b"),
        (("gpt-neox-20b", 64), {}, "gpt-neox-20b: its MLP is described, its layer is not"),
        (("llama-3-8b", 64), {"phase": "train"}, "phase is 'train'; it must be 'prefill' or 'decode'"),
        (("llama-3-8b", 64), {"sequences": 3}, "sequences is 3; it must divide the 64 rows"),
        (("llama-3-8b", 4), {"sequences": 2, "phase": "decode"}, "it must in decode be the 4 rows"),
        (("llama-3-8b", 64), {"cached": 8}, "cached is 8; a prompt's own keys"),
        (("qwen2.5-0.5b", 64), {"tp": 4}, "tp is 4; it must divide the 14 heads of qwen2.5-0.5b"),
        (("llama-3-8b", 64), {"tiles": {"qvk": (64, 64)}}, "tiles are given for 'qvk'; stages are"),
        (("llama-3-8b", 64), {"tiles": {"qkv": (100, 64)}}, "tile is 100x64; the Hopper kernels have"),
        (("llama-3-8b", 64), {"layers": 9}, "layers is 9"),
        (("llama-3-8b", 0), {}, "tokens is 0"),
    ],
)
def test_what_is_no_layer_is_refused_by_name(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(DescriptionError, match=message.replace("?", r"\?")):
        transformer_layer(*arguments, **options)


def test_a_chain_of_unknown_stages_is_refused_by_name() -> None:
    with pytest.raises(
        DescriptionError, match="chain is 'softmax'; it must be attention, norm, mlp, or stages"
    ):
        chain_of(transformer_layer("llama-3-8b", 64), "softmax")


def test_each_layered_model_says_where_its_sizes_stand() -> None:
    for model in layered_models().values():
        assert model.layer is not None
        assert model.layer.source
        assert model.source
    assert model_named("gpt-neox-20b").layer is None
