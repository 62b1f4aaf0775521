"""What verdicts rest on: CUDA's promises, what listed devices were seen to do, an otherwise idle GPU."""

import json
from dataclasses import replace

import pytest
from exhaustive_search import Rules, Search, TooLargeError
from safety_cases import launched_case_of
from safety_counts import claim_of
from toy_schedules import HALF_SM, TOY, pair, stage

from wavesim.cli.command_line import main
from wavesim.errors import DescriptionError
from wavesim.model.device import issue_order_seen, load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.plan.parsing import parse_plan
from wavesim.recordings.shipped import cases
from wavesim.safety.deadlock import safety_of
from wavesim.safety.verdict import Assumption
from wavesim.tuning.search import tune
from wavesim.workloads.figure_one import toy
from wavesim.workloads.mlps import gpt3_mlp

H200 = load("h200")
ROOM, ORDER, IDLE, LAUNCH = Assumption


def needs_of(word: str, device=H200, pipeline=None) -> set[Assumption]:
    verdict = safety_of(pipeline or gpt3_mlp(256), parse_plan(word), device)
    assert verdict.is_safe
    return set(verdict.needs)


@pytest.mark.parametrize(
    "word", ["stream", "graph", "pdl", "pdl+row", "persistent", "stream-k", "one-stream+row"]
)
def test_plans_whose_blocks_wait_only_for_started_ones_rest_on_what_cuda_promises(word):
    assert needs_of(word) == set()
    verdict = safety_of(toy(), parse_plan(word), TOY)
    assert (verdict.basis, verdict.rests_on) == ("cuda", "what CUDA promises")


def test_a_wait_kernel_rests_on_the_order_of_issue_seen_on_listed_devices():
    assert needs_of("row") == {ROOM, ORDER, LAUNCH}
    found = safety_of(gpt3_mlp(1024), parse_plan("row"), H200)
    assert found.basis == "seen"
    assert (
        "issue of the oldest launch's blocks first, no other passing them (seen on h100 and h200)"
        in found.rests_on
    )


def test_a_device_of_which_no_order_was_seen_is_told():
    text = safety_of(gpt3_mlp(256), parse_plan("row"), load("a100-80gb")).rests_on
    assert "seen on h100 and h200, not on a100-80gb" in text


def test_without_a_wait_kernel_the_gpu_must_be_idle_and_how_many_sms_that_means_is_told():
    assert needs_of("streams:no-wait-kernel+row") == {ROOM, IDLE, LAUNCH}
    found = safety_of(gpt3_mlp(256), parse_plan("streams:no-wait-kernel+row"), H200)
    assert found.worst is not None
    assert found.basis == "idle"
    assert (
        f"{found.worst.closed_sms + 1} of 132 SMs free of other work, also of a second copy" in found.rests_on
    )


def test_wait_kernels_that_fill_an_sm_each_need_as_many_that_other_work_leaves_alone_and_one_more():
    assert needs_of("row", TOY, toy()) == {ROOM, ORDER, LAUNCH}
    found = safety_of(toy(), parse_plan("row"), TOY)
    assert found.needed_sms == 3  # this plan's wait-kernel, a second copy's, and room for a block
    assert "with 3 of 4 SMs free of other work, also of a second copy of this plan" in found.rests_on
    small = pair(stage("first", 6, block=Block(256, 32)), stage("second", 6, block=Block(256, 32)))
    assert safety_of(small, parse_plan("row"), TOY).needed_sms == 1
    assert needs_of("row", TOY.with_sm_count(2), toy()) == set(Assumption)


def test_few_blocks_that_fit_on_one_sm_twice_over_need_only_room():
    few = pair(stage("first", 1, block=Block(256, 32)), stage("second", 1, block=Block(256, 32)))
    assert needs_of("row", TOY, few) == {ROOM, LAUNCH}
    assert needs_of("streams:no-wait-kernel+row", TOY, few) == {ROOM, LAUNCH}
    large = pair(stage("first", 1, block=HALF_SM), stage("second", 1, block=HALF_SM))
    assert needs_of("streams:no-wait-kernel+row", TOY, large) == {ROOM, IDLE, LAUNCH}


def test_a_cluster_needs_a_pair_of_neighbouring_sms():
    pipeline, plan = pair(stage("first", 4), stage("second", 3)), parse_plan("streams:no-wait-kernel+row")
    device = TOY.with_sm_count(6)
    assert safety_of(pipeline, plan, device).is_safe
    verdict = safety_of(pipeline, plan, device, clusters={"first": 2})
    assert not verdict.is_safe
    assert "no room for a cluster of first on any of 3 pairs of neighbouring SMs" in verdict.reason
    roomy = safety_of(pipeline, plan, device.with_sm_count(8), clusters={"first": 2})
    assert roomy.is_safe
    assert "8 of 8 SMs free of other work" in roomy.rests_on
    assert "can run on the other" in roomy.reason


def test_a_cluster_of_waiting_blocks_takes_one_pair_of_sms():
    pipeline, plan = pair(stage("first", 4), stage("second", 4)), parse_plan("streams:no-wait-kernel+row")
    device = TOY.with_sm_count(6)
    assert not safety_of(pipeline, plan, device, clusters={"first": 2}).is_safe
    both = safety_of(pipeline, plan, device, clusters={"first": 2, "second": 2})
    assert "closes 2 of 3 pairs of neighbouring SMs" in both.reason


