"""Safety: no plan that can deadlock is called safe, few safe ones are refused, and the reason says why."""

import json
import time
from random import Random

import pytest
from exhaustive_search import Rules, Search, TooLargeError
from safety_cases import case_of
from safety_counts import WHOLE_LAUNCHES, count, outcome_of
from toy_schedules import HALF_SM, TOY, WHOLE_SM, pair, run, stage

from wavesim.cli.command_line import main
from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.pipeline import Pipeline
from wavesim.plan.launch import DependentLaunch, StreamPerStage
from wavesim.plan.order import CustomOrder, Reversed
from wavesim.plan.plan import Plan, SemaphoreSync, StreamSync
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.plan.sync import Semaphores
from wavesim.safe_io.bounds import MOST_STAGES
from wavesim.safety.adversary import Adversary
from wavesim.safety.deadlock import safety_of
from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.from_plan import situation_of_plan
from wavesim.workloads.figure_one import toy
from wavesim.workloads.mlps import gpt3_mlp

NO_WAIT_KERNEL = SemaphoreSync(TileSync(), wait_kernel=False)


def worst_case(pipeline, plan, device, guarded):
    """With wait-kernels before some consumers only."""
    kernels = situation_of_plan(pipeline, plan, device, guarded=guarded, is_bound=True)
    return Adversary(SituationFacts(kernels)).worst()[0]


def two_kernels(consumers: int, producer: Block = WHOLE_SM, consumer: Block = WHOLE_SM) -> Pipeline:
    """A producer of 6 blocks and so many blocks that each read all of it."""
    return pair(stage("first", 6, block=producer), stage("second", consumers, block=consumer))


# --- what the verdict says ---


def test_stream_sync_is_safe_because_nobody_waits():
    verdict = safety_of(toy(), StreamSync(), TOY)
    assert verdict.is_safe
    assert verdict.worst is None
    assert verdict.reason == "safe: no block waits on a semaphore"


def test_figure_one_without_its_wait_kernel_can_deadlock_and_the_reason_has_the_numbers():
    verdict = safety_of(toy(), NO_WAIT_KERNEL, TOY)
    assert not verdict.is_safe
    assert verdict.reason == (
        "can deadlock: 4 blocks of gemm2 can be resident at once and wait for tiles of gemm1; that leaves no "
        "room for a block of gemm1 on any of 4 SMs. Keep the wait-kernel"
    )
    worst = verdict.worst
    assert worst is not None
    assert (worst.starved, worst.closed_sms, worst.free_sms) == ("gemm1", 4, 0)
    assert worst.residents == (("gemm2",),) * 4
    assert worst.waits_for == {"gemm2": ("tiles of gemm1",)}


def test_a_seventh_sm_is_one_more_than_the_six_consumer_blocks_can_take():
    assert not safety_of(toy(), NO_WAIT_KERNEL, TOY.with_sm_count(6)).is_safe
    verdict = safety_of(toy(), NO_WAIT_KERNEL, TOY.with_sm_count(7))
    assert verdict.is_safe
    assert verdict.reason == (
        "safe: at worst 6 blocks of gemm2 can be resident at once and wait; that closes 6 of 7 SMs to gemm1, "
        "which can run on the other"
    )


def test_the_papers_rule_of_less_than_two_waves_accepts_a_plan_that_deadlocks():
    device = TOY.with_sm_count(7)
    pipeline = two_kernels(7)
    blocks = sum(stage.grid.size for stage in pipeline.stages)
    assert blocks < 2 * device.sm_count
    with pytest.raises(DeadlockError):
        run(pipeline, SemaphoreSync(TileSync(), wait_kernel=False, head_start=7), device=device)
    assert not safety_of(pipeline, NO_WAIT_KERNEL, device).is_safe


def test_the_wait_kernel_makes_figure_one_safe_and_takes_one_sm_at_worst():
    verdict = safety_of(toy(), SemaphoreSync(), TOY)
    assert verdict.is_safe
    assert verdict.worst is not None
    assert verdict.worst.residents == (("wait-kernel of gemm2",),)


