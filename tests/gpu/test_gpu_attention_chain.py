"""The paper's attention runs as five kernels: right under every plan, and wrong where it must be."""

import pytest
from attention_steps import rolled_back

from wavesim.errors import DeadlockError, UnneededStageWarning
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.work.attention.head_product import HeadProduct
from wavesim.workloads.attention_chain import cusync_repository_attention, paper_attention
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.kernels.attention.head_product import HeadProducts

DELAY_NS = 20_000
REPLAYS = 100
PRODUCTS = {
    "a prompt": {"length": 512, "heads": 12, "kv_heads": 12},
    "ragged sequences, grouped heads": {"sequences": 2, "length": 200, "dtype": "bf16"},
    "a prompt into a cache": {"length": 256, "kv_rows": 320},
    "sequences that go on": {"sequences": 3, "length": 40, "kv_heads": 1, "cached": 600, "kv_rows": 700},
    "generation": {"sequences": 4, "length": 1, "head_dim": 64, "cached": 127, "kv_rows": 128},
    "one wide head": {"length": 160, "heads": 1, "kv_heads": 1, "head_dim": 1536},
}
USUAL = {"sequences": 1, "heads": 4, "kv_heads": 2}
PROMPT = {"tokens": 384}
CHAINS = {
    "a prompt": PROMPT,
    "a short prompt": {"tokens": 136, "model": "llama"},  # which racecheck ends with
    "a ragged prompt in tiles of heads": {"tokens": 328, "model": "llama", "dropout_place": "before"},
    "generation": {"tokens": 4, "sequences": 4, "cached": 511, "split_k": (4, 1), "dtype": "bf16"},
    "sequences that go on": {"tokens": 400, "sequences": 2, "cached": 312, "softmax_rows": 32},
}
PORTABLE = ("tile+one-stream+boundary", "tile+streams+row", "tile+streams+tile")
HOPPER = ("tile+pdl+boundary", "tile+pdl+row", "tile+pdl+tile")
PLAIN = Build()


def program_of(pipeline, plan, build=PLAIN, backend="portable", limit_s=5.0):
    from wavesim_gpu.run.references import reference
    from wavesim_gpu.run.runner import CupyRunner

    runner = CupyRunner(limit_s=limit_s, commit="test", backend=backend)
    operands = runner.operands(pipeline, seed=23)
    program = runner.program(operands, plan, build)
    return runner, program, runner.launcher(program), reference(operands, backend)


