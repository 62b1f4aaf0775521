"""Whole layers on the GPU: right under every plan, 100 times, in reused buffers; broken ones are noticed."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.work.attention import Attention
from wavesim.work.gemm import Gemm
from wavesim.work.rows import Copy
from wavesim.workloads.layer_variants import with_cache, with_rope
from wavesim.workloads.layers import transformer_layer, with_shared_qkv
from wavesim.workloads.models import Model, TransformerShape
from wavesim_gpu.driver.compiler import Build

EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"
DELAY_NS = 100_000
TILES = {
    **dict.fromkeys(("qkv", "out", "up", "down"), (64, 128, 1)),
    **dict.fromkeys(("attention_norm", "mlp_norm"), (8,)),
    "attention": (128, 128),
}
PLANS = ("stream", "pdl", "pdl+row", "pdl+tile", "tile", "persistent-stream", "persistent+pdl+row")
REPLAYS = 100


def two_layers(tokens=300, **options):
    """Fourteen stages; all buffers but those of QKV are reused by the second layer."""
    return transformer_layer("qwen2.5-0.5b", tokens, layers=2, tiles=TILES, **options)


class Run:
    """A pipeline under a plan, ready to be run and judged."""

    def __init__(self, pipeline, plan, build=None):
        from wavesim_gpu.run.references import reference
        from wavesim_gpu.run.runner import CupyRunner

        self.runner = CupyRunner(limit_s=2.0, commit="test", backend="hopper")
        self.operands = self.runner.operands(pipeline, seed=19)
        plan = parse_plan(plan) if isinstance(plan, str) else plan
        self.program = self.runner.program(self.operands, plan, build or Build())
        self.launch = self.runner.launcher(self.program)
        self.expected = reference(self.operands, "hopper")

    def verdict(self, replays=1):
        self.operands.poison(self.program.streams[0])
        for _ in range(replays):
            self.launch()
        return self.runner.verdict_on_last(self.program, self.expected)


@pytest.mark.gpu
@pytest.mark.parametrize("plan", PLANS)
def test_two_layers_with_reused_buffers_are_right_under_every_plan(runner, plan):
    run = Run(two_layers(), plan)
    assert run.verdict().is_good
    last = run.verdict(REPLAYS)
    assert last.is_good, last


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["pdl+row", "tile"])
def test_two_layers_are_right_when_tiles_come_late_one_by_one(runner, plan):
    run = Run(two_layers(), plan, Build(delay_ns=DELAY_NS))
    assert run.verdict().is_good


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["stream", "pdl+tile"])
def test_two_layers_in_one_qkv_buffer_wait_for_those_who_still_read_it(runner, plan):
    run = Run(with_shared_qkv(two_layers()), plan, Build(delay_ns=DELAY_NS))
    assert run.verdict().is_good


@pytest.mark.gpu
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
def test_a_dropped_wait_and_an_early_post_give_a_wrong_layer(runner, mutant):
    run = Run(two_layers(), "tile", Build(False, mutant, DELAY_NS))
    assert not run.verdict().is_right


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["stream", "tile"])
def test_a_step_of_decode_in_two_layers_is_right(runner, plan):
    layers = transformer_layer("qwen2.5-0.5b", 3, phase="decode", cached=200, layers=2)
    run = Run(layers, plan)
    assert run.verdict().is_good
    assert run.verdict(REPLAYS).is_good


def small_llama(tokens, tiles=TILES, **options):
    """A layer of Llama 3's kind: RoPE, no bias, four query heads of 128 per KV head."""
    shape = TransformerShape(8, 2, 128, 1, "rms", "none", has_rope=True, tp=1, source="made for this test")
    model = Model("small-llama", 1024, 1536, "swiglu", "bf16", "made for this test", shape)
    return with_rope(transformer_layer(model, tokens, tiles=tiles, **options))


DECODE_TILES = {"qkv": (64, 128)}
WITH_CACHE = {
    "prompt": lambda: with_cache(small_llama(300), cached=200, capacity=600),
    "two prompts": lambda: with_cache(small_llama(384, sequences=2), cached=70, capacity=300),
    "decode": lambda: with_cache(
        small_llama(3, phase="decode", cached=200, tiles=DECODE_TILES), capacity=300
    ),
    "decode that appends": lambda: small_llama(3, phase="decode", cached=200, tiles=DECODE_TILES),
}


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["stream", "pdl", "pdl+tile"])
@pytest.mark.parametrize("layer", WITH_CACHE)
def test_layers_with_rope_and_cache_are_right(runner, layer, plan):
    run = Run(WITH_CACHE[layer](), plan)
    for replays in (1, 20):
        verdict = run.verdict(replays)
        assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("layer", ["prompt", "decode"])
def test_a_cache_that_is_stored_late_is_waited_for(runner, layer):
    assert Run(WITH_CACHE[layer](), "pdl+tile", Build(delay_ns=DELAY_NS)).verdict().is_good
    assert not Run(WITH_CACHE[layer](), "pdl+tile", Build(False, "no_wait", DELAY_NS)).verdict().is_right


def ping_pong(has_anti_dependency=True):
    """A copy into `first`, a product that reads it in whole rows, and a copy that overwrites it."""
    m, n = 256, 512
    make = Stage("make", Copy("make", m, n), buffers={"x": "x", "out": "first"})
    use = Stage("use", Gemm("use", m, 128, n, 128, 128, 64), buffers={"a": "first"})
    again = Stage("again", Copy("again", m, n), buffers={"x": "y", "out": "first"})
    needs = [make[x, y], use[:, y]] if has_anti_dependency else [make[x, y]]
    return Pipeline(
        "ping-pong",
        [make, use, again],
        [Dependency(use[x, y], [make[:, y]]), Dependency(again[x, y], needs)],
    )


@pytest.mark.gpu
def test_a_missing_anti_dependency_gives_wrong_numbers(runner):
    """The product waits for whole rows, the second copy for tiles: it overwrites the first columns before."""
    plan, late = SemaphoreSync(RowSync(), {("make", "again"): TileSync()}), Build(delay_ns=DELAY_NS)
    assert Run(ping_pong(), plan, late).verdict().is_good
    verdict = Run(ping_pong(has_anti_dependency=False), plan, late).verdict()
    assert not verdict.is_right
    assert verdict.has_right_semaphores


@pytest.mark.gpu
def test_keys_of_the_next_row_are_noticed(runner):
    work = Attention("attention", 1, 130, 2, 1, 64, cached=100, kv_rows=300)
    run = Run(Pipeline("alone", [Stage("attention", work)]), "stream")
    assert run.verdict().is_good
    keys = run.operands.storage["attention.k"]
    shifted = replace(run.operands, arrays={**run.operands.arrays, ("attention", "k"): keys[1:]})
    run.program = run.runner.program(shifted, parse_plan("stream"))
    run.launch = run.runner.launcher(run.program)
    assert not run.verdict().is_right


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["stream", "row", "tile", "pdl", "pdl+tile"])
def test_a_user_s_own_kernel_between_two_products_is_right_under_every_plan(runner, plan, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_stage

    run = Run(own_stage.pipeline(300, 256, (128, 128, 64)), plan)
    sys.modules.pop("own_stage")
    assert run.verdict(2).is_good