def test_on_a_single_sm_the_wait_kernel_itself_can_starve_a_producer_that_needs_all_of_it():
    one_sm = TOY.with_sm_count(1)
    verdict = safety_of(toy(), SemaphoreSync(), one_sm)
    assert not verdict.is_safe
    assert "the wait-kernel of gemm2 can be resident" in verdict.reason
    assert safety_of(two_kernels(4, HALF_SM, HALF_SM), SemaphoreSync(), one_sm).is_safe


def test_the_wait_kernels_of_a_chain_can_starve_its_first_stage_together():
    a, b, c, d = (stage(name, 2) for name in "abcd")
    chain = Pipeline(
        "chain",
        [a, b, c, d],
        [Dependency(b[x, y], [a[x, y]]), Dependency(c[x, y], [b[x, y]]), Dependency(d[x, y], [c[x, y]])],
    )
    verdict = safety_of(chain, SemaphoreSync(), TOY.with_sm_count(3))
    assert not verdict.is_safe
    assert verdict.worst is not None
    assert verdict.worst.starved == "a"
    assert verdict.worst.residents == (("wait-kernel of b",), ("wait-kernel of c",), ("wait-kernel of d",))
    assert safety_of(chain, SemaphoreSync(), TOY).is_safe


def test_several_blocks_per_sm_must_all_be_taken_before_the_producer_starves():
    device = TOY.with_sm_count(2)
    assert safety_of(two_kernels(3, HALF_SM, HALF_SM), NO_WAIT_KERNEL, device).is_safe
    assert not safety_of(two_kernels(4, HALF_SM, HALF_SM), NO_WAIT_KERNEL, device).is_safe


def test_one_small_consumer_block_closes_an_sm_to_a_producer_that_needs_all_of_it():
    device = TOY.with_sm_count(2)
    verdict = safety_of(two_kernels(2, WHOLE_SM, HALF_SM), NO_WAIT_KERNEL, device)
    assert not verdict.is_safe
    assert safety_of(two_kernels(1, WHOLE_SM, HALF_SM), NO_WAIT_KERNEL, device).is_safe


def test_a_consumer_that_does_not_fit_at_once_blocks_the_queue_even_where_the_producer_would_fit():
    small, large = Block(256, 32), Block(768, 32)
    assert safety_of(two_kernels(4, small, large), NO_WAIT_KERNEL, TOY).is_safe
    verdict = safety_of(two_kernels(5, small, large), NO_WAIT_KERNEL, TOY)
    assert not verdict.is_safe
    assert verdict.worst is not None
    assert verdict.worst.starved == "second"


def test_consumers_of_a_fork_count_together():
    a, b, c = stage("a", 4), stage("b", 2), stage("c", 2)
    fork = Pipeline("fork", [a, b, c], [Dependency(b[x, y], [a[x, y]]), Dependency(c[x, y], [a[x, y]])])
    assert not safety_of(fork, NO_WAIT_KERNEL, TOY).is_safe
    verdict = safety_of(fork, NO_WAIT_KERNEL, TOY.with_sm_count(5))
    assert verdict.is_safe
    assert "2 blocks of b and 2 blocks of c" in verdict.reason


def test_a_smaller_carveout_set_by_one_kernel_can_close_an_sm_to_another():
    wants_little = stage("second", 4, block=Block(128, 32, dynamic_shared_bytes=1_000), carveout="default")
    wants_much = stage("first", 4, block=Block(128, 32, dynamic_shared_bytes=100_000))
    pipeline = pair(wants_much, wants_little)
    assert not safety_of(pipeline, NO_WAIT_KERNEL, TOY).is_safe
    generous = pair(wants_much, stage("second", 4, block=Block(128, 32, dynamic_shared_bytes=1_000)))
    assert safety_of(generous, NO_WAIT_KERNEL, TOY).is_safe


def test_tile_orders_and_policies_do_not_change_the_verdict():
    for orders in ({}, {"gemm2": Reversed()}, {"gemm1": Reversed()}):
        for policy in (RowSync(), TileSync()):
            plan = SemaphoreSync(policy, orders=orders, wait_kernel=False)
            assert not safety_of(toy(), plan, TOY.with_sm_count(6)).is_safe
            assert safety_of(toy(), plan, TOY.with_sm_count(7)).is_safe