def test_a_plan_that_is_safe_only_with_a_carve_out_that_cuda_does_not_give_unasked_says_so():
    large, small = Block(128, 168, dynamic_shared_bytes=140_000), Block(128, 168, dynamic_shared_bytes=24_000)
    plan, device = parse_plan("streams:no-wait-kernel+row"), H200.with_sm_count(2)

    def described(carveout):
        return pair(stage("first", 3, block=large, **carveout), stage("second", 2, block=small, **carveout))

    unasked, asking = described({"carveout": Kernel("k", Grid(1), small).carveout}), described({})
    assert Search(unasked, plan, device).finds_deadlock()
    assert not Search(asking, plan, device).finds_deadlock()
    by_default = safety_of(unasked, plan, device)
    assert not by_default.is_safe
    assert "cudaFuncAttributePreferredSharedMemoryCarveout = 100), which makes it safe" in by_default.reason
    asked = safety_of(asking, plan, device)
    assert asked.needs.keys() == {ROOM, IDLE, LAUNCH}
    assert "PreferredSharedMemoryCarveout = 100) for every kernel" in asked.needs[LAUNCH]
    assert safety_of(unasked, plan, device, carveout="full") == asked
    held = safety_of(unasked, parse_plan("row"), device)
    assert "= 100) for wait-kernel of second" in held.needs[LAUNCH]


def test_a_carve_out_that_there_is_not_is_refused():
    with pytest.raises(DescriptionError, match="carveout is 'half'; it must be 'full', 'default' or None"):
        safety_of(toy(), parse_plan("row"), TOY, carveout="half")


# --- against the exhaustive search ---


def test_every_assumption_that_is_named_is_one_that_some_plan_needs():
    """Where it does not hold, plans that name it deadlock: mixed with their producers, or beside a copy."""
    broken = {ORDER: Rules(is_oldest_first=False), IDLE: Rules(copies=2), ROOM: Rules(may_decline=True)}
    deadlocks = dict.fromkeys(broken, 0)
    for seed in range(400):
        pipeline, plan, device = launched_case_of(seed, most_blocks=3)
        for one in broken.keys() & safety_of(pipeline, plan, device).needs:
            try:
                deadlocks[one] += Search(pipeline, plan, device, broken[one]).finds_deadlock(1_000)
            except TooLargeError:
                continue
    assert min(deadlocks.values()) >= 5, deadlocks


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_no_verdict_claims_more_than_holds_in_any_order_that_it_allows(part):
    claims = [claim_of(seed, most_states=2_000) for seed in range(50_000 + 200 * part, 50_200 + 200 * part)]
    assert not [claim for claim in claims if "fails" in claim]
    assert {basis: claims.count(f"{basis}: holds") >= 3 for basis in ("cuda", "seen", "idle")} == {
        "cuda": True,
        "seen": True,
        "idle": True,
    }


def test_in_every_recording_of_streams_producers_blocks_start_before_consumers():
    """What the H200's file says was seen."""
    assert {"h100", "h200"} == set(issue_order_seen())
    pairs = 0
    for case in cases():
        for word in case.paths.keys() & {"row", "tile"}:
            trace = case.trace(word)
            names = [info.name for info in trace.header.stages]
            for dependency in trace.header.dependencies:
                producer = trace.start_ns[trace.stage == names.index(dependency.producer)]
                consumer = trace.start_ns[trace.stage == names.index(dependency.consumer)]
                assert consumer.min() + trace.header.timer_step_ns >= producer.max()
                pairs += 1
    assert pairs > 50


# --- what is said where ---


def test_commands_say_what_a_plan_rests_on(capsys):
    assert main(["simulate", "gpt3-mlp", "--tokens", "256", "--sync", "row", "--json"]) == 0
    safety = json.loads(capsys.readouterr().out)["safety"]
    assert (safety["is_safe"], safety["basis"], len(safety["rests_on"])) == (True, "seen", 3)
    assert safety["needed_sms"] == 3
    assert main(["compare", "toy", "--sync", "row", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["safety"]["basis"] for row in rows] == ["cuda", "seen"]
    assert main(["gen", "toy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["safety"]["basis"] == "seen"
    assert main(["gen", "toy"]) == 0
    assert "// Safety: rests on issue of blocks wherever an SM has room" in capsys.readouterr().out


def test_the_plan_to_run_is_chosen_by_what_is_accepted(capsys):
    for accept, basis in (("cuda", "cuda"), ("seen", "seen")):
        assert main(["tune", "toy", "--accept", accept, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["accept"] == accept
        rows = {row["plan"]: row["safety"]["basis"] for row in found["plans"]}
        assert rows[found["fastest"]] == basis
        assert rows[found["run"]] == "cuda"  # as good, and guaranteed
    with pytest.raises(SystemExit, match="2"):
        main(["tune", "toy", "--accept", "anything"])


def test_tuning_runs_the_fastest_plan_that_rests_on_no_more_than_is_accepted():
    tuning = tune(toy(), TOY)
    assert tuning.best.safety.basis == "cuda"
    assert tuning.accepting("seen").best.safety.basis == "seen"
    slower = replace(tuning, plans=tuple(row for row in tuning.plans if row.name != tuning.best.name))
    stream = [row for row in slower.plans if row.plan.is_stream_sync or row.safety.basis == "seen"]
    promised = replace(tuning, plans=tuple(stream))
    assert promised.best.plan.is_stream_sync
    assert [row.name for row in promised.faster] == ["row row"]
    assert (
        f"faster, but rests on more: row row, +25.0: {promised.faster[0].safety.rests_on}" in promised.notes
    )
    with pytest.raises(DescriptionError, match="accept is 'any'; it must be one of cuda, seen, idle"):
        tuning.accepting("any")
