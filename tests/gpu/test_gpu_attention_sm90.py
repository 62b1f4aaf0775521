"""The Hopper attention computes every form, alone and between two products, and waits block by block."""

import pytest
from attention_layers import attention, layer

from wavesim.errors import DeadlockError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build

DELAY_NS = 100_000
PLAIN = Build()
PLANS = {
    "kernels one after the other": ("tile+one-stream+boundary", "row"),
    "persistent, longest first": ("persistent+one-stream+boundary", "reversed:row"),
    "dependent launch": ("persistent+pdl+boundary", "row"),
    "tile semaphores": ("tile+streams+tile", "row"),
    "persistent, tile semaphores": ("persistent+streams+tile", "row"),
    "persistent, row semaphores, dependent launch": ("persistent+pdl+row", "row"),
}
FORMS = {
    "one row": {"length": 1, "cached": 4},
    "ragged": {"length": 333, "heads": 6, "dtype": "bf16"},
    "cached": {"length": 100, "cached": 677, "kv_rows": 900, "kv_heads": 1},
    "part of a block cached": {"length": 300, "cached": 50},
    "all keys": {"length": 300, "is_causal": False},
    "small heads": {"length": 700, "cached": 3, "head_dim": 64, "dtype": "bf16"},
    "small heads, all keys": {"length": 130, "head_dim": 64, "is_causal": False},
    "dropout": {"length": 300, "cached": 128, "dropout": 0.3, "seed": 2**40 + 5},
}


def verdicts_of(pipeline, plan, build=PLAIN, limit_s=5.0):
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    runner = CupyRunner(limit_s=limit_s, commit="test", backend="hopper")
    operands = runner.operands(pipeline, seed=17)
    program = runner.program(operands, plan, build)
    launch = runner.launcher(program)
    expected = reference(operands, "hopper")
    # Twice: a run must leave counters and barriers as it found them.
    return [runner.verdict(program, launch, expected) for _ in range(2)]


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plan", ["kernels one after the other", "persistent, longest first"])
def test_attention_alone_is_right_in_every_form(runner, form, plan):
    pipeline = Pipeline("alone", [Stage("attention", attention(**FORMS[form]))])
    for verdict in verdicts_of(pipeline, parse_plan(*PLANS[plan])):
        assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 128])
def test_keys_that_a_tile_does_not_see_may_be_nan(runner, cupy, head_dim):
    """They may not be written yet when the tile runs; a weight of 0 does not make up for NaN."""
    from wavesim_gpu.run.references import reference

    work = attention(length=300, cached=50, head_dim=head_dim, sequences=1)
    operands = runner.operands(Pipeline("alone", [Stage("attention", work, "hopper-attention")]), seed=3)
    expected = reference(operands, "hopper")["attention"]
    seen = work.cached + work.tile_m  # by the first tile of each head
    for name in ("k", "v"):
        operands.arrays["attention", name][seen:] = cupy.nan
    program = runner.program(operands, parse_plan(*PLANS["kernels one after the other"]))
    runner.launcher(program)()
    program.synchronize()
    got = operands.outputs()["attention"]
    assert bool(cupy.isnan(got[work.tile_m :]).all())
    cupy.testing.assert_allclose(got[: work.tile_m], expected[: work.tile_m], atol=4e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_a_layer_is_right_under_every_plan_also_when_tiles_come_late_one_by_one(runner, plan, head_dim):
    for build in (PLAIN, Build(delay_ns=DELAY_NS)):
        for verdict in verdicts_of(layer(attention(head_dim=head_dim)), parse_plan(*PLANS[plan]), build):
            assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("plan", ["tile semaphores", "persistent, tile semaphores"])
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
def test_a_dropped_wait_and_an_early_post_give_wrong_numbers(runner, plan, mutant):
    for verdict in verdicts_of(layer(attention()), parse_plan(*PLANS[plan]), Build(False, mutant, DELAY_NS)):
        assert not verdict.is_right


@pytest.mark.gpu
def test_a_dropped_post_ends_with_an_error_and_no_hang(runner):
    with pytest.raises(DeadlockError, match="qkv"):
        verdicts_of(layer(attention()), parse_plan(*PLANS["tile semaphores"]), Build(mutant="no_post"), 0.05)
