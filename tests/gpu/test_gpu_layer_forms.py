"""The Hopper GEMM adds residuals, rotates heads and stores K and V into caches, under every kind of plan."""

import pytest
from row_chains import residual_pair

from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.epilogue import CacheStore, Rope
from wavesim_gpu.driver.compiler import Build

pytestmark = pytest.mark.gpu

RESIDUAL, COLUMN_BIAS = {"has_residual": True}, {"b_order": "column", "has_bias": True}
BF16 = {"dtype": "bf16"}
# Plan, m, n, k, tile and form.
FORMS = {
    "residual": ("persistent-stream", 300, 1280, 512, (128, 256), RESIDUAL),
    "residual, splits": ("stream", 200, 512, 2048, (128, 128), RESIDUAL | {"split_k": 3}),
    "residual, Stream-K": ("stream-k", 1100, 1280, 1024, (128, 256), RESIDUAL),
    "residual, clusters": ("persistent-stream", 128, 1280, 512, (64, 192), RESIDUAL),
    "residual, one buffer": ("persistent-stream", 500, 1024, 512, (192, 128), RESIDUAL | BF16),
    "residual, ragged tiles": (
        "persistent-stream",
        700,
        1248,
        512,
        (128, 208),
        RESIDUAL | COLUMN_BIAS | {"activation": "gelu"},
    ),
    "residual, gated": (
        "persistent-stream",
        1000,
        2048,
        256,
        (128, 176),
        RESIDUAL | {"activation": "swiglu"},
    ),
    "residual, two fragments": ("persistent-stream", 3300, 2048, 256, (256, 128), RESIDUAL | BF16),
    "rope": ("persistent-stream", 1000, 1024, 512, (128, 128), {"rope": Rope(6, 128, 500, 3)}),
    "cache": ("persistent-stream", 384, 768, 512, (128, 256), {"cache": CacheStore(128, 128, 160, 30)}),
    "rope and cache, ragged": (
        "persistent-stream",
        300,
        768,
        512,
        (128, 256),
        {"rope": Rope(5, 128, 300, 30), "cache": CacheStore(128, 300, 400, 30)},
    ),
    "rope and cache, small heads": (
        "stream",
        333,
        1152,
        896,
        (128, 192),
        COLUMN_BIAS | BF16 | {"rope": Rope(16, 64, 333), "cache": CacheStore(128, 333, 400, 3)},
    ),
    "rope and cache, decode": (
        "stream",
        8,
        768,
        4096,
        (64, 128),
        {"rope": Rope(5, 128, 1, 20), "cache": CacheStore(128, 1, 50, 20), "split_k": 4},
    ),
    "rope and cache, Stream-K": (
        "stream-k",
        1500,
        1536,
        1024,
        (128, 256),
        {"rope": Rope(10, 128, 1500), "cache": CacheStore(128, 1500, 2000)},
    ),
    "rope and cache, two fragments": (
        "persistent-stream",
        1024,
        1024,
        512,
        (256, 128),
        COLUMN_BIAS | {"rope": Rope(6, 128, 512, 3), "cache": CacheStore(128, 512, 700, 3)},
    ),
}


@pytest.fixture(scope="module")
def hopper(runner):
    from wavesim_gpu.run.runner import CupyRunner

    if runner.device.compute_capability != (9, 0):
        pytest.skip("not a Hopper GPU")
    return CupyRunner(limit_s=5.0, commit="test", backend="hopper")


def verdicts_of(hopper, pipeline, plan, build=None, runs=2):
    from wavesim_gpu.run.references import reference

    operands = hopper.operands(pipeline, seed=17)
    program = hopper.program(operands, plan, build)
    launch, expected = hopper.launcher(program), reference(operands, "hopper")
    return [hopper.verdict(program, launch, expected) for _ in range(runs)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_right(hopper, form):
    words, m, n, k, tile, options = FORMS[form]
    pipeline = Pipeline("alone", [Stage("gemm", Gemm("gemm", m, n, k, *tile, 64, **options))])
    for verdict in verdicts_of(hopper, pipeline, parse_plan(words)):
        assert verdict.is_good, verdict


@pytest.mark.parametrize(
    "words", ["stream", "pdl", "streams+row", "persistent+streams+tile", "persistent+pdl+row"]
)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_residual_in_place_is_added_once_under_every_plan(hopper, words, dtype):
    for build in (None, Build(delay_ns=100_000)):
        for verdict in verdicts_of(hopper, residual_pair(dtype), parse_plan(words), build):
            assert verdict.is_good, verdict


def test_a_hundred_replays_are_right(hopper):
    verdicts = verdicts_of(hopper, residual_pair(), parse_plan("persistent+streams+tile"), runs=100)
    assert all(verdict.is_good for verdict in verdicts)