def test_a_wait_kernel_orders_a_consumer_behind_its_own_producers_only():
    a, b, c = (stage(name, 4) for name in "abc")
    chain = Pipeline("chain", [a, b, c], [Dependency(b[x, y], [a[x, y]]), Dependency(c[x, y], [b[x, y]])])
    six = TOY.with_sm_count(6)
    verdicts = {guarded: worst_case(chain, NO_WAIT_KERNEL, six, guarded) for guarded in ("", "b", "c", "bc")}
    # With c alone behind one, four blocks of b and then two of c may all come before a.
    assert {guarded: verdict.is_safe for guarded, verdict in verdicts.items()} == {
        "": False,
        "b": True,
        "c": False,
        "bc": True,
    }
    for guarded, verdict in verdicts.items():
        found = Search(chain, NO_WAIT_KERNEL, six, Rules(ends_at_any_time=False), guarded).finds_deadlock()
        assert found != verdict.is_safe


def test_a_chain_of_joins_as_long_as_a_pipeline_may_be_is_judged_within_seconds():
    stages = [stage(f"s{i}", 2, block=Block(128, 32)) for i in range(MOST_STAGES)]
    joins = [
        Dependency(stages[i][x, y], [stages[k][:, y] for k in sorted({i - 1, max(0, i - 2)})])
        for i in range(1, MOST_STAGES)
    ]
    began = time.process_time()
    assert safety_of(Pipeline("joins", stages, joins), SemaphoreSync(), load("h200")).is_safe
    assert time.process_time() - began < 20


# --- what is no plan, or not of this pipeline ---


@pytest.mark.parametrize("launch", [StreamPerStage(), DependentLaunch()], ids=lambda launch: launch.word)
@pytest.mark.parametrize(
    ("index", "value", "match"),
    [
        (0, 99, "waits for ever"),
        (0, 0, "may read a tile before it is written"),
        (-1, 1, "semaphore -1 on the grid"),
    ],
)
def test_a_semaphore_that_is_never_reached_or_too_soon_is_refused(launch, index, value, match):
    policy = CustomPolicy("own", lambda x, y, grid: index, lambda x, y, grid: value)
    with pytest.raises(DescriptionError, match=f"^policy own: .*{match}"):
        safety_of(toy(), Plan(launch=launch, sync=Semaphores(policy)), TOY)


@pytest.mark.parametrize("plan", [StreamSync, SemaphoreSync])
def test_an_order_that_omits_a_tile_is_refused(plan):
    with pytest.raises(DescriptionError, match=r"^order own: .* is missing"):
        safety_of(toy(), plan(order=CustomOrder("own", lambda grid: list(grid)[1:])), TOY)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"clusters": {"gemm1": 0}}, r"clusters: gemm1 is 0; it must be an integer from 1 to 2"),
        ({"clusters": {"gemm1": -3}}, r"clusters: gemm1 is -3; it must be an integer from 1 to 2"),
        ({"clusters": {"gemm1": 4}}, r"clusters: gemm1 is 4; it must be an integer from 1 to 2"),
        ({"clusters": {"nosuch": 2}}, r"pipeline .* has no stage 'nosuch'; it has \['gemm1', 'gemm2'\]"),
        ({"clusters": 2}, r"clusters is 2; give a mapping from stage names"),
        ({"blocks": {"nosuch": WHOLE_SM}}, r"pipeline .* has no stage 'nosuch'"),
        ({"blocks": {"gemm1": 128}}, r"blocks: gemm1 is 128; give a Block"),
    ],
)
def test_blocks_and_clusters_that_are_none_of_this_pipeline_are_refused(given, error):
    with pytest.raises(DescriptionError, match=f"^{error}"):
        safety_of(toy(), SemaphoreSync(), TOY, **given)


@pytest.mark.parametrize(("tokens", "is_safe"), [(128, True), (256, True), (512, False), (1024, False)])
def test_the_gpt3_mlp_can_do_without_the_wait_kernel_while_its_consumer_leaves_an_sm(tokens, is_safe):
    verdict = safety_of(gpt3_mlp(tokens), NO_WAIT_KERNEL, load("h200"))
    assert verdict.is_safe == is_safe
    assert safety_of(gpt3_mlp(tokens), SemaphoreSync(), load("h200")).is_safe


