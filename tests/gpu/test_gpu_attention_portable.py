"""The portable attention kernels, prefill and decode, compute every form and wait for what they read."""

import pytest
from attention_layers import attention, decode, decode_layer, layer

from wavesim.errors import DeadlockError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.compiler import Build

DELAY_NS = 100_000
PLAIN = Build()
IN_ORDER = ("tile+one-stream+boundary", "row")
TILE_SEMAPHORES = ("tile+streams+tile", "row")
PLANS = [IN_ORDER, ("tile+graph+boundary", "row"), TILE_SEMAPHORES, ("tile+streams+row", "reversed:row")]
FORMS = {
    "one row": {"length": 1, "cached": 4, "tile_m": 64},
    "ragged": {"length": 333, "heads": 6, "dtype": "bf16"},
    "cached": {"length": 100, "cached": 677, "kv_rows": 900, "kv_heads": 1, "tile_n": 64},
    "all keys": {"length": 300, "is_causal": False, "tile_m": 64},
    "small heads": {"length": 700, "cached": 3, "head_dim": 64, "dtype": "bf16"},
    "dropout": {"length": 300, "cached": 50, "dropout": 0.3, "seed": 2**40 + 5},
}
DECODE_FORMS = {
    "first token": {"cached": 0, "splits": 1, "kv_rows": 1},
    "one split": {"splits": 1},
    "a whole block of keys": {"cached": 319, "splits": 5},
    "the first key of a block": {"cached": 256, "splits": 5},
    "sixteen heads share one": {"heads": 32, "dtype": "bf16"},
    "no heads share one": {"heads": 2, "head_dim": 64, "cached": 299},
    "seven heads share one": {"heads": 14, "head_dim": 64, "cached": 5000, "kv_rows": 6000, "splits": 40},
    "row in the cache": {"appends": False},
}


def verdicts_of(pipeline, plan, build=PLAIN, limit_s=5.0, runs=2, given=None):
    from wavesim_gpu.run.operands import random_operands
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    runner = CupyRunner(limit_s=limit_s, commit="test", backend="portable")
    operands = random_operands(pipeline, 23, given=given)
    program = runner.program(operands, plan, build)
    launch = runner.launcher(program)
    expected = reference(operands, "portable")
    # Several: a run must leave counters and tickets as it found them.
    return [runner.verdict(program, launch, expected) for _ in range(runs)]


def alone(work):
    return Pipeline("alone", [Stage(work.name, work)])


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
def test_prefill_alone_is_right_in_every_form(runner, form):
    for verdict in verdicts_of(alone(attention(**FORMS[form])), parse_plan(*IN_ORDER)):
        assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("form", DECODE_FORMS)
def test_decode_alone_is_right_in_every_form_and_stores_the_new_row(runner, form):
    for verdict in verdicts_of(alone(decode(**DECODE_FORMS[form])), parse_plan(*IN_ORDER)):
        assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("plan", [*PLANS, ("tile+pdl+boundary", "row"), ("tile+pdl+tile", "row")])
def test_prefill_between_products_is_right_under_every_plan_also_when_tiles_come_late(runner, plan):
    for build in (PLAIN, Build(delay_ns=DELAY_NS)):
        for verdict in verdicts_of(layer(attention()), parse_plan(*plan), build):
            assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_decode_between_products_is_right_under_every_plan_also_when_tiles_come_late(runner, plan, head_dim):
    for build in (PLAIN, Build(delay_ns=DELAY_NS)):
        for verdict in verdicts_of(decode_layer(decode(head_dim=head_dim)), parse_plan(*plan), build):
            assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [64, 128])
def test_sequences_of_different_lengths_are_right_and_one_of_none_is_nan(runner, head_dim):
    import cupy

    work = decode(head_dim=head_dim, has_lengths=True, splits=4)
    for last in (300, 0):
        lengths = cupy.asarray([[1], [64], [65], [301], [last]], "int32")
        given = {("decode", "lengths"): lengths}
        for verdict in verdicts_of(decode_layer(work), parse_plan(*TILE_SEMAPHORES), given=given):
            assert verdict.is_good == (last > 0), verdict


@pytest.mark.gpu
def test_a_hundred_runs_of_decode_under_semaphores_are_right(runner):
    for verdict in verdicts_of(decode_layer(decode()), parse_plan(*TILE_SEMAPHORES), runs=100):
        assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("pipeline", [layer(attention()), decode_layer(decode())], ids=lambda one: one.name)
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
def test_a_dropped_wait_and_an_early_post_give_wrong_numbers(runner, pipeline, mutant):
    for verdict in verdicts_of(pipeline, parse_plan(*TILE_SEMAPHORES), Build(False, mutant, DELAY_NS)):
        assert not verdict.is_right


@pytest.mark.gpu
@pytest.mark.parametrize("pipeline", [layer(attention()), decode_layer(decode())], ids=lambda one: one.name)
def test_a_dropped_post_ends_with_an_error_and_no_hang(runner, pipeline):
    with pytest.raises(DeadlockError, match="qkv"):
        verdicts_of(pipeline, parse_plan(*TILE_SEMAPHORES), Build(mutant="no_post"), 0.05)
