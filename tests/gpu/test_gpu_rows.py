"""Row kernels compute every form, and wait and post as stages between products."""

import pytest
from row_chains import norm_chain, softmax_chain

from wavesim.errors import DeadlockError
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.work.rows import Copy, Norm, Softmax
from wavesim_gpu.driver.compiler import Build

pytestmark = pytest.mark.gpu

PLAIN, DELAY_NS = Build(), 100_000
PLANS = {
    "kernels one after the other": "stream",
    "persistent": "persistent-stream",
    "dependent launch": "pdl",
    "row semaphores": "streams+row",
    "persistent, tile semaphores": "persistent+streams+tile",
    "persistent, row semaphores, dependent launch": "persistent+pdl+row",
}
FORMS = {
    "a warp for a row": Norm("stage", 77, 896, 16, "layer", dtype="bf16"),
    "no residual": Norm("stage", 130, 4096, 8, has_residual=False),
    "ragged vectors": Norm("stage", 9, 4008, 2, "layer"),
    "long rows": Norm("stage", 50, 12_288, 7, "layer", has_residual=False, dtype="bf16"),
    "longest rows": Norm("stage", 5, 16_384, 1),
    "causal": Softmax("stage", 2, 100, 3, 104, 16, scale=0.5),
    "cached keys, dropout after": Softmax("stage", 1, 64, 2, 2048, 16, dropout=0.1, seed=2**40 + 3),
    "all keys, dropout before": Softmax(
        "stage", 2, 33, 2, 640, 10, is_causal=False, dropout=0.3, dropout_place="before", dtype="bf16"
    ),
    "ragged tiles": Copy("stage", 100, 312, 16, 104),
}


def verdicts_of(pipeline, plan, build=PLAIN, runs=2, limit_s=5.0):
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    runner = CupyRunner(limit_s=limit_s, commit="test", backend="hopper")
    operands = runner.operands(pipeline, seed=17)
    program = runner.program(operands, plan, build)
    launch = runner.launcher(program)
    expected = reference(operands, "hopper")
    return [runner.verdict(program, launch, expected) for _ in range(runs)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plan", ["kernels one after the other", "persistent"])
def test_rows_alone_are_right_in_every_form(runner, form, plan):
    for verdict in verdicts_of(Pipeline("alone", [Stage("stage", FORMS[form])]), parse_plan(PLANS[plan])):
        assert verdict.is_good, verdict


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("tile_m", "dtype"), [(8, "fp16"), (128, "bf16")])
def test_a_chain_is_right_under_every_plan_also_when_tiles_come_late_one_by_one(runner, plan, tile_m, dtype):
    for build in (PLAIN, Build(delay_ns=DELAY_NS)):
        for verdict in verdicts_of(norm_chain(tile_m, dtype), parse_plan(PLANS[plan]), build):
            assert verdict.is_good, verdict


@pytest.mark.parametrize("plan", PLANS)
def test_a_softmax_and_its_copies_are_right_under_every_plan(runner, plan):
    for build in (PLAIN, Build(delay_ns=DELAY_NS)):
        for verdict in verdicts_of(softmax_chain(), parse_plan(PLANS[plan]), build):
            assert verdict.is_good, verdict


def test_a_hundred_replays_are_right(runner):
    verdicts = verdicts_of(norm_chain(8), parse_plan(PLANS["persistent, tile semaphores"]), runs=100)
    assert all(verdict.is_good for verdict in verdicts)


@pytest.mark.parametrize("plan", ["row semaphores", "persistent, tile semaphores"])
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
def test_a_dropped_wait_and_an_early_post_give_wrong_numbers(runner, plan, mutant):
    for verdict in verdicts_of(norm_chain(8), parse_plan(PLANS[plan]), Build(False, mutant, DELAY_NS)):
        assert not verdict.is_right


def test_a_dropped_post_ends_with_an_error_and_no_hang(runner):
    with pytest.raises(DeadlockError, match="up"):
        verdicts_of(norm_chain(8), parse_plan(PLANS["row semaphores"]), Build(mutant="no_post"), limit_s=0.05)