# --- against the exhaustive search ---


def test_the_search_finds_figure_ones_deadlock_and_none_with_a_fifth_sm_and_four_consumers():
    assert Search(toy(), NO_WAIT_KERNEL, TOY).finds_deadlock()
    assert not Search(two_kernels(4), NO_WAIT_KERNEL, TOY.with_sm_count(5)).finds_deadlock()
    assert not Search(toy(), SemaphoreSync(), TOY).finds_deadlock()


def test_the_search_finds_every_deadlock_that_the_simulator_runs_into():
    deadlocks = 0
    for seed in range(150):
        pipeline, plan, device = case_of(seed, most_blocks=4)
        if plan.launch.wait_kernel:
            continue
        for head_start in (1, 3, 12):
            lost_race = SemaphoreSync(
                policies=plan.sync.edge_policies, orders=plan.orders, wait_kernel=False, head_start=head_start
            )
            try:
                run(pipeline, lost_race, device=device)
            except DeadlockError:
                deadlocks += 1
                assert Search(pipeline, plan, device).finds_deadlock()
                assert not safety_of(pipeline, plan, device).is_safe
    assert deadlocks > 50


@pytest.mark.slow
def test_blocks_that_end_at_once_deadlock_where_blocks_that_end_at_any_time_do():
    compared = 0
    for seed in range(10_000, 10_400):
        pipeline, plan, device = case_of(seed)
        if any(stage.kernel.carveout != "full" for stage in pipeline.stages):
            continue
        try:
            any_time = Search(pipeline, plan, device).finds_deadlock(2_000)
        except TooLargeError:
            continue
        compared += 1
        assert Search(pipeline, plan, device, Rules(ends_at_any_time=False)).finds_deadlock() == any_time
    assert compared > 80


@pytest.mark.slow
@pytest.mark.parametrize("rules", [Rules(), WHOLE_LAUNCHES], ids=["any hardware", "whole launches"])
def test_no_unsafe_plan_is_accepted_and_at_most_one_safe_plan_in_twenty_refused(rules):
    counts = count(outcome_of(seed, rules, most_states=2_000) for seed in range(20_000, 20_300))
    assert counts["unsafe, accepted"] == 0
    assert counts["unsafe, refused"] > 100
    assert counts["safe, accepted"] > 100
    assert counts["safe, refused"] <= 0.05 * (counts["safe, accepted"] + counts["safe, refused"])


@pytest.mark.slow
def test_no_unsafe_plan_is_accepted_where_only_some_consumers_have_a_wait_kernel():
    outcomes = []
    for seed in range(30_000, 30_400):
        pipeline, plan, device = case_of(seed, most_blocks=5)
        names = [dependency.consumer.stage.name for dependency in pipeline.dependencies]
        guarded = frozenset(Random(seed).sample(names, Random(seed + 1).randint(0, len(names))))
        try:
            found = Search(pipeline, plan, device, guarded=guarded).finds_deadlock(1_500)
        except TooLargeError:
            continue
        accepted = worst_case(pipeline, plan, device, guarded).is_safe
        assert not (found and accepted), f"case {seed}, wait-kernels before {sorted(guarded)}"
        outcomes.append((found, accepted))
    refused = outcomes.count((False, False))
    assert len(outcomes) > 200
    assert refused <= 0.05 * (refused + outcomes.count((False, True)))


# --- on the command line ---


def test_simulate_says_whether_a_plan_without_the_wait_kernel_can_deadlock(capsys):
    assert main(["simulate", "toy", "--sync", "tile", "--no-wait-kernel", "--json"]) == 0
    captured = capsys.readouterr()
    assert "wavesim: without the wait-kernel: can deadlock: 4 blocks of gemm2" in captured.err
    assert json.loads(captured.out)["waves"] == 3.0
    assert main(["simulate", "toy", "--sync", "tile", "--json"]) == 0
    assert not capsys.readouterr().err