def verdict_of(*arguments, **options):
    runner, program, launch, expected = program_of(*arguments, **options)
    return runner.verdict(program, launch, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("product", ["scores", "context"])
@pytest.mark.parametrize("form", PRODUCTS)
def test_a_product_alone_is_right_in_every_form(runner, product, form):
    pipeline = Pipeline(
        "alone", [Stage("product", HeadProduct("product", product, **{**USUAL, **PRODUCTS[form]}))]
    )
    verdict = verdict_of(pipeline, StreamSync())
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("form", CHAINS)
@pytest.mark.parametrize("words", PORTABLE)
def test_the_chain_is_right_under_every_plan_and_after_a_hundred_replays(runner, form, words):
    pipeline = paper_attention(**CHAINS[form])
    runner, program, launch, expected = program_of(pipeline, parse_plan(words, "row"))
    verdict = runner.verdict(program, launch, expected)
    assert verdict.is_good, verdict
    for _ in range(REPLAYS):
        launch()
    verdict = runner.verdict_on_last(program, expected)
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("words", HOPPER)
@pytest.mark.parametrize("form", ["a prompt", "a short prompt", "generation"])
def test_the_chain_is_right_by_dependent_launch_beside_hopper_products(runner, form, words):
    pipeline = paper_attention(**{**CHAINS[form], "tile_k": 64})
    verdict = verdict_of(pipeline, parse_plan(words, "row"), backend="hopper")
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("words", PORTABLE[1:])
@pytest.mark.parametrize("form", ["a prompt", "generation"])
def test_the_chain_is_right_when_tiles_come_late_one_by_one(runner, form, words):
    verdict = verdict_of(paper_attention(**CHAINS[form]), parse_plan(words, "row"), Build(delay_ns=DELAY_NS))
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("policy", [RowSync(), TileSync()], ids=lambda policy: policy.name)
def test_the_published_repositorys_chain_is_right(runner, policy):
    verdict = verdict_of(cusync_repository_attention(256), SemaphoreSync(policy))
    assert verdict.is_good, verdict


@pytest.mark.gpu
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
@pytest.mark.parametrize("words", PORTABLE[1:])
def test_a_dropped_wait_and_an_early_post_give_wrong_numbers(runner, mutant, words):
    verdict = verdict_of(paper_attention(**PROMPT), parse_plan(words, "row"), Build(False, mutant, DELAY_NS))
    assert not verdict.is_right


@pytest.mark.gpu
@pytest.mark.parametrize("stage", ["scores", "context"])
@pytest.mark.parametrize("mutant", ["no_wait", "early_post"])
def test_so_do_those_of_one_product_alone(runner, mutant, stage, monkeypatch):
    """The other kernels are whole: what is wrong is that product's, or what reads it too early."""
    from wavesim_gpu.run import program

    load, broken = program.load_function, Build(False, mutant, DELAY_NS)

    def load_one(source, expression, build, *others):
        return load(source, expression, broken if f"Product::{stage}" in expression else build, *others)

    monkeypatch.setattr(program, "load_function", load_one)
    pipeline, plan = paper_attention(**PROMPT), SemaphoreSync(TileSync())
    assert not verdict_of(pipeline, plan, Build(delay_ns=DELAY_NS)).is_right


@pytest.mark.gpu
def test_a_dropped_post_ends_with_an_error_and_no_hang(runner):
    with pytest.raises(DeadlockError) as caught:
        verdict_of(
            paper_attention(**PROMPT), SemaphoreSync(TileSync()), Build(mutant="no_post"), limit_s=0.05
        )
    assert caught.value.waiters
    assert all(waiter.seen == 0 < waiter.awaited for waiter in caught.value.waiters)


@pytest.mark.gpu
def test_another_sequences_keys_give_wrong_numbers(runner, monkeypatch):
    pipeline = paper_attention(**CHAINS["sequences that go on"])
    right = HeadProducts.stage_arguments

    def of_the_first_sequence(self, work, plan, places, scratch):
        (record,) = right(self, work, plan, places, scratch)
        record["b"]["sequence"] = 0
        return (record,)

    monkeypatch.setattr(HeadProducts, "stage_arguments", of_the_first_sequence)
    assert not verdict_of(pipeline, StreamSync()).is_right


@pytest.mark.gpu
def test_a_cache_row_that_the_next_step_writes_too_early_gives_wrong_numbers(runner):
    """Also where every stage's own inputs are waited for: only an anti-dependency keeps the steps apart."""
    plan, build = SemaphoreSync(TileSync()), Build(delay_ns=DELAY_NS)
    with pytest.warns(UnneededStageWarning):
        missing = rolled_back(has_anti_dependency=False)
    assert not verdict_of(missing, plan, build).is_right
    assert verdict_of(rolled_back(has_anti_dependency=True), plan, build).is_good
    assert verdict_of(missing, StreamSync(), build).is_good


@pytest.mark.gpu
def test_dropout_changes_the_numbers_and_no_plan_changes_dropout(runner):
    plans = [StreamSync(), SemaphoreSync(RowSync()), SemaphoreSync(TileSync())]
    found = []
    for plan in plans:
        runner, program, launch, expected = program_of(paper_attention(**PROMPT), plan)
        assert runner.verdict(program, launch, expected).is_good
        found.append(program.operands.outputs()["output"])
    assert all((one == found[0]).all() for one in found[1:])
    plain = paper_attention(**PROMPT, dropout=0.0)
    runner, program, launch, expected = program_of(plain, StreamSync())
    assert runner.verdict(program, launch, expected).is_good
    assert (program.operands.outputs()["output"] != found[0]).any()
