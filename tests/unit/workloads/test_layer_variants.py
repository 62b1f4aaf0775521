"""Layers with RoPE, a KV cache and a device's splits: who writes and reads the cache, and what is refused."""

from dataclasses import replace

import pytest

from wavesim import simulate
from wavesim.costs.data_sheet import roofline
from wavesim.errors import DescriptionError
from wavesim.model.accesses import Accesses
from wavesim.model.buffers import buffers_of
from wavesim.model.contents import contents_of
from wavesim.model.dependency import y
from wavesim.model.device import load
from wavesim.model.regions import Region
from wavesim.plan.coverage import Precedence
from wavesim.plan.parsing import parse_plan
from wavesim.safety.hazards import hazards_of
from wavesim.workloads.layer_variants import with_cache, with_rope, with_splits_for
from wavesim.workloads.layers import chain_of, transformer_layer
from wavesim_gpu.kernels.backends import backend_named

H200 = load("h200")
PLANS = ("stream", "pdl", "pdl+row", "pdl+tile", "tile")


def prompt(sequences=1, layers=1):
    return transformer_layer("qwen2.5-0.5b", 192 * sequences, sequences=sequences, layers=layers)


def step(layers=1):
    return transformer_layer("qwen2.5-0.5b", 3, phase="decode", cached=200, layers=layers)


def stages_of(layers):
    return {stage.name: stage for stage in layers.stages}


def test_a_run_makes_the_new_rows_of_the_cache_and_finds_the_others():
    layers = with_cache(prompt(sequences=2, layers=2), cached=100, capacity=320)
    buffers, accesses = buffers_of(layers), Accesses(layers)
    for name in ("keys_0", "values_0", "keys_1", "values_1"):
        buffer, contents = buffers[name], contents_of(accesses, buffers[name])
        assert (buffer.rows, buffer.columns) == (640, 128)
        assert contents.has_inputs
        assert contents.updated == ()
        assert contents.made == (Region(100, 292, 0, 128), Region(420, 612, 0, 128))
    assert buffers["qkv_0"].columns == 14 * 64


def test_positions_go_on_after_the_cached_keys_whichever_comes_first():
    for layers in (with_rope(with_cache(prompt(), cached=100)), with_cache(with_rope(prompt()), cached=100)):
        gemm = stages_of(layers)["qkv"].gemm
        assert (gemm.rope.first, gemm.rope.rows, gemm.rope.heads) == (100, 192, 14 + 2)
        assert (gemm.cache.first, gemm.cache.rows, gemm.cache.capacity) == (100, 192, 292)
    assert stages_of(with_rope(step()))["qkv"].gemm.rope.first == 200


def test_all_layers_read_one_table_of_angles():
    layers = with_rope(step(layers=2))
    assert {(use.stage, use.operand) for use in buffers_of(layers)["rope"].uses} == {
        ("qkv_0", "rope"),
        ("qkv_1", "rope"),
    }


def test_a_step_s_own_key_comes_from_the_product_and_not_from_attention():
    appended, stored = stages_of(step()), stages_of(with_cache(step()))
    assert {write.operand for write in appended["attention"].tiled.writes(0, 0)} == {"out", "k", "v"}
    assert {write.operand for write in stored["attention"].tiled.writes(0, 0)} == {"out"}
    assert stored["attention"].view("k") == stored["qkv"].view("k_cache") == appended["attention"].view("k")


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("layer", [prompt(2, 2), step(2)], ids=["prompt", "step"])
def test_layers_with_rope_and_cache_are_simulated_and_safe_under_every_plan(layer, plan):
    layers, found = with_cache(with_rope(layer), capacity=600), parse_plan(plan)
    assert next(hazards_of(layers, found), None) is None
    order = Precedence(Accesses(layers))
    for stage in layers.stages:
        order.require_covered(stage.name)
    assert simulate(layers, found, H200, roofline(layers, H200)).time_ns > 0


def test_a_cached_prompt_whose_attention_needs_only_its_own_rows_is_noticed():
    layers = with_cache(prompt(), cached=100)
    by_name = stages_of(layers)
    dependencies = [
        replace(one, needs=[by_name["qkv"][:, y]]) if one.consumer.stage.name == "attention" else one
        for one in layers.dependencies
    ]
    broken = replace(layers, dependencies=dependencies)
    with pytest.raises(DescriptionError, match=r"attention reads rows .* of 'keys_0', which tile .* of qkv"):
        Precedence(Accesses(broken)).require_covered("attention")


@pytest.mark.parametrize("model", ["qwen2.5-0.5b", "llama-3-8b"])
def test_the_hopper_kernels_take_them(model):
    tiles = {"qkv": (64, 128)}
    step = transformer_layer(model, 3, phase="decode", cached=200, tp=1, tiles=tiles)
    for layer in (with_cache(with_rope(step)), with_cache(with_rope(transformer_layer(model, 300, tp=1)))):
        backend_named("hopper").check(stages_of(layer)["qkv"].gemm)


def test_a_device_s_splits_keep_it_busy():
    layer = with_splits_for(transformer_layer("llama-3-8b", 1, phase="decode", cached=8191), H200)
    work = {name: stage.work for name, stage in stages_of(layer).items()}
    assert 64 <= work["attention"].grid.size <= 4 * H200.sm_count
    assert work["out"].grid.size >= H200.sm_count
    small = replace(H200, sm_count=4)
    fewer = stages_of(with_splits_for(layer, small))
    assert fewer["attention"].work.splits < work["attention"].splits
    assert fewer["out"].work.split_k == 1


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: with_cache(prompt(), capacity=100), "cache has 100 rows for a sequence; .* 192"),
        (lambda: with_cache(prompt(), cached=-1), "cached is -1"),
        (lambda: with_cache(step(), cached=50), "cached is 50; decode attention attention has 200"),
        (
            lambda: with_cache(transformer_layer("qwen2.5-0.5b", 300, sequences=3)),
            "3 sequences have 100 rows each.*Pad them to 128: tokens=384",
        ),
        (
            lambda: with_rope(transformer_layer("llama-3-8b", 4, phase="decode")),
            r"tile_n is 64; RoPE rotates whole heads of 128 columns. Use tiles={'qkv': \(64, 128\)}",
        ),
        (lambda: with_splits_for(prompt(), H200), "no stage is decode attention, whose splits follow"),
        (lambda: with_rope(chain_of(prompt(), "mlp")), "no stage is attention after a QKV product"),
    ],
)
def test_what_no_kernel_does_is_refused_by_name(made, said):
    with pytest.raises(DescriptionError, match=said):
        made()
